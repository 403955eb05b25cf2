// A resource allocates and frees bytes in stream order. A decorator is a resource on top of a resource.
//
// @code
// const std::shared_ptr<resource> memory = ctx->memory().top; // the context's stack, budget included
// const block scratch = memory->allocate(4096, 0, stream);    // ready on `stream`
// launch(stream, scratch.pointer);
// const bool freed = memory->deallocate(scratch, stream); // after the kernel; false: the block stays ours
// @endcode
//
// Owner     A block belongs to the caller that allocated it, until a successful `deallocate` on the same
//           resource. The resource outlives its blocks.
// Order     The memory may be used on `stream` at once, and on other streams once `block::ready` has passed.
//           `deallocate` takes the points (of one or more streams) after which the block is unused, or a
//           stream as it is now. The points must cover `block::ready`. Without points the block was not used.
// Thread    Any.
// Failure   `allocate`: error budget_exceeded or out_of_memory, and nothing is allocated. `deallocate`:
//           reports, returns false, and the block still belongs to the caller.
// Zero      A request for 0 bytes succeeds without a driver call: a null pointer with its own generation.

#pragma once

#include "saeta/base/export.hpp"
#include "saeta/base/required.hpp"
#include "saeta/device/device_id.hpp"
#include "saeta/observe/tag.hpp"
#include "saeta/order/point.hpp"
#include "saeta/order/timeline.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace SAETA_EXPORT saeta {

class budget;

/// When a block may be given back to the resource that made it.
enum class release_order : std::uint8_t {
  in_stream_order, ///< at any time; reuse is ordered after the points
  when_complete,   ///< once the points have passed; earlier, `deallocate` waits for them
};

/// A block: the memory that a resource returns. Opaque to users, who hold buffers (memory/buffer.hpp).
struct block {
  void* pointer = nullptr;
  std::size_t bytes = 0;     ///< as requested
  std::size_t alignment = 0; ///< as requested, at least the device's own
  device_id device;
  std::uint64_t stream_id = 0;  ///< stream it was allocated on
  timeline_id timeline{};       ///< the timeline of that stream
  point ready;                  ///< must pass before any other stream may use the block
  std::uint64_t generation = 0; ///< unique for each allocation of the process, even when an address is reused
  tag label;
  void* base = nullptr; ///< from the driver; lies before `pointer` if a larger alignment was requested
  std::size_t base_bytes = 0;
  void* record = nullptr; ///< bookkeeping of the bottom resource, which made it
  bool cached = false;    ///< `record` belongs to the cache
  release_order order = release_order::in_stream_order;
  memory_kind kind = memory_kind::device;
  budget* charged = nullptr; ///< the budget that `budget_resource` refunds; null: nothing was charged
};

/// The driver's allocation that a block lies in, as it is named when memory is shared with another process.
struct extent {
  void* base = nullptr;
  std::size_t bytes = 0;
  std::size_t offset = 0; ///< of the block's first byte

  friend bool operator==(const extent&, const extent&) = default;
};

/// Returns a generation number that is unique in the process. Numbers are not in order between threads.
std::uint64_t next_generation() noexcept;

/// Minimum alignment in bytes: of device and pinned blocks, and of host blocks.
inline constexpr std::size_t device_alignment = 256;
inline constexpr std::size_t host_alignment = 64;

class reservation;

/// The parameters of an allocation.
struct allocation_request {
  std::size_t bytes = 0;
  /// A power of two; 0: the device's own alignment. A larger alignment than the device's own is honoured.
  std::size_t alignment = 0;
  tag label{};
  budget* charge_to = nullptr;      ///< null: the budget of the `budget_resource`
  reservation* draw_from = nullptr; ///< draws reserved bytes instead of a new charge
};

/// The kind of the memory of a device itself.
[[nodiscard]] constexpr memory_kind own_kind(device_id device) noexcept {
  return device.kind == device_kind::cpu ? memory_kind::host : memory_kind::device;
}

/// Describes a block that has no memory yet. Its kind is the device's own, unless the resource changes it.
/// @param alignment  of the memory.
/// @param timeline  of `stream`.
[[nodiscard]] inline block describe(const allocation_request& request, device_id device,
                                    std::size_t alignment, const stream_ref& stream, timeline_id timeline) {
  const std::uint64_t generation = next_generation();
  // Every member is set here: zeroing the block first would cost more than the rest of the allocation.
  return {.pointer = nullptr,
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
  /// Frees the block after everything queued on the stream so far.
  [[nodiscard]] bool deallocate(const block& freed, const stream_ref& stream) noexcept;
  /// Returns memory that is held but unused to the device; returns the number of bytes.
  virtual std::size_t trim() = 0;
  /// Bytes of the device that this resource and those below it hold: in use, cached, or lost to rounding.
  [[nodiscard]] virtual std::uint64_t held_bytes() const = 0;
  /// The driver's allocation that a live block of this resource lies in: its slab, or an allocation of its
  /// own. Empty for a block of 0 bytes.
  [[nodiscard]] virtual extent extent_of(const block& of) const noexcept {
    const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(of.pointer) -
                                                 static_cast<const std::byte*>(of.base));
    return {of.base, of.base_bytes, offset};
  }

private:
  virtual block do_allocate(const allocation_request& request, const stream_ref& stream) = 0;
  virtual bool do_deallocate(const block& freed, std::span<const point> after) noexcept = 0;
};

/// A resource on top of another one, which it keeps alive. It forwards every call that it does not override.
///
/// @code
/// struct largest_request final : decorator {
///   using decorator::decorator; // takes the resource below, and keeps it
///   std::size_t bytes = 0;
///
/// private:
///   block do_allocate(const allocation_request& request, const stream_ref& stream) override {
///     bytes = std::max(bytes, request.bytes);
///     return upstream().allocate(request, stream);
///   }
///   bool do_deallocate(const block& freed, std::span<const point> after) noexcept override {
///     return upstream().deallocate(freed, after);
///   }
/// };
/// @endcode
class decorator : public resource {
public:
  explicit decorator(std::shared_ptr<resource> upstream)
      : upstream_(required(std::move(upstream), "upstream")) {}

  std::size_t trim() override { return upstream_->trim(); }
  [[nodiscard]] std::uint64_t held_bytes() const override { return upstream_->held_bytes(); }
  [[nodiscard]] extent extent_of(const block& of) const noexcept override { return upstream_->extent_of(of); }

protected:
  [[nodiscard]] resource& upstream() const noexcept { return *upstream_; }

private:
  std::shared_ptr<resource> upstream_;
};

} // namespace saeta
