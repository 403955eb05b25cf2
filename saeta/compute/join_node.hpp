// The pieces of a column on their way into one, level by level.
//
// A node stands for a column of the result, or for a child of one, and has one span for each piece. A span names the rows of
// a source that the piece brings along. Offsets and run ends lie on the device: `join_nodes` fetches those that say what
// the rows point to. Pieces are then taken one after the other into a group, which becomes one column, as long as they fit.
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

/// `first` counts the offset of the column.
struct join_span : piece_rows {
  const column* of = nullptr;
  // Of the group that the span was taken into last:
  bool taken = false;
  /// The span whose children it shares: itself, or for list views, dense unions and dictionaries one before, of the same column.
  std::size_t children_of = 0;
};

join_span span_of(const column& of, std::int64_t first, std::int64_t rows);

struct join_node {
  const data_type* type = nullptr;
  std::vector<join_span> spans;
  /// As those of the type; of run-end encoded columns the values alone, of a dictionary whose values can't be compared
  /// these.
  std::vector<join_node> children;
  std::unique_ptr<dictionary_union> dictionary; ///< of a dictionary type
  // Of the group:
  std::int64_t rows = 0;
  std::int64_t pointed = 0; ///< bytes
  const join_span* last = nullptr;

  void begin_group() noexcept;
  /// True where the rows of piece `piece` can be counted together with those taken before.
  [[nodiscard]] bool fits(std::size_t piece) const;
  void take(std::size_t piece);

private:
  [[nodiscard]] bool shares_children(const join_span& span) const noexcept;
  void pass(std::size_t piece) noexcept;
};

/// Bytes of one run end.
std::size_t run_end_width(const data_type& type) noexcept;

/// One node for each column: `columns[i]` are the pieces of column i, as many for each. They outlive the nodes.
std::vector<join_node> join_nodes(const std::shared_ptr<context>& ctx,
                                  std::span<const std::vector<column>> columns);

} // namespace saeta
