#include "python/src/allocators/torch_allocator.hpp"

#include "python/src/core/gil.hpp"
#include "saeta/base/process.hpp"
#include "saeta/base/text.hpp"
#include "saeta/memory/loans/lent_memory.hpp"
#include "saeta/order/captures.hpp"

#include <array>
#include <mutex>

namespace saeta::py {
namespace {

struct served_devices {
  using by_ordinal = std::array<torch_source, 64>; // torch's own limit

  std::mutex mutex;
  std::array<by_ordinal, 2> of_kind;
};

/// Never destroyed, because torch may free memory until the process ends.
served_devices& devices() {
  static constinit per_process<served_devices> all;
  return all.get();
}

torch_source& at(served_devices& all, std::int32_t ordinal, torch_memory kind) {
  auto& sources = all.of_kind[static_cast<std::size_t>(kind)];
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= sources.size()) {
    throw error(errc::out_of_range,
                concat("torch's device ", ordinal, " is out of range: expected 0 to ", sources.size() - 1));
  }
  return sources[static_cast<std::size_t>(ordinal)];
}

/// torch's stream 0 is the legacy default stream.
stream_handle handle_of(void* stream) noexcept {
  return stream == nullptr ? legacy_stream : stream_handle{reinterpret_cast<std::uintptr_t>(stream)};
}

stream_ref stream_of(const context& ctx, void* stream) {
  return ctx.on_host() ? ctx.work_stream() : stream_ref(*ctx.device_backend(), handle_of(stream));
}

void* allocate(std::size_t bytes, std::int32_t ordinal, void* stream) {
  const torch_source from = source_for_torch(ordinal, torch_memory::tensors);
  const stream_ref on = stream_of(*from.ctx, stream);
  if (const auto pool = torch_pool_for(ordinal, stream)) {
    return lend_memory(pool, bytes, on);
  }
  if (on.made_in_capture() && graph_pool_scope::open_for(on.owner()) == nullptr) {
    throw error(
        errc::invalid_argument,
        concat("'", from.label.name(), "': ", bytes,
               " bytes can't be allocated on a stream that captures a graph, because torch has opened no "
               "pool for it: capture with torch.cuda.graph, or with saeta.allocators.graph_pool around the "
               "capture; for a torch.cuda.MemPool use saeta.allocators.torch_mem_pool"));
  }
  return lend_memory(from.ctx, bytes, on, from.label);
}

void* allocate_segment(std::size_t bytes, std::int32_t ordinal, void* stream) {
  const torch_source from = source_for_torch(ordinal, torch_memory::segments);
  static_cast<void>(from.ctx->clocks()->graph_captures().note(stream_of(*from.ctx, stream)));
  return lend_ready_memory(from.ctx, bytes, from.label);
}

} // namespace

void serve_torch(torch_source from, std::int32_t ordinal, torch_memory kind) {
  served_devices& all = devices();
  const std::lock_guard lock(all.mutex);
  std::swap(at(all, ordinal, kind), from);
}

torch_source source_for_torch(std::int32_t ordinal, torch_memory kind) {
  served_devices& all = devices();
  const std::lock_guard lock(all.mutex);
  torch_source found = at(all, ordinal, kind);
  if (found.ctx == nullptr) {
    throw error(errc::invalid_argument,
                concat("no context serves torch's device cuda:", ordinal, ": call saeta.allocators.",
                       kind == torch_memory::tensors ? "torch_allocator" : "torch_mem_pool", " for it"));
  }
  return found;
}

} // namespace saeta::py

extern "C" {

void* saeta_torch_allocate(ssize_t bytes, int device, void* stream) {
  return saeta::py::released_gil(
      [&] { return saeta::py::allocate(static_cast<std::size_t>(bytes), device, stream); });
}

void saeta_torch_free(void* address, ssize_t bytes, int /*device*/, void* stream) noexcept {
  saeta::py::released_gil([&] {
    saeta::take_back_memory(address, static_cast<std::size_t>(bytes), saeta::py::handle_of(stream));
  });
}

void saeta_torch_record_stream(void* address, void* stream) noexcept {
  saeta::py::released_gil([&] { saeta::note_lent_use(address, saeta::py::handle_of(stream)); });
}

void* saeta_torch_allocate_segment(ssize_t bytes, int device, void* stream) {
  return saeta::py::released_gil(
      [&] { return saeta::py::allocate_segment(static_cast<std::size_t>(bytes), device, stream); });
}

void saeta_torch_free_segment(void* address, ssize_t bytes, int /*device*/, void* /*stream*/) noexcept {
  saeta::py::released_gil(
      [&] { saeta::take_back_memory(address, static_cast<std::size_t>(bytes), std::nullopt); });
}
}
