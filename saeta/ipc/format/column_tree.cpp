#include "saeta/ipc/format/column_tree.hpp"

#include "saeta/base/text.hpp"
#include "saeta/column/same_type.hpp"
#include "saeta/ipc/format/message_fields.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace saeta::ipc::detail {
namespace {

bool is_union(const data_type& type) {
  return type.id() == type_id::sparse_union || type.id() == type_id::dense_union;
}

class tree_maker {
public:
  tree_maker(dictionary_trees& dictionaries, std::int16_t version)
      : dictionaries_(dictionaries), version_(version) {}

  /// Adds the entries that a column has in the lists of a message.
  void skip(column_tree& tree, const data_type& type) const {
    add_entries(tree, type);
    for (const field& child : type.children()) {
      skip(tree, child.type);
    }
  }

  /// Appends a node with its descendants.
  void add(column_tree& tree, const data_type& type, const flat_table& described, std::size_t parent,
           std::size_t child) {
    const std::size_t at = tree.nodes.size();
    tree_node& node = tree.nodes.emplace_back();
    node.type = &type;
    node.column = tree.roots.size();
    node.parent = parent;
    node.child = child;
    node.row = tree.rows;
    node.views_before = tree.views;
    add_entries(tree, type);
    node.buffer = tree.buffers - type.buffer_count();
    if (type.id() == type_id::dictionary) {
      const std::size_t number =
          dictionary(*type.value_type(), described, concat("dictionary of ", tree.label(at)));
      tree.nodes[at].dictionary = number;
    } else {
      add_children(tree, type, described, at);
    }
    tree.nodes[at].end = tree.nodes.size();
  }

private:
  void add_entries(column_tree& tree, const data_type& type) const {
    ++tree.rows;
    tree.buffers += type.buffer_count() + (version_ < version_5 && is_union(type) ? 1U : 0U);
    tree.views += type.has_variadic_buffers() ? 1U : 0U;
  }

  void add_children(column_tree& tree, const data_type& type, const flat_table& described, std::size_t at) {
    const auto children = type.children();
    if (children.empty()) {
      return;
    }
    const flat_tables below = described.tables(field_children);
    if (below.size() != children.size()) {
      refuse_metadata(
          concat(tree.label(at), ": ", below.size(), " children, its type has ", children.size()));
    }
    for (std::size_t i = 0; i < children.size(); ++i) {
      add(tree, children[i].type, below[i], at, i);
    }
  }

  std::size_t dictionary(const data_type& values, const flat_table& described, std::string label) {
    const auto encoding = described.table(field_dictionary);
    if (!encoding) {
      refuse_metadata(concat(label, ": it has no id"));
    }
    const auto id = encoding->scalar<std::int64_t>(encoding_id, 0);
    if (const auto known = dictionaries_.numbers.find(id); known != dictionaries_.numbers.end()) {
      const data_type& before = dictionaries_.trees[known->second]->values.type;
      dictionaries_.same_types = dictionaries_.same_types && before == values;
      if (!same_type(before, values)) {
        refuse_metadata(concat(label, ": its values are of type ", values.name(), ", those of the same id ",
                               id, " before of type ", before.name()));
      }
      return known->second;
    }
    const std::size_t number = dictionaries_.trees.size();
    dictionaries_.numbers.emplace(id, number);
    dictionaries_.ids.push_back(id);
    dictionaries_.trees.push_back(std::make_unique<dictionary_tree>(values));
    dictionary_tree& tree = *dictionaries_.trees.back();
    tree.root_label = std::move(label);
    // The FlatBuffer field of a dictionary column also describes its values: its children are the children of
    // the values.
    add(tree, tree.values.type, described, no_node, 0);
    tree.roots.push_back(0);
    return number;
  }

  dictionary_trees& dictionaries_;
  std::int16_t version_;
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

std::string column_tree::undivided() const {
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    const data_type& type = *nodes[node].type;
    const row_mapping mapping = type.mapping();
    if (type.has_variadic_buffers() || mapping == row_mapping::run_ends ||
        mapping == row_mapping::scattered) {
      return concat(label(node), " of ", type.name());
    }
  }
  return {};
}

column_tree make_tree(const schema& described, std::span<const int> numbers, const flat_table& flat,
                      dictionary_trees& dictionaries, std::int16_t version) {
  const auto tables = flat.tables(schema_fields);
  if (tables.size() != described.fields.size()) {
    refuse_metadata(concat(tables.size(), " fields in a schema of ", described.fields.size()));
  }
  column_tree tree;
  tree.nodes.reserve(numbers.size());
  tree_maker maker(dictionaries, version);
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const field& of = described.fields[i];
    const std::size_t column = tree.roots.size();
    if (column == numbers.size() || static_cast<std::size_t>(numbers[column]) != i) {
      maker.skip(tree, of.type);
      continue;
    }
    const std::size_t root = tree.nodes.size();
    tree.fields.push_back(&of);
    maker.add(tree, of.type, tables[i], no_node, 0);
    tree.roots.push_back(root);
  }
  return tree;
}

column_tree make_tree(const schema& described, const flat_table& flat, dictionary_trees& dictionaries,
                      std::int16_t version) {
  std::vector<int> all(described.fields.size());
  std::iota(all.begin(), all.end(), 0);
  return make_tree(described, all, flat, dictionaries, version);
}

namespace {

std::vector<int> numbers_of(const schema& source, const std::vector<std::string>& columns,
                            std::string_view where) {
  std::vector<std::string_view> names;
  std::unordered_multimap<std::string_view, int> places;
  for (const field& field : source.fields) {
    places.emplace(field.name, static_cast<int>(names.size()));
    names.emplace_back(field.name);
  }
  std::vector<int> numbers;
  for (const std::string& name : columns) {
    const auto [first, end] = places.equal_range(name);
    if (first == end) {
      throw error(errc::column_name, concat(where, ": ", unknown_column_text(name, names)));
    }
    if (std::next(first) != end) {
      throw error(errc::column_name, concat(where, ": more than one column is named '", name, "'"));
    }
    numbers.push_back(first->second);
  }
  return numbers;
}

} // namespace

projection project(const schema& source, const std::optional<std::vector<std::string>>& columns,
                   std::string_view where) {
  projection chosen;
  if (!columns) {
    chosen.requested.resize(source.fields.size());
    std::iota(chosen.requested.begin(), chosen.requested.end(), 0);
    chosen.decoded = chosen.order = chosen.requested;
    return chosen;
  }
  chosen.requested = numbers_of(source, *columns, where);
  chosen.decoded = chosen.requested;
  std::ranges::sort(chosen.decoded);
  chosen.decoded.erase(std::unique(chosen.decoded.begin(), chosen.decoded.end()), chosen.decoded.end());
  for (const int number : chosen.requested) {
    const auto place = std::ranges::lower_bound(chosen.decoded, number);
    chosen.order.push_back(static_cast<int>(place - chosen.decoded.begin()));
  }
  return chosen;
}

} // namespace saeta::ipc::detail
