// The columns of one message: the walk from its entries to columns over its body.
//
// What      Nodes of the tree are taken depth first. A maker says what their buffers, dictionaries and
//           columns are: columns over a body in a context (unpack.cpp), or arrays in host memory
//           (host_columns.cpp).
// Owner     Borrows all of its arguments.
// Failure   That of the maker, with the label of the column.
#pragma once

#include "saeta/ipc/format/column_tree.hpp"
#include "saeta/ipc/format/message_layout.hpp"
#include "saeta/ipc/input_error.hpp"

#include <cstddef>
#include <utility>

namespace saeta::ipc::detail {

/// @tparam Maker  has the types `array` and `parts` (with the members of column::parts) and
///                void add_buffer(parts&, std::size_t number, const field_node&), for each buffer in order;
///                void set_nulls(parts&, const field_node&);
///                auto dictionary(const tree_node&, std::int64_t rows), for a dictionary type;
///                array empty(const data_type&), which has no rows;
///                array finish(parts&&, const tree_node&).
template <class Maker>
class message_columns {
public:
  /// @param batch  has the entries that the tree needs.
  message_columns(const batch_layout& batch, const column_tree& tree, Maker& maker)
      : batch_(batch), tree_(tree), maker_(maker), buffers_(batch) {}

  /// The column of a node. Nodes are taken in ascending order.
  /// @param type  of the tree's node, or another one with the same layout
  typename Maker::array take(std::size_t number, const data_type& type) {
    const tree_node& node = tree_.nodes[number];
    const field_node rows = batch_.nodes[node.row];
    typename Maker::parts parts;
    parts.type = type;
    parts.length = rows.length;
    named(number, [&] { add_buffers(node, rows, parts); });
    for (std::size_t child = number + 1; child != node.end; child = tree_.nodes[child].end) {
      typename Maker::array taken = take(child, *tree_.nodes[child].type);
      // Without rows a parent refers to no rows of its children, but what these say must be true.
      parts.children.push_back(rows.length == 0 ? maker_.empty(*tree_.nodes[child].type) : std::move(taken));
    }
    return named(number, [&] { return maker_.finish(std::move(parts), node); });
  }

private:
  void add_buffers(const tree_node& node, const field_node& rows, typename Maker::parts& parts) {
    const auto [first, count] = buffers_.next(node);
    if (rows.length == 0) {
      parts.buffers.resize(node.type->buffer_count());
      parts.null_count = 0;
    } else {
      for (std::size_t i = first; i < first + count; ++i) {
        maker_.add_buffer(parts, i, rows);
      }
      maker_.set_nulls(parts, rows);
    }
    if (node.dictionary != no_node) {
      parts.dictionary = maker_.dictionary(node, rows.length);
    }
  }

  template <class Action>
  auto named(std::size_t number, Action action) {
    try {
      return action();
    } catch (const error& failure) {
      rethrow(failure, tree_.label(number));
    }
  }

  const batch_layout& batch_;
  const column_tree& tree_;
  Maker& maker_;
  node_buffers buffers_;
};

} // namespace saeta::ipc::detail
