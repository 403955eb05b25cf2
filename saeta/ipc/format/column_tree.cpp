#include "saeta/ipc/format/column_tree.hpp"

#include "saeta/base/text.hpp"
#include "saeta/ipc/format/message_fields.hpp"

#include <algorithm>
#include <tuple>

namespace saeta::ipc::detail {
namespace {

/// Adds the entries that a column has in the lists of a message of version 5.
void skip_type(const data_type& type, column_tree& tree) {
  ++tree.rows;
  tree.buffers += type.buffer_count();
  tree.views += type.has_variadic_buffers() ? 1U : 0U;
  for (const field& child : type.children()) {
    skip_type(child.type, tree);
  }
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
    if (type.id() == type_id::dictionary) {
      const auto number = dictionary(*type.value_type(), described, concat("dictionary of ", tree.label(at)));
      if (!number) {
        return false;
      }
      tree.nodes[at].dictionary = *number;
    } else if (!add_children(tree, type, described, at)) {
      return false;
    }
    tree.nodes[at].end = tree.nodes.size();
    return true;
  }

private:
  bool add_children(column_tree& tree, const data_type& type, const flat_table& described, std::size_t at) {
    const auto children = type.children();
    if (children.empty()) {
      return true;
    }
    const flat_tables below = described.tables(field_children);
    if (below.size() != children.size()) {
      return false;
    }
    for (std::size_t i = 0; i < children.size(); ++i) {
      if (!add(tree, children[i].type, below[i], at, i)) {
        return false;
      }
    }
    return true;
  }

  std::optional<std::size_t> dictionary(const data_type& values, const flat_table& described,
                                        std::string label) {
    const auto encoding = described.table(field_dictionary);
    if (!encoding) {
      return std::nullopt;
    }
    const auto id = encoding->scalar<std::int64_t>(encoding_id, 0);
    if (const auto known = dictionaries_.numbers.find(id); known != dictionaries_.numbers.end()) {
      const bool same = dictionaries_.trees[known->second]->values.type == values;
      return same ? std::optional(known->second) : std::nullopt;
    }
    const std::size_t number = dictionaries_.trees.size();
    dictionaries_.numbers.emplace(id, number);
    dictionaries_.ids.push_back(id);
    dictionaries_.trees.push_back(std::make_unique<dictionary_tree>(values));
    dictionary_tree& tree = *dictionaries_.trees.back();
    tree.root_label = std::move(label);
    if (!add_values(tree, described)) {
      return std::nullopt;
    }
    return number;
  }

  /// The FlatBuffer field of a dictionary column also describes its values: its children are the children of
  /// the values.
  bool add_values(dictionary_tree& tree, const flat_table& described) {
    const data_type& type = tree.values.type;
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
    return !root_label.empty() ? root_label : concat("column '", fields[of.column]->name, "'");
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

std::optional<column_tree> make_tree(const schema& described, std::span<const int> numbers,
                                     const flat_table& flat, dictionary_trees& dictionaries) {
  const auto tables = flat.tables(schema_fields);
  if (tables.size() != described.fields.size()) {
    return std::nullopt;
  }
  column_tree tree;
  tree.nodes.reserve(numbers.size());
  tree_maker maker(dictionaries);
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const field& of = described.fields[i];
    const std::size_t column = tree.roots.size();
    if (column == numbers.size() || static_cast<std::size_t>(numbers[column]) != i) {
      skip_type(of.type, tree);
      continue;
    }
    const std::size_t root = tree.nodes.size();
    tree.fields.push_back(&of);
    if (!maker.add(tree, of.type, tables[i], no_node, 0)) {
      return std::nullopt;
    }
    tree.roots.push_back(root);
  }
  return tree;
}

} // namespace saeta::ipc::detail
