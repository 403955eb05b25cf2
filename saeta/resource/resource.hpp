// A resource allocates and frees bytes in stream order. A decorator is a resource on top of a resource.
//
// Owner     A block belongs to whoever allocated it, until a successful `deallocate` on the same resource. The resource
//           outlives its blocks.
// Order     The memory may be used on `stream` at once, elsewhere after an event recorded there. `deallocate` says that
//           work queued on `stream` so far is the last to use the block.
// Thread    Any.
// Failure   `allocate`: error budget_exceeded or out_of_memory, nothing taken. `deallocate`: false, reported, and the
//           block still belongs to the caller.
// Zero      A request for 0 bytes succeeds without a driver call: a null pointer with its own generation.
#pragma once

#include "saeta/device/stream.hpp"
#include "saeta/resource/block.hpp"

#include <memory>
#include <string>

namespace saeta {

class reservation;

/// What is asked of a resource.
struct allocation_request {
  std::size_t bytes = 0;
  std::size_t alignment =
      0; ///< a power of two; 0 asks for the device's own. More than the device's own is honoured
  tag label{};
  budget* charge_to = nullptr;      ///< null: the budget of the `budget_resource` itself
  reservation* draw_from = nullptr; ///< bytes promised before, instead of a fresh charge
};

/// What a resource needs to know of the work on a block before it takes the block back.
enum class release_order {
  by_identity, ///< the stream of `deallocate` is only compared by its id: it may have been destroyed meanwhile
  by_stream,   ///< the stream must still exist: the driver orders the free on it
  when_complete, ///< all work must have finished: freeing may wait for the device or reuse the memory at once
};

class resource {
public:
  resource() = default;
  resource(const resource&) = delete;
  resource& operator=(const resource&) = delete;
  virtual ~resource() = default;

  [[nodiscard]] block allocate(const allocation_request& what, stream_ref stream) {
    return do_allocate(what, stream);
  }
  [[nodiscard]] block allocate(std::size_t bytes, std::size_t alignment, stream_ref stream) {
    return do_allocate({bytes, alignment, {}, nullptr, nullptr}, stream);
  }
  [[nodiscard]] bool deallocate(const block& what, stream_ref stream) noexcept {
    return do_deallocate(what, stream);
  }
  /// Gives memory that is held but not in use back to the device; returns the bytes that went back.
  virtual std::size_t trim() = 0;
  [[nodiscard]] virtual release_order order() const noexcept = 0;
  /// Bytes of the device that this resource and what lies below hold: in use, cached, or lost to rounding.
  [[nodiscard]] virtual std::uint64_t held_bytes() const = 0;

private:
  virtual block do_allocate(const allocation_request& what, stream_ref stream) = 0;
  virtual bool do_deallocate(const block& what, stream_ref stream) noexcept = 0;
};

/// A resource on top of another one, which it shares; passes everything on that it does not change.
class decorator : public resource {
public:
  explicit decorator(std::shared_ptr<resource> upstream) : upstream_(std::move(upstream)) {}

  std::size_t trim() override { return upstream_->trim(); }
  [[nodiscard]] release_order order() const noexcept override { return upstream_->order(); }
  [[nodiscard]] std::uint64_t held_bytes() const override { return upstream_->held_bytes(); }

protected:
  [[nodiscard]] resource& upstream() const noexcept { return *upstream_; }

private:
  std::shared_ptr<resource> upstream_;
};

} // namespace saeta
