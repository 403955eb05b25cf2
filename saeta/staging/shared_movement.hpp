// A movement by chunks that all workers of the staging ring share, one class for each kind of movement.
//
// What      A chunk has a slot, which is the place of one lane's pinned memory. The ring calls `prepare` as soon as the slot is
//           free, `begin` when the first worker comes to the chunk, `fill` for each slice, and `end` after the last one.
// Thread    One at a time for each slot, but `fill` by several at once.
// Failure   What a call throws ends the movement.
#pragma once

#include "saeta/staging/staging_lane.hpp"

#include <cstddef>
#include <vector>

namespace saeta {

class shared_movement {
public:
  shared_movement(const shared_movement&) = delete;
  shared_movement& operator=(const shared_movement&) = delete;
  virtual ~shared_movement() = default;

  /// Slots that are used at most.
  [[nodiscard]] std::size_t slots() const noexcept { return staged_.size(); }
  /// Whether filled chunks go to the device: `end` then has a stream whose turn it is.
  [[nodiscard]] virtual bool to_device() const noexcept { return true; }
  /// Whether `end` queues work on the stream of the kernels, too.
  [[nodiscard]] virtual bool uses_kernels() const noexcept { return false; }

  /// False where the movement has no such chunk, and none behind it.
  virtual bool prepare(staging_lane&, std::size_t /*slot*/, std::size_t /*chunk*/) { return true; }
  /// By default takes pinned memory to fill.
  virtual void begin(staging_lane& lane, std::size_t slot, std::size_t /*chunk*/) { stage(lane, slot); }
  virtual void fill(std::size_t slot, std::size_t chunk, std::size_t slice) = 0;
  /// Only called where chunks go to the device.
  virtual void end(staging_lane&, std::size_t /*slot*/, std::size_t /*chunk*/) {}

protected:
  explicit shared_movement(std::size_t slots) : staged_(slots) {}

  staging_lane::chunk& stage(staging_lane& lane, std::size_t slot) {
    staged_[slot] = &lane.next();
    return *staged_[slot];
  }
  [[nodiscard]] staging_lane::chunk& staged(std::size_t slot) const { return *staged_[slot]; }
  [[nodiscard]] std::byte* pinned(std::size_t slot) const {
    return static_cast<std::byte*>(staged_[slot]->memory.pointer);
  }

private:
  std::vector<staging_lane::chunk*> staged_; ///< of the chunk that has the slot
};

} // namespace saeta
