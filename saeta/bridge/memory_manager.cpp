#include "saeta/bridge/memory_manager.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/process.hpp"
#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/bridge/arrow_status.hpp"
#include "saeta/bridge/bridge.hpp"
#include "saeta/bridge/buffer_io.hpp"
#include "saeta/bridge/copies.hpp"

#include <arrow/config.h>
#include <arrow/io/memory.h>
#include <arrow/util/config.h>

#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace saeta {
namespace {

/// A view to read on the CPU without a copy, after pending writes have finished. Null if the CPU can't read
/// the memory.
std::shared_ptr<arrow::Buffer> view_on_cpu(const std::shared_ptr<context>& ctx,
                                           const std::shared_ptr<arrow::Buffer>& source,
                                           std::shared_ptr<arrow::MemoryManager> cpu) {
  const buffer bytes = bytes_of(ctx, source);
  if (!host_accessible(bytes.kind())) {
    return nullptr;
  }
  synchronize_handover(std::span(&bytes, 1));
  return std::make_shared<arrow::Buffer>(source->address(), source->size(), std::move(cpu), source);
}

} // namespace

std::unique_ptr<arrow::Buffer> bridged_memory::copy_in(const arrow::Buffer& source,
                                                       std::shared_ptr<void> keepalive) {
  buffer copied;
  if (source.is_cpu()) {
    copied = upload_bytes(ctx_, host_bytes(source), kind_);
  } else if (const std::shared_ptr<context> from = context_of(*source.memory_manager())) {
    const buffer bytes = view_of(from, source, std::move(keepalive));
    if (ctx_->on_host()) {
      copied = allocate_memory(ctx_, bytes.size(), kind_);
      // The new memory has no other user yet, so it needs no use token.
      download(bytes, {reinterpret_cast<std::byte*>(copied.address()), copied.size()});
    } else {
      copied = copy_bytes(ctx_, bytes, kind_);
    }
  } else {
    return nullptr;
  }
  return std::make_unique<held_buffer>(copied, access::read, shared_from_this());
}

bridged_memory::owned_copy bridged_memory::copy_out(const arrow::Buffer& source,
                                                    std::shared_ptr<void> keepalive,
                                                    arrow::MemoryManager& to) {
  if (!to.is_cpu()) {
    return nullptr;
  }
  ARROW_ASSIGN_OR_RAISE(auto made, to.AllocateBuffer(source.size()));
  download(view_of(ctx_, source, std::move(keepalive)),
           {reinterpret_cast<std::byte*>(made->mutable_data()), static_cast<std::size_t>(made->size())});
  return made;
}

arrow::Result<std::shared_ptr<arrow::io::RandomAccessFile>>
bridged_memory::GetBufferReader(std::shared_ptr<arrow::Buffer> source) {
  return bridge::run_guarded([&]() -> arrow::Result<std::shared_ptr<arrow::io::RandomAccessFile>> {
    if (source->is_cpu()) {
      return std::make_shared<arrow::io::BufferReader>(std::move(source));
    }
    return std::make_shared<buffer_reader>(std::move(source));
  });
}

arrow::Result<std::shared_ptr<arrow::io::OutputStream>>
bridged_memory::GetBufferWriter(std::shared_ptr<arrow::Buffer> target) {
  return bridge::run_guarded([&]() -> arrow::Result<std::shared_ptr<arrow::io::OutputStream>> {
    return std::make_shared<buffer_writer>(std::move(target));
  });
}

arrow::Result<std::unique_ptr<arrow::Buffer>> bridged_memory::AllocateBuffer(std::int64_t bytes) {
  return bridge::run_guarded([&]() -> arrow::Result<std::unique_ptr<arrow::Buffer>> {
    if (bytes < 0) {
      throw error(errc::invalid_argument, concat("the size of a buffer can't be negative, got ", bytes));
    }
    const buffer buffer = allocate_memory(ctx_, static_cast<std::size_t>(bytes), kind_);
    return std::make_unique<held_buffer>(buffer, access::write, shared_from_this());
  });
}

arrow::Result<std::shared_ptr<arrow::Device::SyncEvent>> bridged_memory::MakeDeviceSyncEvent() {
  return bridge::run_guarded([&]() -> arrow::Result<std::shared_ptr<arrow::Device::SyncEvent>> {
    if (ctx_->on_host()) {
      return nullptr;
    }
    return bridged_event::make(ctx_);
  });
}

arrow::Result<std::shared_ptr<arrow::Device::SyncEvent>>
bridged_memory::WrapDeviceSyncEvent(void* event, arrow::Device::SyncEvent::release_fn_t release) {
  return bridge::run_guarded([&]() -> arrow::Result<std::shared_ptr<arrow::Device::SyncEvent>> {
    return std::make_shared<bridged_event>(ctx_, event, std::move(release));
  });
}

bridged_memory::shared_copy bridged_memory::CopyBufferFrom(const std::shared_ptr<arrow::Buffer>& source,
                                                           const manager& /*from*/) {
  try {
    return copy_in(*source, source);
  } catch (const error& failure) {
    if (failure.code() == errc::unsupported) { // out of reach: libarrow then copies through the CPU
      return nullptr;
    }
    return bridge::current_failure();
  } catch (...) {
    return bridge::current_failure();
  }
}

bridged_memory::shared_copy bridged_memory::CopyBufferTo(const std::shared_ptr<arrow::Buffer>& source,
                                                         const manager& to) {
  return bridge::run_guarded([&]() -> shared_copy { return copy_out(*source, source, *to); });
}

bridged_memory::owned_copy bridged_memory::CopyNonOwnedFrom(const arrow::Buffer& source,
                                                            const manager& /*from*/) {
  return bridge::run_guarded([&]() -> owned_copy { return copy_in(source, nullptr); });
}

