// A transfer plan: many host ranges and the places they take in one device slab.
//
// What      Ranges are collected, then joined: neighbours whose gap may be read and is small become one segment and keep
//           their distance, others start at the next 64-byte multiple. The slab is one allocation and the transfer one
//           planned movement, whatever the number of ranges.
// Owner     The plan borrows the ranges; they stay valid and unchanged until the upload has returned.
// Thread    One.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace saeta {

/// One contiguous piece of a plan.
struct segment {
  const std::byte* source = nullptr;
  std::size_t bytes = 0;
  std::size_t target = 0; ///< offset in the slab
};

/// A readable file region: workers may `pread` what lies in it instead of faulting mapped pages in.
struct file_region {
  const std::byte* mapped = nullptr;
  std::size_t bytes = 0;
  int descriptor = -1;
  std::size_t file_offset = 0; ///< of `mapped`
};

class transfer_plan {
public:
  static constexpr std::size_t max_gap =
      4096; ///< bytes carried along for nothing, at most, between two ranges

  /// @param readable  region in which gaps between ranges may be read too; empty: none may.
  explicit transfer_plan(std::span<const std::byte> readable = {}) : readable_(readable) {}

  /// Adds a range; a range inside another costs nothing. Returns its number for `target_of`.
  std::size_t add(std::span<const std::byte> range);
  /// The same for a range that is changed in the slab: it shares its place with no other, however they overlap.
  std::size_t add_own(std::span<const std::byte> range);
  /// Joins the ranges and lays the slab out. Call once, after the last `add`.
  void finish();

  [[nodiscard]] std::span<const segment> segments() const noexcept { return segments_; }
  /// Bytes of the slab.
  [[nodiscard]] std::size_t slab_bytes() const noexcept { return slab_bytes_; }
  /// Offset of range `number` in the slab.
  [[nodiscard]] std::size_t target_of(std::size_t number) const;
  /// Its bytes.
  [[nodiscard]] std::size_t bytes_of(std::size_t number) const;
  /// Makes room for that many ranges.
  void reserve(std::size_t count) { ranges_.reserve(count); }

private:
  /// Takes those of `own_` that overlap another range out of the numbers, which are sorted by address.
  [[nodiscard]] std::vector<std::size_t> take_overlapping(std::vector<std::size_t>& order) const;

  std::span<const std::byte> readable_;
  std::vector<std::span<const std::byte>> ranges_;
  std::vector<std::size_t> own_; ///< numbers of those that share their place with no other
  std::vector<std::size_t> targets_;
  std::vector<segment> segments_;
  std::size_t slab_bytes_ = 0;
};

} // namespace saeta
