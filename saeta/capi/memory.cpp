// Versions, contexts and buffers of the C interface.
#include "saeta/base/checked.hpp"
#include "saeta/base/version.hpp"
#include "saeta/capi/call.hpp"
#include "saeta/interop/dlpack/dlpack.hpp"
#include "saeta/memory/host_copies.hpp"
#include "saeta/runtime/runtime.hpp"

#include <chrono>

namespace saeta::capi {
namespace {

device_id device_of(const char* name) { return name == nullptr ? best_device() : parse_device(name); }

stream_ref stream_of(context& ctx, std::int64_t number) {
  if (number == 0) {
    return ctx.work_stream();
  }
  const std::optional<stream_handle> named = tensor_stream(number);
  if (ctx.on_host() || !named) {
    throw error(errc::invalid_argument, concat("stream ", number, " can't be used on ",
                                               to_string(ctx.device()), ": 0 is the work stream"));
  }
  return {*ctx.device_backend(), *named};
}

access access_of(std::int32_t mode) {
  switch (mode) {
  case SAETA_READ:
    return access::read;
  case SAETA_WRITE:
    return access::write;
  case SAETA_READ_WRITE:
    return access::read_write;
  default:
    throw error(errc::invalid_argument, concat("the mode is ", mode, ", expected SAETA_READ (1), ",
                                               "SAETA_WRITE (2) or SAETA_READ_WRITE (3)"));
  }
}

} // namespace
} // namespace saeta::capi

using namespace saeta;
using namespace saeta::capi;

std::int32_t saeta_c_version(void) { return SAETA_C_VERSION; }
const char* saeta_version(void) { return saeta::version.data(); }

const char* saeta_code_name(saeta_code code) {
  if (code == SAETA_OK) {
    return "ok";
  }
  if (code == SAETA_INTERNAL) {
    return "internal";
  }
  // The names of errors are literals.
  return code < SAETA_OK || code > SAETA_INTERNAL ? "unknown" : name_of(static_cast<errc>(code - 1)).data();
}

saeta_code saeta_release(void* handle) {
  return run([&] { handle_table::get().release(handle); });
}

saeta_code saeta_count_handles(uint64_t* count) {
  return run([&] { set(count, handle_table::get().size()); });
}

// ---- contexts and budgets ----

saeta_code saeta_context_open(const char* device, const saeta_context_options* options,
                              saeta_context** result) {
  return give(result, [&] {
    const saeta_context_options given = options_of(options, SAETA_CONTEXT_OPTIONS);
    open_options chosen;
    if (given.budget != 0) {
      chosen.budget = given.budget;
    }
    if (given.stack != nullptr) {
      chosen.stack = given.stack;
    }
    if (given.wait_ms >= 0) {
      chosen.wait = std::chrono::milliseconds(given.wait_ms);
    }
    return handle_of<saeta_context>(open_context(device_of(device), chosen));
  });
}

saeta_code saeta_context_child(saeta_context* ctx, const char* name, uint64_t limit, saeta_context** result) {
  return give(result, [&] {
    return handle_of<saeta_context>(
        get(ctx, "context")->with_budget(std::string(required_text(name, "name")), limit));
  });
}

saeta_code saeta_context_reserve(saeta_context* ctx, uint64_t bytes, saeta_context** result) {
  return give(result, [&] { return handle_of<saeta_context>(get(ctx, "context")->with_reservation(bytes)); });
}

saeta_code saeta_context_set_budget(saeta_context* ctx, uint64_t bytes) {
  return run([&] { get(ctx, "context")->set_budget(bytes); });
}

saeta_code saeta_context_memory(saeta_context* ctx, saeta_memory* result) {
  return run([&] {
    const memory_statistics seen = get(ctx, "context")->reports().statistics();
    saeta_memory numbers = SAETA_MEMORY;
    numbers.current = seen.budget.current;
    numbers.reserved = seen.budget.reserved;
    numbers.limit = seen.budget.limit;
    numbers.remaining = seen.budget.remaining;
    numbers.peak = seen.budget.peak;
    numbers.held = seen.held;
    numbers.pinned = seen.pinned;
    set_numbers(result, numbers);
  });
}

