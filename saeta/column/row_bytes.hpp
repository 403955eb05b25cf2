// The bytes that the rows of columns refer to: their number, and the ranges that a copy without gathering
// moves.
//
// What      Offsets and run ends say which bytes and child rows a slice refers to. Lists, unions and views
//           whose rows lie anywhere are counted. What rows only share is divided: a slice counts as much of a
//           dictionary as it has of the column's rows, so that the slices of a column sum to its size.
// Order     Memory is read only for slices, and for rows that may be few among what they could refer to. On a
//           device that is one small tracked copy for each level of nesting, after the last writes of what is
//           read, and the host waits for it.
// Failure   If the memory can't be read (a closed context, no room, a capture, a mapped file that was
//           truncated), values count as evenly spread over the rows.

#pragma once

#include "saeta/base/export.hpp"
#include "saeta/column/column.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace SAETA_EXPORT saeta {

struct address_range {
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
};

/// The child rows and bytes that count for list views, dense unions and views, whose rows refer to them in
/// any order.
enum class scattered_rows {
  all,      ///< all of the column, as in a copy that does not gather
  sparse,   ///< like `referred` if the rows may refer to much less than all, else like `all`
  referred, ///< only child rows and bytes that the rows refer to
};

struct row_bytes {
  std::vector<address_range> ranges; ///< may overlap
  std::uint64_t behind_views = 0;    ///< bytes that views refer to, not in `ranges`
  bool measured = true;              ///< false if the memory could not be read

  /// The bytes in the union of the ranges, plus those behind views.
  [[nodiscard]] std::uint64_t total() const;
};

[[nodiscard]] row_bytes bytes_of_columns(std::span<const column> columns, scattered_rows counted,
                                         bool dictionaries = true);

// The rows of children, and the bytes, that the rows of columns refer to. Found for many columns at once.

/// For one column: the ranges of child rows that its rows refer to, one for each child or one for all of
/// them. Without children: the range of bytes that offsets refer to, or for views the number of bytes.
struct referred_rows {
  std::vector<child_rows> rows{{}};
};

/// @param columns  of one context
/// @param counted  how child rows and bytes count for list views, dense unions and views, whose rows refer to
///                 them in any order.
/// @param measured set to false if the memory could not be read. Values then count as evenly spread.
[[nodiscard]] std::vector<referred_rows> find_referred_rows(std::span<const column> columns,
                                                            scattered_rows counted, bool& measured);

/// The number of bytes in all data buffers of a column of views.
[[nodiscard]] std::int64_t bytes_behind_views(const column& of);

} // namespace saeta
