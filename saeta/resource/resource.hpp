// A resource allocates and frees bytes in stream order. A decorator is a resource on top of a resource.
//
// Owner     A block belongs to whoever allocated it, until a successful `deallocate` on the same resource. The resource
//           outlives its blocks.
// Order     The memory may be used on `stream` at once, on others once `block::ready` has passed. `deallocate` names the
//           points after which nobody uses the block: of streams, or of a stream as it is now. They cover `block::ready`;
//           with none of them the block was not used.
// Thread    Any.
// Failure   `allocate`: error budget_exceeded or out_of_memory, nothing taken. `deallocate`: false, reported, and the
//           block still belongs to the caller.
// Zero      A request for 0 bytes succeeds without a driver call: a null pointer with its own generation.
#pragma once

#include "saeta/order/timeline.hpp"
#include "saeta/resource/block.hpp"

#include <memory>
#include <span>

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

/// The kind of a device's own memory.
[[nodiscard]] constexpr memory_kind own_kind(device_id device) noexcept {
  return device.kind == device_kind::cpu ? memory_kind::host : memory_kind::device;
}

/// What every resource says of a block before it has memory: of the device's own kind, unless the resource says otherwise.
/// @param alignment  of that memory. @param timeline  of `stream`.
[[nodiscard]] inline block describe(const allocation_request& request, device_id device,
                                    std::size_t alignment, const stream_ref& stream, timeline_id timeline) {
  const std::uint64_t generation = next_generation();
  return {// Every member, since a block that is zeroed first takes longer than the rest of its allocation.
          .pointer = nullptr,
          .bytes = request.bytes,
          .alignment = alignment,
          .device = device,
          .stream_id = stream.id(),
          .timeline = timeline,
          .ready = {},
          .generation = generation,
          .label = request.label,
          .base = nullptr,
          .base_bytes = 0,
          .record = nullptr,
          .cached = false,
          .order = release_order::in_stream_order,
          .kind = own_kind(device),
          .charged = nullptr};
}

class resource {
public:
  resource() = default;
  resource(const resource&) = delete;
  resource& operator=(const resource&) = delete;
  virtual ~resource() = default;

  [[nodiscard]] block allocate(const allocation_request& request, const stream_ref& stream) {
    return do_allocate(request, stream);
  }
  [[nodiscard]] block allocate(std::size_t bytes, std::size_t alignment, const stream_ref& stream) {
    return do_allocate({bytes, alignment, {}, nullptr, nullptr}, stream);
  }
  [[nodiscard]] bool deallocate(const block& freed, std::span<const point> after) noexcept {
    return after.empty() && !freed.ready.empty() ? do_deallocate(freed, {&freed.ready, 1})
                                                 : do_deallocate(freed, after);
  }
  /// After everything queued on the stream so far.
  [[nodiscard]] bool deallocate(const block& freed, const stream_ref& stream) noexcept;
  /// Gives memory that is held but not in use back to the device; returns the bytes that went back.
  virtual std::size_t trim() = 0;
  /// Bytes of the device that this resource and what lies below hold: in use, cached, or lost to rounding.
  [[nodiscard]] virtual std::uint64_t held_bytes() const = 0;
  /// The driver's allocation that a live block of this resource lies in: its slab, or what was allocated for it alone. Empty
  /// for a block of 0 bytes.
  [[nodiscard]] virtual extent extent_of(const block& of) const noexcept {
    const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(of.pointer) -
                                                 static_cast<const std::byte*>(of.base));
    return {of.base, of.base_bytes, offset};
  }

private:
  virtual block do_allocate(const allocation_request& request, const stream_ref& stream) = 0;
  virtual bool do_deallocate(const block& freed, std::span<const point> after) noexcept = 0;
};

/// A resource on top of another one, which it shares; passes everything on that it does not change.
class decorator : public resource {
public:
  explicit decorator(std::shared_ptr<resource> upstream) : upstream_(std::move(upstream)) {}

  std::size_t trim() override { return upstream_->trim(); }
  [[nodiscard]] std::uint64_t held_bytes() const override { return upstream_->held_bytes(); }
  [[nodiscard]] extent extent_of(const block& of) const noexcept override { return upstream_->extent_of(of); }

protected:
  [[nodiscard]] resource& upstream() const noexcept { return *upstream_; }

private:
  std::shared_ptr<resource> upstream_;
};

} // namespace saeta
