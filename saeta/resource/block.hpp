// A block: the memory that a resource returns. Opaque to users, who hold buffers (memory/buffer.hpp).
#pragma once

#include "saeta/device/device_id.hpp"
#include "saeta/device/memory_kind.hpp"
#include "saeta/observe/tag.hpp"
#include "saeta/order/point.hpp"

#include <cstddef>
#include <cstdint>

namespace saeta {

class budget;

/// When a block may be given back to the resource that made it.
enum class release_order : std::uint8_t {
  in_stream_order, ///< at any time; reuse is ordered after the points
  when_complete,   ///< once the points have passed; earlier, `deallocate` waits for them
};

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

} // namespace saeta
