// Bytes of a context as an rmm::device_buffer, and a device buffer as bytes of a context, without a copy.
//
// @code
// std::unique_ptr<rmm::device_buffer> shown = lend_device_buffer(bytes, rmm_stream); // shares the storage
// const buffer taken = take_device_buffer(ctx, std::move(shown)); // the same storage again
// @endcode
//
// Owner     A lent device buffer shares the storage; the bytes stay charged to their context. A taken buffer
//           is what its memory is: bytes that were lent are the same storage again, and bytes that came from
//           a context through context_resource.hpp become a storage of that context. For any other memory
//           the result is a view that keeps the device buffer.
// Order     `lend`: the stream waits for the last writes. RMM frees a device buffer on its stream, and the
//           work that is queued there by then counts as its last use. `take`: later uses wait for the work
//           that is queued on the stream of the device buffer now.
// Writes    The bytes of a lent device buffer may only be read, because others share them. Growing it fails
//           with rmm::bad_alloc.
// Thread    Any; a device buffer is used by one thread at a time.
// Failure   invalid_argument (memory of another device), busy (the stream captures a graph), device.
// Links     librmm (26.10 or newer).
#pragma once

#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/memory/export_hold.hpp"
#include "saeta/memory/loans/lent_memory.hpp"
#include "saeta/rmm/context_resource.hpp"
#include "saeta/rmm/current_device.hpp"
#include "saeta/rmm/stream.hpp"

#include <cuda/memory_resource>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <rmm/aligned.hpp>
#include <rmm/device_buffer.hpp>
#include <rmm/error.hpp>
#include <rmm/resource_ref.hpp>
#include <span>
#include <utility>

namespace saeta {

/// One buffer as a resource of RMM. It serves one request: the one for exactly these bytes.
///
/// @code
/// lent_buffer shown(bytes); // lends exactly these bytes, to one borrower at a time
/// void* const memory = shown.allocate(rmm_stream, bytes.size(), 256); // ordered behind the last writes
/// shown.deallocate(rmm_stream, memory, bytes.size(), 256);            // later writes wait for the stream
/// @endcode
class lent_buffer {
public:
  explicit lent_buffer(buffer shown) : state_(std::make_shared<state>(std::move(shown))) {}

  [[nodiscard]] void* allocate(cuda::stream_ref stream, std::size_t bytes, std::size_t /*alignment*/) {
    begin(bytes);
    try {
      order_handover(std::span(&state_->shown, 1), *state_->shown.owner()->ctx()->device_backend(),
                     to_handle(stream));
    } catch (...) {
      state_->hold.reset();
      throw;
    }
    return address();
  }
  void deallocate(cuda::stream_ref stream, void* /*pointer*/, std::size_t /*bytes*/,
                  std::size_t /*alignment*/) noexcept {
    state_->hold->end_on(to_handle(stream));
    end();
  }

  /// The host waits for the last writes. After `deallocate_sync` the use counts as unknown.
  [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t /*alignment*/) {
    synchronize_handover(std::span(&state_->shown, 1));
    begin(bytes);
    return address();
  }
  void deallocate_sync(void* /*pointer*/, std::size_t /*bytes*/, std::size_t /*alignment*/) noexcept {
    end();
  }

  /// Absent once the memory was returned.
  [[nodiscard]] const buffer& shown() const noexcept { return state_->shown; }

  friend bool operator==(const lent_buffer& a, const lent_buffer& b) noexcept { return a.state_ == b.state_; }
  friend void get_property(const lent_buffer&, cuda::mr::device_accessible) noexcept {}

private:
  /// Shared, because RMM copies resources.
  struct state {
    explicit state(buffer lent) : shown(std::move(lent)) {}

    buffer shown;
    std::optional<export_hold> hold; ///< while the memory is lent
  };

