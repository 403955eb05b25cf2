// A block: what a resource hands out. Opaque to users, who hold buffers (memory/buffer.hpp).
#pragma once

#include "saeta/device/device_id.hpp"
#include "saeta/device/memory_kind.hpp"
#include "saeta/observe/tag.hpp"
#include "saeta/order/point.hpp"

#include <cstddef>
#include <cstdint>

namespace saeta {

class budget;

/// When the resource that made a block takes it back.
enum class release_order : std::uint8_t {
  in_stream_order, ///< at any time: reuse is ordered after the points
  when_complete,   ///< without delay once the points have passed; earlier, `deallocate` waits for them
};

struct block {
  void* pointer = nullptr;
  std::size_t bytes = 0;     ///< as requested
  std::size_t alignment = 0; ///< as requested, at least the device's own
  device_id device;
  std::uint64_t stream_id = 0;  ///< stream it was allocated on
  timeline_id timeline{};       ///< of that stream
  point ready;                  ///< what must pass before any other stream may use it
  std::uint64_t generation = 0; ///< fresh for every allocation of the process, also when an address is reused
  tag label;
  void* base = nullptr; ///< what the driver gave; before `pointer` where more alignment was asked for
  std::size_t base_bytes = 0;
  void* record = nullptr; ///< bookkeeping of the resource at the bottom that made it
  bool cached = false;    ///< `record` is the cache's
  release_order order = release_order::in_stream_order;
  memory_kind kind = memory_kind::device;
  budget* charged = nullptr; ///< whom `budget_resource` refunds; null: nobody was charged
};

/// The allocation that a block lies in, as whoever shares memory with another process names it.
struct extent {
  void* base = nullptr;
  std::size_t bytes = 0;
  std::size_t offset = 0; ///< of the block's first byte

  friend bool operator==(const extent&, const extent&) = default;
};

/// The next generation number; never repeats in a process, not in order between threads.
std::uint64_t next_generation() noexcept;

/// Least alignment of device and pinned blocks, and of host blocks, in bytes.
inline constexpr std::size_t device_alignment = 256;
inline constexpr std::size_t host_alignment = 64;

} // namespace saeta
