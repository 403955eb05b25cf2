// A scatter: many ranges of a file or of host memory on their way to their places in one slab of the device.
//
// What      A plan names for each range of the source where it goes and what changes on the way: bits are shifted, offsets
//           get an addend. The staging ring reads the source once, in order, by chunks, whatever the number of ranges: large
//           copies of a chunk go straight to their places; what else it has lands in device memory by the same call, with its
//           steps behind it, and one kernel puts that in its places (staging_ring.hpp).
// Order     early steps, fills, steps, each in any order; then moves, then checks, then fixes. Checks see values as they are in
//           the source where a fix changes them. What follows the early steps may be added when they have been read.
// Owner     A plan borrows nothing; the source stays valid and unchanged until the scatter has returned.
// Thread    One.
#pragma once

#include "saeta/device/join.hpp"
#include "saeta/device/value_check.hpp"
#include "saeta/memory/buffer.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <vector>

namespace saeta {

struct scatter_unions {
  std::uint64_t ids; ///< where the ids of the rows begin
  std::size_t bases; ///< entry of the plan's tables: the base of id 0
};

/// One piece of work. A fill (`ones`, `zero`) has no source. `copy`, `bits`, `add`, `views` and `run_ends` read one range of it.
/// `remap` and `unions` read more than that: they are steps only where sources are addresses (slab_plan.hpp). A scatter changes
/// unions by fixes.
struct scatter_step {
  static constexpr std::uint32_t not_counted = std::numeric_limits<std::uint32_t>::max();

  struct bit_places {
    std::int64_t source_first; ///< below 8
    std::int64_t target_first;
    std::uint32_t counter; ///< of the plan's counters, to which the zero bits are added; or `not_counted`
  };
  struct index_table {
    std::size_t table; ///< entry of the plan's tables
    std::int64_t entries;
  };

  join_kind kind = join_kind::copy;
  std::int32_t width = 0;
  std::uint64_t source =
      0; ///< byte of the source where the first value, or the byte with the first bit, lies
  std::uint64_t target = 0; ///< byte of the slab
  std::int64_t count = 0;   ///< as in join_step; more than 0
  /// By kind, as in join_step.
  union {
    bit_places bits{0, 0, not_counted};
    join_add add;
    index_table remap;
    join_views views;
    scatter_unions unions; ///< the ids have an address
    join_run_ends run_ends;
  };
};

/// A change of values that lie in the slab.
struct scatter_fix {
  join_kind kind = join_kind::add; ///< add, views or unions
  std::int32_t width = 0;
  std::uint64_t target = 0;
  std::int64_t count = 0;
  /// By kind, as in join_step.
  union {
    join_add add{};
    join_views views;
    scatter_unions unions; ///< the ids are a byte of the slab
  };
};

/// As value_check, with bytes of the slab in the place of addresses.
struct scatter_check {
  static constexpr std::uint64_t absent = std::numeric_limits<std::uint64_t>::max();

  check_kind kind = check_kind::offsets;
  std::int32_t width = 0;
  std::uint64_t values = 0;
  std::uint64_t second = absent;
  std::uint64_t validity = absent;
  std::int64_t bit_offset = 0;
  std::int64_t count = 0;
  std::int64_t limit = 0;
  std::uint64_t table = absent; ///< entry of the plan's tables
};

struct scatter_plan {
  std::size_t slab_bytes = 0;
  std::size_t zeroed_bytes = 0; ///< at the begin of the slab, before everything else: bitmaps and counters
  std::size_t counters_at = 0;  ///< in the zeroed bytes, a multiple of 8
  std::size_t counters = 0;
  std::vector<scatter_step> early; ///< with rising sources
  std::vector<scatter_step> fills;
  std::vector<scatter_step> steps; ///< with rising sources
  std::vector<scatter_fix> moves;
  std::vector<scatter_check> checks;
  std::vector<scatter_fix> fixes;
  std::vector<std::int64_t> tables;
  std::vector<std::size_t> addresses; ///< entries of `tables` that are bytes of the slab and become addresses
};

/// Reads ranges that are decoded from their begin on. One thread.
class ordered_reader {
public:
  ordered_reader() = default;
  ordered_reader(const ordered_reader&) = delete;
  ordered_reader& operator=(const ordered_reader&) = delete;
  virtual ~ordered_reader() = default;

  /// Fills the target, which lies in one range, with the bytes from `position` on. Bytes before those of the last call cost
  /// what the range costs from its begin on.
  virtual void read(std::uint64_t position, std::span<std::byte> target) = 0;
  /// After the last read of a range: it has to be as long as it says.
  virtual void finish() = 0;
};

/// What ranges are read from.
struct scatter_source {
  static constexpr std::uint64_t nowhere = std::numeric_limits<std::uint64_t>::max();
  /// Bytes between two ranges that are decoded, at least: no part of a chunk has bytes of both.
  static constexpr std::uint64_t ordered_gap = 8192;

  std::uint64_t bytes = 0;
  /// Fills the target with the bytes from `position` on, or throws. Called by several threads at once.
  std::function<void(std::uint64_t position, std::span<std::byte> target)> read;
  /// From this byte on ranges are decoded: one thread reads a step from its first value to its last, by readers that `in_order`
  /// makes, one for each thread and each step under way.
  std::uint64_t ordered_from = nowhere;
  std::function<std::unique_ptr<ordered_reader>()> in_order = {};
};

/// What a scatter has made and found.
struct scattered {
  buffer slab;
  std::vector<std::int64_t> counted;
  std::vector<std::int64_t> bad_rows; ///< of each check the first row that breaks it, or no_bad_row
};

/// Called on the thread that called, now and then: about how many bytes of the source were read so far, gaps included. What it throws
/// ends the scatter.
using scatter_progress = std::function<void(std::uint64_t source_bytes)>;

} // namespace saeta
