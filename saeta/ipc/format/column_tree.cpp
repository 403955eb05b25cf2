#include "saeta/ipc/format/column_tree.hpp"

#include "saeta/base/text.hpp"
#include "saeta/ipc/format/message_fields.hpp"
#include "saeta/ipc/read/body_ranges.hpp"

#include <arrow/type.h>

#include <algorithm>
#include <tuple>

namespace saeta::ipc::detail {
namespace {

/// Adds the entries that a column has in the lists of a message.
void skip_type(const arrow::DataType& type, column_tree& tree) {
  const message_parts parts = parts_of(type, arrow::ipc::MetadataVersion::V5); // plans take only this version
  tree.rows += parts.nodes;
  tree.buffers += parts.buffers;
  tree.views += parts.variadic;
}

class tree_maker {
public:
  explicit tree_maker(dictionary_trees& dictionaries) : dictionaries_(dictionaries) {}

  /// Appends a node with its descendants. Returns false if a plan can't take it.
  bool add(column_tree& tree, const data_type& type, const flat_table& described, std::size_t parent,
           std::size_t child) {
    const std::size_t at = tree.nodes.size();
    tree_node& node = tree.nodes.emplace_back();
    node.type = &type;
    node.column = tree.roots.size();
    node.parent = parent;
    node.child = child;
    node.row = tree.rows++;
    node.buffer = tree.buffers;
    node.views_before = tree.views;
    tree.buffers += type.buffer_count();
    tree.views += type.has_variadic_buffers() ? 1U : 0U;
    const auto below = described.tables(field_children);
    if (type.id() == type_id::dictionary) {
      const auto number = dictionary(*type.value_type(), described, concat("dictionary of ", tree.label(at)));
      if (!number) {
        return false;
      }
      tree.nodes[at].dictionary = *number;
    } else {
      const auto children = type.children();
      if (below.size() != children.size()) {
        return false;
      }
      for (std::size_t i = 0; i < children.size(); ++i) {
        if (!add(tree, children[i].type, below[i], at, i)) {
          return false;
        }
      }
    }
    tree.nodes[at].end = tree.nodes.size();
    return true;
  }

private:
  std::optional<std::size_t> dictionary(const data_type& values, const flat_table& described,
                                        std::string label) {
    const auto encoding = described.table(field_dictionary);
    if (!encoding) {
      return std::nullopt;
    }
    const auto id = encoding->scalar<std::int64_t>(encoding_id, 0);
    if (const auto known = dictionaries_.numbers.find(id); known != dictionaries_.numbers.end()) {
      const bool same = dictionaries_.trees[known->second]->fields.front().type == values;
      return same ? std::optional(known->second) : std::nullopt;
    }
    const std::size_t number = dictionaries_.trees.size();
    dictionaries_.numbers.emplace(id, number);
    dictionaries_.ids.push_back(id);
    dictionaries_.trees.push_back(std::make_unique<column_tree>());
    column_tree& tree = *dictionaries_.trees.back();
    tree.root_label = std::move(label);
    tree.fields.push_back({"dictionary", values, true, {}});
    if (!add_values(tree, described)) {
      return std::nullopt;
    }
    return number;
  }

  /// The FlatBuffer field of a dictionary column also describes its values: its children are the children of
  /// the values.
  bool add_values(column_tree& tree, const flat_table& described) {
    const data_type& type = tree.fields.front().type;
    if (type.id() == type_id::dictionary || !add(tree, type, described, no_node, 0)) {
      return false;
    }
    tree.roots.push_back(0);
    return true;
  }

  dictionary_trees& dictionaries_;
};

} // namespace

std::string column_tree::label(std::size_t node) const {
  const tree_node& of = nodes[node];
  if (of.parent == no_node) {
    return !root_label.empty() ? root_label : concat("column '", fields[of.column].name, "'");
  }
  return concat(label(of.parent), ", child '", nodes[of.parent].type->children()[of.child].name, "'");
}

bool column_tree::same_positions(const column_tree& other) const {
  const auto places = [](const tree_node& of) {
    return std::tuple(of.column, of.parent, of.end, of.row, of.buffer, of.views_before, of.dictionary);
  };
  return roots == other.roots && rows == other.rows && buffers == other.buffers && views == other.views &&
         std::ranges::equal(nodes, other.nodes, {}, places, places);
}

std::optional<column_tree> make_tree(const arrow::Schema& described, std::span<const int> numbers,
                                     std::vector<field> fields, const flat_table& schema,
                                     dictionary_trees& dictionaries) {
  const auto tables = schema.tables(schema_fields);
  if (tables.size() != static_cast<std::size_t>(described.num_fields())) {
    return std::nullopt;
  }
  column_tree tree;
  tree.fields = std::move(fields);
  tree_maker maker(dictionaries);
  for (int i = 0; i < described.num_fields(); ++i) {
    const std::size_t column = tree.roots.size();
    if (column == numbers.size() || numbers[column] != i) {
      skip_type(*described.field(i)->type(), tree);
      continue;
    }
    const std::size_t root = tree.nodes.size();
    if (!maker.add(tree, tree.fields[column].type, tables[static_cast<std::size_t>(i)], no_node, 0)) {
      return std::nullopt;
    }
    tree.roots.push_back(root);
  }
  return tree;
}

} // namespace saeta::ipc::detail
