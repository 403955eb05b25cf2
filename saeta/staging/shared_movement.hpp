// Base class of movements whose chunks all workers of the staging ring fill together.
//
// What      A chunk has a slot, which is the place of one lane's pinned memory. The ring calls `prepare` as
//           soon as the slot is free, `begin` when the first worker reaches the chunk, `fill` for each slice,
//           and `end` after the last slice. Each kind of movement has its own class.
// Thread    One at a time for each slot, except that several threads call `fill` at once.
// Failure   An exception from a call ends the movement.
#pragma once

#include "saeta/staging/staging_lane.hpp"

#include <cstddef>
#include <vector>

namespace saeta {

class SAETA_LOCAL shared_movement {
public:
  shared_movement(const shared_movement&) = delete;
  shared_movement& operator=(const shared_movement&) = delete;
  virtual ~shared_movement() = default;

  /// Maximum number of slots in use.
  [[nodiscard]] std::size_t slots() const noexcept { return staged_.size(); }
  /// Whether filled chunks go to the device. The lane passed to `end` is then on the next stream in turn.
  [[nodiscard]] virtual bool to_device() const noexcept { return true; }
  /// Whether `end` also queues work on the stream of the kernels.
  [[nodiscard]] virtual bool uses_kernels() const noexcept { return false; }

  /// Returns false if this chunk, and thus every later one, does not exist.
  virtual bool prepare(staging_lane&, std::size_t /*slot*/, std::size_t /*chunk*/) { return true; }
  /// Takes pinned memory to fill by default.
  virtual void begin(staging_lane& lane, std::size_t slot, std::size_t /*chunk*/) { stage(lane, slot); }
  virtual void fill(std::size_t slot, std::size_t chunk, std::size_t slice) = 0;
  /// Called only if chunks go to the device.
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
  std::vector<staging_lane::chunk*> staged_; ///< pinned memory of the current chunk, by slot
};

} // namespace saeta