  void begin(std::size_t bytes) {
    if (state_->hold || bytes != state_->shown.size()) {
      throw rmm::bad_alloc(concat("a request for ", bytes, " bytes: this resource lends a buffer of ",
                                  state_->shown.size(), " bytes, once"));
    }
    state_->hold.emplace(std::span(&state_->shown, 1), access::read);
  }
  void end() noexcept {
    state_->hold.reset();
    state_->shown = {};
  }
  [[nodiscard]] void* address() const noexcept { return reinterpret_cast<void*>(state_->shown.address()); }

  std::shared_ptr<state> state_;
};

static_assert(cuda::mr::resource_with<lent_buffer, cuda::mr::device_accessible>);

/// Lends bytes to a reader that works on `stream`.
[[nodiscard]] inline std::unique_ptr<rmm::device_buffer> lend_device_buffer(const buffer& bytes,
                                                                            cuda::stream_ref stream) {
  if (bytes.size() == 0) {
    return std::make_unique<rmm::device_buffer>(0, stream, lent_buffer(bytes));
  }
  const current_device here(bytes.owner()->device());
  // RMM wants to know what the address is a multiple of.
  const std::size_t aligned = bytes.address() & (~bytes.address() + 1);
  return std::make_unique<rmm::device_buffer>(bytes.size(),
                                              std::min<std::size_t>(aligned, rmm::CUDA_ALLOCATION_ALIGNMENT),
                                              stream, lent_buffer(bytes));
}

/// Takes a device buffer over.
/// @param ctx     the bytes are memory of its device
/// @param source  the resource that the bytes come from: that of the device buffer, or the one below it if
///                that only passes requests on. It must outlive the call.
[[nodiscard]] inline buffer take_device_buffer(const std::shared_ptr<context>& ctx,
                                               std::unique_ptr<rmm::device_buffer> from,
                                               rmm::device_async_resource_ref source, tag label = "rmm") {
  require_argument(ctx, "ctx");
  require_argument(from, "from");
  const std::size_t bytes = from->size();
  if (bytes == 0) {
    return {};
  }
  const auto* const lent = cuda::mr::resource_cast<lent_buffer>(&source);
  const auto* const lender = cuda::mr::resource_cast<context_resource>(&source);
  const context* const owner = lent != nullptr     ? lent->shown().owner()->ctx().get()
                               : lender != nullptr ? lender->ctx().get()
                                                   : nullptr;
  if (owner != nullptr && owner->device() != ctx->device()) {
    throw error(errc::invalid_argument,
                concat("a device buffer of ", bytes, " bytes is memory of ", to_string(owner->device()),
                       ", and the context is that of ", to_string(ctx->device())));
  }
  const stream_ref last(*ctx->device_backend(), to_handle(from->stream()));
  if (last.made_in_capture()) {
    throw error(errc::busy, concat("a device buffer of ", bytes,
                                   " bytes can't be taken over while its stream captures a graph"));
  }
  if (owner != nullptr && owner->shares_with(*ctx)) {
    const buffer own = lent != nullptr ? lent->shown() : buffer(find_lent(from->data()));
    if (own.present()) {
      from.reset(); // the loan ends on the stream of the device buffer
      return own.slice(0, bytes);
    }
  }
  external_memory view;
  view.pointer = from->data();
  view.bytes = bytes;
  view.device = ctx->device();
  view.access = mutability::writable;
  view.ready = mark(last);
  view.owner_orders_own_work = true; // RMM frees on the stream of the device buffer
  view.tag = label.name();
  view.keepalive = std::move(from);
  return buffer::adopt(ctx, std::move(view));
}

[[nodiscard]] inline buffer take_device_buffer(const std::shared_ptr<context>& ctx,
                                               std::unique_ptr<rmm::device_buffer> from) {
  require_argument(from, "from");
  const rmm::device_async_resource_ref source = from->memory_resource();
  return take_device_buffer(ctx, std::move(from), source);
}

} // namespace saeta