bridged_memory::owned_copy bridged_memory::CopyNonOwnedTo(const arrow::Buffer& source, const manager& to) {
  return bridge::run_guarded([&]() -> owned_copy { return copy_out(source, nullptr, *to); });
}

bridged_memory::shared_copy bridged_memory::ViewBufferFrom(const std::shared_ptr<arrow::Buffer>& source,
                                                           const manager& from) {
  return bridge::run_guarded([&]() -> shared_copy {
    if (!ctx_->on_host() || context_of(*from) == nullptr) {
      return nullptr;
    }
    return view_on_cpu(context_of(*from), source, shared_from_this());
  });
}

bridged_memory::shared_copy bridged_memory::ViewBufferTo(const std::shared_ptr<arrow::Buffer>& source,
                                                         const manager& to) {
  return bridge::run_guarded(
      [&]() -> shared_copy { return to->is_cpu() ? view_on_cpu(ctx_, source, to) : nullptr; });
}

// The live memory managers, and their registration with libarrow.

namespace {

struct manager_table {
  using key = std::pair<const context*, memory_kind>;

  std::mutex mutex;
  /// A manager keeps its context, so no two contexts with a manager have the same key.
  std::map<key, std::weak_ptr<bridged_memory>> entries;
};

/// Empty in a child of fork, because the contexts of its parent are not its own.
per_process<manager_table> all_managers;

/// The kind of memory of a device type; nullopt for types that are not ours.
std::optional<memory_kind> kind_of(arrow::DeviceAllocationType type) noexcept {
  switch (type) {
  case arrow::DeviceAllocationType::kCUDA:
  case arrow::DeviceAllocationType::kEXT_DEV:
    return memory_kind::device;
  case arrow::DeviceAllocationType::kCUDA_HOST:
    return memory_kind::pinned;
  case arrow::DeviceAllocationType::kCUDA_MANAGED:
    return memory_kind::managed;
  default:
    return std::nullopt;
  }
}

arrow::Result<std::shared_ptr<arrow::MemoryManager>> find_manager(const context_finder& open,
                                                                  std::int64_t ordinal, memory_kind kind) {
  return bridge::run_guarded([&]() -> arrow::Result<std::shared_ptr<arrow::MemoryManager>> {
    const std::shared_ptr<context> ctx = open(ordinal);
    if (ctx == nullptr) {
      throw error(errc::device, concat("this machine has no device number ", ordinal));
    }
    return memory_manager_of(ctx, kind);
  });
}

} // namespace

bridged_memory::bridged_memory(std::shared_ptr<context> ctx, memory_kind kind)
    : MemoryManager(std::make_shared<bridged_device>(ctx, kind)), ctx_(std::move(ctx)), kind_(kind) {}

bridged_memory::~bridged_memory() {
  manager_table& known = all_managers.get();
  const std::lock_guard lock(known.mutex);
  const auto entry = known.entries.find({ctx_.get(), kind_});
  // An entry that has not expired belongs to a newer manager.
  if (entry != known.entries.end() && entry->second.expired()) {
    known.entries.erase(entry);
  }
}

std::shared_ptr<arrow::MemoryManager> memory_manager_of(const std::shared_ptr<context>& ctx,
                                                        memory_kind kind) {
  require_argument(ctx, "ctx");
  const memory_kind kept = ctx->on_host() ? memory_kind::host : kind;
  if (!ctx->on_host() && kept == memory_kind::host) {
    throw error(
        errc::invalid_argument,
        concat("ordinary host memory has no memory manager in the context of ", to_string(ctx->device())));
  }
  manager_table& known = all_managers.get();
  const std::lock_guard lock(known.mutex);
  std::weak_ptr<bridged_memory>& entry = known.entries[{ctx.get(), kept}];
  std::shared_ptr<bridged_memory> memory = entry.lock();
  if (memory == nullptr) {
    memory = std::make_shared<bridged_memory>(ctx, kept);
    entry = memory;
  }
  return memory;
}

std::shared_ptr<arrow::MemoryManager> memory_manager_of(const std::shared_ptr<context>& ctx) {
  require_argument(ctx, "ctx");
  return memory_manager_of(ctx, own_kind(ctx->device()));
}

std::shared_ptr<context> context_of(const arrow::MemoryManager& of) {
  const auto* const ours = dynamic_cast<const bridged_memory*>(&of);
  return ours == nullptr ? nullptr : ours->ctx();
}

void register_devices(arrow::DeviceAllocationType type, context_finder open) {
  require_argument(open, "open");
  static std::mutex mutex;
  static std::set<arrow::DeviceAllocationType> registered;
  const std::optional<memory_kind> kind = kind_of(type);
  if (!kind) {
    throw error(
        errc::invalid_argument,
        concat("device type ", static_cast<int>(type),
               " is not supported: expected CUDA (2), CUDA_HOST (3), EXT_DEV (12) or CUDA_MANAGED (13)"));
  }
  const std::lock_guard lock(mutex);
  if (registered.contains(type)) {
    return;
  }
  const arrow::Status done =
      arrow::RegisterDeviceMapper(type, [open = std::move(open), kind = *kind](std::int64_t ordinal) {
        return find_manager(open, ordinal, kind);
      });
  if (!done.ok()) {
    throw error(errc::exchange, concat("libarrow has memory managers of another library for device type ",
                                       static_cast<int>(type), ": ", done.message()));
  }
  registered.insert(type);
}

std::string built_arrow_version() { return ARROW_VERSION_STRING; }
std::string loaded_arrow_version() { return arrow::GetBuildInfo().version_string; }

} // namespace saeta
