// The rows that one piece contributes to a joined column, or to a child of one.
#pragma once

#include "saeta/column/data_type.hpp"

#include <array>
#include <cstdint>
#include <limits>

namespace saeta {

struct piece_rows {
  std::int64_t first = 0; ///< row in its buffers
  std::int64_t rows = 0;
  /// What the rows point to: bytes, rows of the child of a list, or runs.
  std::int64_t pointed_first = 0;
  std::int64_t pointed = 0;
  // Counts of the group before this piece:
  std::int64_t row_base = 0;
  std::int64_t pointed_base = 0;
  /// Where each buffer begins: an offset in a source that is read, or a device address.
  std::array<std::uint64_t, 3> at{};
};

/// What the offsets or run ends of a type count.
enum class counted_rows { nothing, own, pointed, of_children };

/// The largest count they can hold. Pieces are joined while their sum stays within it.
struct counted_limit {
  counted_rows what = counted_rows::nothing;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
};

/// 64-bit offsets have no limit.
counted_limit limit_of(const data_type& type) noexcept;

} // namespace saeta
