// Plans how the pieces of columns are joined, level by level.
//
// A node stands for a column of the result, or for a child of one, and has one span for each piece. A span
// names the rows of a source that the piece contributes. Offsets and run ends lie on the device: `join_nodes`
// fetches those that tell what the rows point to. Pieces are then taken one after the other into a group as
// long as they fit. A group becomes one column.
#pragma once

#include "saeta/column/column.hpp"
#include "saeta/compute/dictionary_union.hpp"
#include "saeta/compute/piece_rows.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace saeta {

/// `first` includes the offset of the column.
struct join_span : piece_rows {
  const column* of = nullptr;
  // State in the group that the span was last taken into:
  bool taken = false;
  /// Index of the span whose children this one shares: its own, or for list views, dense unions and
  /// dictionaries that of an earlier span of the same column.
  std::size_t children_of = 0;
};

join_span span_of(const column& of, std::int64_t first, std::int64_t rows);

struct join_node {
  const data_type* type = nullptr;
  std::vector<join_span> spans;
  /// The children of the type. For run-end encoded columns, only the values. For dictionaries whose values
  /// cannot be compared, those values.
  std::vector<join_node> children;
  std::unique_ptr<dictionary_union> dictionary; ///< only for a dictionary type
  // State of the current group:
  std::int64_t rows = 0;
  std::int64_t pointed = 0; ///< bytes, child rows or runs that the rows point to
  const join_span* last = nullptr;

  void begin_group() noexcept;
  /// True if the rows of piece `piece` can be counted together with those taken before.
  [[nodiscard]] bool fits(std::size_t piece) const;
  void take(std::size_t piece);

private:
  [[nodiscard]] bool shares_children(const join_span& span) const noexcept;
  void finish_piece(std::size_t piece) noexcept;
};

/// Bytes of one run end.
std::size_t run_end_width(const data_type& type) noexcept;

/// Makes one node for each column. `columns[i]` are the pieces of column i, the same number for each column.
/// They must outlive the nodes.
std::vector<join_node> join_nodes(const std::shared_ptr<context>& ctx,
                                  std::span<const std::vector<column>> columns);

} // namespace saeta