saeta_code saeta_context_counters(saeta_context* ctx, saeta_counters* result) {
  return run([&] {
    const counter_values seen = get(ctx, "context")->copies().read_counters();
    saeta_counters numbers = SAETA_COUNTERS;
    numbers.host_to_device_bytes = seen.host_to_device.bytes;
    numbers.device_to_host_bytes = seen.device_to_host.bytes;
    numbers.device_to_device_bytes = seen.device_to_device.bytes;
    numbers.host_to_host_bytes = seen.host_to_host.bytes;
    numbers.host_to_device_transfers = seen.host_to_device.transfers;
    numbers.device_to_host_transfers = seen.device_to_host.transfers;
    numbers.allocations = seen.allocations;
    numbers.imports = seen.imports;
    numbers.exports = seen.exports;
    numbers.synchronizations = seen.synchronizations;
    set_numbers(result, numbers);
  });
}

saeta_code saeta_context_reset_counters(saeta_context* ctx) {
  return run([&] { get(ctx, "context")->copies().reset_counters(); });
}

saeta_code saeta_context_trim(saeta_context* ctx, uint64_t* freed) {
  return run([&] {
    const std::size_t bytes = get(ctx, "context")->trim();
    if (freed != nullptr) {
      *freed = bytes;
    }
  });
}

saeta_code saeta_context_synchronize(saeta_context* ctx) {
  return run([&] {
    const auto used = get(ctx, "context");
    used->synchronize(used->work_stream());
  });
}

saeta_code saeta_context_stream(saeta_context* ctx, int64_t* stream) {
  return run([&] { set(stream, dlpack_import_stream(*get(ctx, "context")).value_or(0)); });
}

// ---- buffers ----

saeta_code saeta_buffer_allocate(saeta_context* ctx, uint64_t count, uint64_t value_bytes, const char* tag,
                                 saeta_buffer** result) {
  return give(result, [&] {
    const auto used = get(ctx, "context");
    const std::uint64_t bytes = checked_mul(count, value_bytes, "number of values x bytes of a value");
    return handle_of_value<saeta_buffer>(
        buffer::allocate(used, bytes, used->work_stream(), tag == nullptr ? "" : tag));
  });
}

saeta_code saeta_buffer_size(saeta_buffer* of, uint64_t* bytes) {
  return run([&] { set(bytes, get(of, "buffer")->size()); });
}

saeta_code saeta_buffer_slice(saeta_buffer* of, uint64_t offset, uint64_t bytes, saeta_buffer** result) {
  return give(result, [&] { return handle_of_value<saeta_buffer>(get(of, "buffer")->slice(offset, bytes)); });
}

saeta_code saeta_buffer_write(saeta_buffer* target, uint64_t offset, const void* source, uint64_t bytes) {
  return run([&] {
    const auto to = get(target, "buffer");
    if (bytes != 0) {
      require_argument(source, "source");
    }
    copy_from_host(*to, offset, {static_cast<const std::byte*>(source), bytes});
  });
}

saeta_code saeta_buffer_read(saeta_buffer* source, uint64_t offset, void* target, uint64_t bytes) {
  return run([&] {
    const auto from = get(source, "buffer");
    if (bytes != 0) {
      require_argument(target, "target");
    }
    copy_to_host(*from, offset, {static_cast<std::byte*>(target), bytes});
  });
}

saeta_code saeta_use_begin(saeta_context* ctx, int64_t stream, saeta_buffer* const* buffers,
                           const int32_t* modes, size_t count, saeta_use** result) {
  return give(result, [&] {
    const auto used = get(ctx, "context");
    if (count != 0) {
      require_argument(buffers, "buffers");
      require_argument(modes, "modes");
    }
    std::vector<use> uses;
    for (std::size_t i = 0; i < count; ++i) {
      uses.push_back({*get(buffers[i], "buffers"), access_of(modes[i])});
    }
    return handle_of<saeta_use>(std::make_shared<use_token>(stream_of(*used, stream), uses));
  });
}

saeta_code saeta_use_address(saeta_use* of, saeta_buffer* used, int32_t mode, uint64_t value_bytes,
                             void** address, uint64_t* count) {
  return run([&] {
    const auto token = get(of, "use");
    const auto bytes = get(used, "buffer");
    require_argument(address, "address");
    if (value_bytes == 0 || bytes->address() % value_bytes != 0) {
      throw error(errc::invalid_argument,
                  concat("the buffer is not aligned to values of ", value_bytes, " bytes"));
    }
    *address = access_of(mode) == access::read
                   ? const_cast<std::byte*>(token->span<const std::byte>(*bytes).data())
                   : token->span<std::byte>(*bytes).data();
    if (count != nullptr) {
      *count = bytes->size() / value_bytes;
    }
  });
}

saeta_code saeta_use_end(saeta_use* of) {
  return run([&] { get(of, "use")->finish(); });
}
