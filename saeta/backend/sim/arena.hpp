// The arena of a simulated device: a range of real addresses, and a list of the free ones.
//
// What      `take` finds addresses; memory costs nothing until it is touched. Addresses freed in stream order
//           form the driver's pool. They preferably go to another stream, which must then wait for the free.
// Owner     A gpu owns its arena. Ranges are given back to the arena that they were taken from.
// Thread    Guarded by the lock of the machine.
#pragma once

#include "saeta/backend/sim/operation.hpp"
#include "saeta/backend/sim/random_source.hpp"

#include <optional>

namespace saeta::sim {

/// Addresses that become free when `freed` is done.
struct free_range {
  std::size_t offset = 0;
  std::size_t bytes = 0;
  bool pooled = false;              ///< freed in stream order and not trimmed
  std::shared_ptr<operation> freed; ///< null: nothing to wait for

  [[nodiscard]] bool finished() const { return freed == nullptr || freed->done; }
  [[nodiscard]] bool freed_by(std::uint32_t slot) const { return freed && freed->when.slot == slot; }
};

class arena {
public:
  static constexpr std::size_t granule = 256;

  /// Reserves several times `bytes` of addresses, so that fragmentation does not matter.
  /// @throws error out_of_memory.
  explicit arena(std::uint64_t bytes);
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;
  ~arena();

  /// Backs the arena with an anonymous file, which other processes can map. The content stays.
  void share();
  /// A descriptor of that file, which the caller closes.
  [[nodiscard]] int descriptor() const;

  [[nodiscard]] bool contains(const void* pointer) const noexcept;
  [[nodiscard]] std::size_t offset(const void* pointer) const noexcept;
  [[nodiscard]] std::uint8_t* at(std::size_t offset) const noexcept { return base_ + offset; }

  /// For a direct allocation: addresses that are free and no longer in use.
  std::optional<free_range> take(std::size_t bytes, std::size_t alignment);
  /// For the pool: also takes addresses whose free is still pending, and prefers those that another stream
  /// freed.
  std::optional<free_range> take_pooled(std::size_t bytes, std::uint32_t slot, random_source& random);
  void give_back(free_range range) { free_.push_back(std::move(range)); }

  /// Removes addresses whose free is done from the pool while it holds more than `keep` bytes. Returns the
  /// bytes removed.
  std::size_t trim(std::size_t keep);
  [[nodiscard]] std::size_t pooled_bytes() const;

private:
  std::optional<free_range> map_new_range(std::size_t bytes, std::size_t alignment);
  /// Joins neighbouring ranges that are no longer in use.
  void merge();
  free_range split_range(std::size_t index, std::size_t bytes, std::size_t alignment);
  [[nodiscard]] bool fits(const free_range& range, std::size_t bytes, std::size_t alignment) const;
  /// Bytes from `offset` to the first aligned address.
  [[nodiscard]] std::size_t gap_before(std::size_t offset, std::size_t alignment) const;

  std::uint8_t* base_ = nullptr;
  std::size_t size_ = 0;
  int file_ = -1;                ///< descriptor of the file once shared, otherwise -1
  std::size_t used_ = 0;         ///< addresses from here on were never taken
  std::vector<free_range> free_; ///< new ranges are appended
};

} // namespace saeta::sim
