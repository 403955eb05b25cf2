// A scatter: moves many ranges of a file or of host memory to their places in one slab of the device.
//
// What      A plan says for each range of the source where it goes and what changes on the way: bits are
//           shifted, offsets get an addend. The staging ring reads the source once, in order, by chunks,
//           whatever the number of ranges. Large copies of a chunk go straight to their places. The rest
//           lands in device memory by the same call, followed by its steps, and one kernel puts it in its
//           places (staging_ring.hpp).
// Order     Early steps, fills and steps, in any order within each group; then moves, checks and fixes.
//           Checks see values before a fix changes them. What follows the early steps may be added once they
//           have been read.
// Owner     A plan borrows nothing. The source stays valid and unchanged until the scatter has returned.
// Thread    One.
#pragma once

#include "saeta/base/export.hpp"
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

namespace SAETA_EXPORT saeta {

struct scatter_unions {
  std::uint64_t ids; ///< where the ids of the rows begin
  std::size_t bases; ///< entry of the plan's tables that holds the base of id 0
};

/// One piece of work. A fill (`ones`, `zero`) has no source. `copy`, `bits`, `add`, `views` and `run_ends`
/// read one range of it. `remap` and `unions` also read other memory: they are steps only if sources are
/// addresses (compute/slab_plan.hpp). A scatter changes unions by fixes.
struct scatter_step {
  static constexpr std::uint32_t not_counted = std::numeric_limits<std::uint32_t>::max();

  struct bit_places {
    std::int64_t source_first; ///< below 8
    std::int64_t target_first;
    std::uint32_t counter; ///< counter of the plan that the zero bits are added to, or `not_counted`
  };
  struct index_table {
    std::size_t table; ///< entry of the plan's tables
    std::int64_t entries;
  };

  join_kind kind = join_kind::copy;
  std::int32_t width = 0;
  std::uint64_t source = 0; ///< byte of the source with the first value or the first bit
  std::uint64_t target = 0; ///< offset in the slab
  std::int64_t count = 0;   ///< as in join_step; more than 0
  /// Selected by `kind`, as in join_step.
  union {
    bit_places bits{0, 0, not_counted};
    join_add add;
    index_table remap;
    join_views views;
    scatter_unions unions; ///< `ids` is an address
    join_run_ends run_ends;
  };
};

/// A change of values that are already in the slab.
struct scatter_fix {
  join_kind kind = join_kind::add; ///< add, views or unions
  std::int32_t width = 0;
  std::uint64_t target = 0;
  std::int64_t count = 0;
  /// Selected by `kind`, as in join_step.
  union {
    join_add add{};
    join_views views;
    scatter_unions unions; ///< `ids` is an offset in the slab
  };
};

/// Like value_check, with offsets in the slab instead of addresses.
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
  std::size_t zeroed_bytes = 0; ///< at the start of the slab, zeroed first: bitmaps and counters
  std::size_t counters_at = 0;  ///< offset in the zeroed bytes, a multiple of 8
  std::size_t counters = 0;
  std::vector<scatter_step> early; ///< in rising order of their sources
  std::vector<scatter_step> fills;
  std::vector<scatter_step> steps; ///< in rising order of their sources
  std::vector<scatter_fix> moves;
  std::vector<scatter_check> checks;
  std::vector<scatter_fix> fixes;
  std::vector<std::int64_t> tables;
  std::vector<std::size_t> addresses; ///< entries of `tables` that hold slab offsets and become addresses
};

/// Reads ranges that are decoded from their beginning. One thread.
///
/// @code
/// struct zeros final : ordered_reader {
///   void read(std::uint64_t /*position*/, std::span<std::byte> target) override {
///     std::memset(target.data(), 0, target.size());
///   }
///   void finish() override {}
/// };
/// scatter_source source{.bytes = 4096, .read = {}, .ordered_from = 0}; // decoded from its first byte on
/// source.in_order = [] { return std::make_unique<zeros>(); };
/// @endcode
class ordered_reader {
public:
  ordered_reader() = default;
  ordered_reader(const ordered_reader&) = delete;
  ordered_reader& operator=(const ordered_reader&) = delete;
  virtual ~ordered_reader() = default;

  /// Fills the target, which lies in one range, with the bytes from `position` on. Reading bytes before those
  /// of the last call decodes the range from its beginning again.
  virtual void read(std::uint64_t position, std::span<std::byte> target) = 0;
  /// Called after the last read of a range. The range must be as long as it declares.
  virtual void finish() = 0;
};

/// The source of the ranges.
struct scatter_source {
  static constexpr std::uint64_t nowhere = std::numeric_limits<std::uint64_t>::max();
  /// Minimum gap in bytes between two decoded ranges, so that no part of a chunk has bytes of both.
  static constexpr std::uint64_t ordered_gap = 8192;

  std::uint64_t bytes = 0;
  /// Fills the target with the bytes from `position` on, or throws. Called by several threads at once.
  std::function<void(std::uint64_t position, std::span<std::byte> target)> read;
  /// Ranges from this byte on are decoded. One thread reads a step from its first value to its last. The
  /// readers come from `in_order`, one for each thread and each unfinished step.
  std::uint64_t ordered_from = nowhere;
  std::function<std::unique_ptr<ordered_reader>()> in_order = {};
};

/// Result of a scatter.
struct scattered {
  buffer slab;
  std::vector<std::int64_t> counted;
  std::vector<std::int64_t> bad_rows; ///< for each check the first row that breaks it, or no_bad_row
};

/// Called now and then, on the calling thread, with the approximate number of source bytes read so far, gaps
/// included. An exception from it ends the scatter.
using scatter_progress = std::function<void(std::uint64_t source_bytes)>;

} // namespace saeta
