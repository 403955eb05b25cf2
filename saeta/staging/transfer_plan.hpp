// A transfer plan: many host ranges and their places in one device slab.
//
// What      Ranges are collected, then joined. Neighbours with a small, readable gap become one segment and
//           keep their distance. Others start at the next 64-byte multiple. The slab is one allocation and
//           the transfer one planned movement, whatever the number of ranges.
// Owner     The plan borrows the ranges. They stay valid and unchanged until the upload has returned.
// Thread    One.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/base/short_list.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace SAETA_EXPORT saeta {

/// One contiguous piece of a plan.
struct segment {
  const std::byte* source = nullptr;
  std::size_t bytes = 0;
  std::size_t target = 0; ///< offset in the slab
};

/// A readable file region. Workers may `pread` its bytes instead of faulting mapped pages in.
struct file_region {
  const std::byte* mapped = nullptr;
  std::size_t bytes = 0;
  int descriptor = -1;
  std::size_t file_offset = 0; ///< of `mapped`
};

class transfer_plan {
public:
  static constexpr std::size_t max_gap = 4096; ///< largest gap between ranges, in bytes, that is sent too

  /// @param readable  region in which gaps between ranges may be read too; if empty, no gap is read
  explicit transfer_plan(std::span<const std::byte> readable = {}) : readable_(readable) {}

  /// Adds a range; a range inside another costs nothing. Returns its number for `target_of`.
  std::size_t add(std::span<const std::byte> range);
  /// Adds a range that is changed in the slab. It shares its place with no other range, even if they overlap.
  std::size_t add_own(std::span<const std::byte> range);
  /// Joins the ranges and lays the slab out. Call once, after the last `add`.
  void finish();

  [[nodiscard]] std::span<const segment> segments() const noexcept { return segments_; }
  /// Bytes of the slab.
  [[nodiscard]] std::size_t slab_bytes() const noexcept { return slab_bytes_; }
  /// Offset of range `number` in the slab.
  [[nodiscard]] std::size_t target_of(std::size_t number) const;
  /// Bytes of range `number`.
  [[nodiscard]] std::size_t bytes_of(std::size_t number) const;
  /// Reserves room for `count` ranges.
  void reserve(std::size_t count) { ranges_.reserve(count); }

private:
  /// Removes those of `own_` that overlap another range from `order`, which is sorted by address. Returns
  /// them.
  [[nodiscard]] std::vector<std::size_t> take_overlapping(std::vector<std::size_t>& order) const;

  std::span<const std::byte> readable_;
  // A table whose columns have memory of their own has a plan of one range for each of them.
  short_list<std::span<const std::byte>, 1> ranges_;
  std::vector<std::size_t> own_; ///< numbers of the ranges that share their place with no other
  short_list<std::size_t, 1> targets_;
  short_list<segment, 1> segments_;
  std::size_t slab_bytes_ = 0;
};

} // namespace saeta
