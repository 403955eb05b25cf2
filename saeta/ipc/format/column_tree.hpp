// The columns of a read as a flat list of nodes, with the positions of their entries in a message.
//
// What      A node is a column or one of its descendants, depth first, in the order of the source. A record
//           batch message lists field nodes (rows and nulls) and buffers of all columns of the source.
//           Entries of columns that are not read are skipped. The positions are the same in every message of
//           a version, except for variadic buffers of views (`node_buffers` in message_layout.hpp).
// Owner     Borrows the fields of the columns.
// Thread    Immutable.
// Failure   error format: dictionaries of one id and different types, more or fewer children than a type has.
// Standard  Arrow columnar format, "Serialization and Interprocess Communication"; the order of fields and
//           buffers.

#pragma once

#include "saeta/column/schema.hpp"
#include "saeta/ipc/format/flat_table.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace saeta::ipc::detail {

inline constexpr std::size_t no_node = static_cast<std::size_t>(-1);

struct tree_node {
  const data_type* type = nullptr;
  std::size_t column = 0; ///< index into the tree's fields
  std::size_t parent = no_node;
  std::size_t child = 0; ///< index among its parent's children
  std::size_t end = 0;   ///< the node after its last descendant
  // Positions in a message:
  std::size_t row = 0;          ///< index of its field node
  std::size_t buffer = 0;       ///< index of its first buffer, without variadic buffers of earlier nodes;
                                ///< the validity that unions of version 4 have comes before it
  std::size_t views_before = 0; ///< number of view nodes before it
  std::size_t dictionary =
      no_node; ///< for a dictionary type: index of its dictionary among those of the read
};

struct column_tree {
  std::string root_label;           ///< label of the values of a dictionary; empty: columns have names
  std::vector<const field*> fields; ///< of the columns
  std::vector<tree_node> nodes;
  std::vector<std::size_t> roots; ///< node of each column
  std::size_t rows = 0;           ///< field nodes that a message must have
  std::size_t buffers = 0;        ///< buffers that it must have, without variadic buffers
  std::size_t views = 0;          ///< counts of variadic buffers that it must have

  /// Returns, for example, "column 'a', child 'b'".
  [[nodiscard]] std::string label(std::size_t node) const;
  /// Whether messages of both have the entries of these columns at the same positions.
  [[nodiscard]] bool same_positions(const column_tree& other) const;
  /// Returns the first node whose rows may be anywhere in its buffers or children, so that a compressed batch
  /// is decoded as a whole, as in "column 'a' of string_view". Empty: its rows can be decoded in parts.
  [[nodiscard]] std::string undivided() const;
};

/// The tree of the values of a dictionary, which are its only column.
struct dictionary_tree : column_tree {
  explicit dictionary_tree(const data_type& type) : values{"dictionary", type, true, {}} {
    fields = {&values};
  }
  dictionary_tree(const dictionary_tree&) = delete;
  dictionary_tree& operator=(const dictionary_tree&) = delete;
  ~dictionary_tree() = default;

  const field values;
};

/// The dictionaries that the columns need, by their ids in the messages.
struct dictionary_trees {
  std::vector<std::int64_t> ids;
  std::vector<std::unique_ptr<dictionary_tree>> trees;
  std::map<std::int64_t, std::size_t> numbers; ///< index by id
  /// Whether all columns of an id describe the values in the same words. `trees` has the first description.
  bool same_types = true;
};

/// Makes the tree of some columns of a source.
/// @param described  schema of the source; it must outlive the tree.
/// @param numbers    indices of the columns in the source, ascending.
/// @param flat       the source's FlatBuffer schema, for the ids of dictionaries.
/// @param version    of the metadata of the messages
column_tree make_tree(const schema& described, std::span<const int> numbers, const flat_table& flat,
                      dictionary_trees& dictionaries, std::int16_t version);
/// The same for all columns.
column_tree make_tree(const schema& described, const flat_table& flat, dictionary_trees& dictionaries,
                      std::int16_t version);

/// The columns that are read of a source, in messages of one version.
struct read_columns {
  column_tree tree;
  dictionary_trees dictionaries;
};

/// The columns of a source that are decoded, and the order in which they are returned.
struct projection {
  std::vector<int> requested; ///< indices in the source, in the requested order
  std::vector<int> decoded;   ///< the distinct indices of `requested`, ascending
  std::vector<int> order;     ///< for each of `requested`, its index in `decoded`
};

/// @param columns  names, each unique in the source; a name may be repeated. nullopt: all columns.
/// @throws error column_name with the name and the names in the source.
projection project(const schema& source, const std::optional<std::vector<std::string>>& columns,
                   std::string_view where);

} // namespace saeta::ipc::detail
