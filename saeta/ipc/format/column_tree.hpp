// The columns of a read as a flat list of nodes, and where a message says what about each of them.
//
// What      A node stands for a column or a child of one, depth first, in the order of the source. A record batch message lists
//           rows and nulls by node, and buffers by node and buffer, for all columns of the source; those of columns that are not
//           read are passed over by numbers that are the same in every message, but for the buffers behind views.
// Thread    Immutable.
// Standard  Arrow columnar format, "Serialization and Interprocess Communication"; the order of fields and buffers.
#pragma once

#include "saeta/column/schema.hpp"
#include "saeta/ipc/format/flat_table.hpp"

#include <arrow/type_fwd.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace saeta::ipc::detail {

inline constexpr std::size_t no_node = static_cast<std::size_t>(-1);

struct tree_node {
  const data_type* type = nullptr;
  std::size_t column = 0; ///< of the tree's fields
  std::size_t parent = no_node;
  std::size_t child = 0; ///< number among its parent's children
  std::size_t end = 0;   ///< node behind its last descendant
  // In a message:
  std::size_t row = 0;          ///< number of its entry in the list of nodes
  std::size_t buffer = 0;       ///< of its first buffer, without those behind views of nodes before it
  std::size_t views_before = 0; ///< nodes of views before it
  std::size_t dictionary =
      no_node; ///< of a dictionary type: number of its values among the dictionaries of the read
};

struct column_tree {
  std::string root_label;    ///< of the values of a dictionary; empty: columns have names
  std::vector<field> fields; ///< of the columns
  std::vector<tree_node> nodes;
  std::vector<std::size_t> roots; ///< node of each column
  std::size_t rows = 0;           ///< entries of a message's list of nodes
  std::size_t buffers = 0;        ///< of its buffers, without those behind views
  std::size_t views = 0;          ///< of its counts of those

  /// "column 'a', child 'b'".
  [[nodiscard]] std::string label(std::size_t node) const;
};

/// The dictionaries that some columns need, by the number that a message gives them.
struct dictionary_trees {
  std::vector<std::int64_t> ids;
  std::vector<std::unique_ptr<column_tree>> trees; ///< of one column, the values
  std::map<std::int64_t, std::size_t> numbers;
};

/// The columns numbered `numbers` (rising) of a source.
/// @param described  of the source.
/// @param fields     of the columns, as they are in the source.
/// @param schema     as the source has it, for the numbers of dictionaries.
/// Nothing where a plan can't take them: dictionaries of one number and of different types.
std::optional<column_tree> make_tree(const arrow::Schema& described, std::span<const int> numbers,
                                     std::vector<field> fields, const flat_table& schema,
                                     dictionary_trees& dictionaries);

} // namespace saeta::ipc::detail
