// Checks and reads the metadata of messages and footers. No other code reads it.
//
// What      Every number is checked here, before anything follows an offset: the tables of the FlatBuffer,
//           also those that nobody reads; versions and codecs; rows and nulls; buffers, which lie inside the
//           body at multiples of 8; counts of the buffers of views. What needs a schema follows:
//           `require_entries`.
// Owner     Borrows the bytes of the metadata.
// Failure   error format with the numbers; unsupported: a version, a kind or a codec that is not known.
// Standard  Arrow's Schema.fbs, Message.fbs and File.fbs (Footer, Block); Arrow columnar format, "Encapsulated message
//           format".

#pragma once

#include "saeta/column/schema.hpp"
#include "saeta/compute/pack_columns.hpp"
#include "saeta/ipc/codec/codecs.hpp"
#include "saeta/ipc/common.hpp"
#include "saeta/ipc/format/column_tree.hpp"
#include "saeta/ipc/format/flat_table.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace saeta::ipc::detail {

enum class message_kind : std::uint8_t { schema = 1, dictionary_batch = 2, record_batch = 3 };

struct message_header {
  std::int16_t version = 0; ///< 3 or 4, which are V4 and V5
  message_kind kind = message_kind::schema;
  std::int64_t body_bytes = 0; ///< not negative
  flat_table table;            ///< the Schema, DictionaryBatch or RecordBatch
};

/// The custom metadata of a table, in order.
metadata_list read_metadata(const flat_table& of, unsigned field);

message_header read_header(std::span<const std::byte> metadata);
/// @param header  of the values of a dictionary
std::int64_t id_of_dictionary(const message_header& header);

using field_node = packed_node;    ///< one field of a batch, depth first
using buffer_place = packed_range; ///< one buffer of a body

struct batch_layout {
  std::int16_t version = 0;
  std::int64_t rows = 0; ///< of a record batch; of a dictionary the first node counts
  std::int64_t body_bytes = 0;
  body_codec codec = body_codec::none;
  flat_structs<field_node> nodes; ///< a null count of -1 is unknown
  flat_structs<buffer_place> buffers;
  flat_structs<std::int64_t> variadic_counts; ///< of each column of views
  std::optional<std::int64_t> dictionary;     ///< id, if these are the values of a dictionary
  bool is_delta = false;                      ///< the values are appended to the dictionary

  /// Checks that the batch has the entries that the columns need, and that children have the rows that their
  /// parents require, as far as this is known without reading values. Further entries are ignored.
  void require_entries(const column_tree& tree) const;
};

/// Finds the buffers of nodes. Variadic buffers of the nodes before shift them, so nodes are asked for in
/// ascending order.
class node_buffers {
public:
  /// Borrows the layout. @param of  has the entries that the tree of the nodes needs.
  explicit node_buffers(const batch_layout& of) : of_(of) {}

  struct range {
    std::size_t first = 0;
    std::size_t count = 0;
  };
  range next(const tree_node& node);

private:
  const batch_layout& of_;
  std::size_t views_ = 0;    ///< nodes of views that were passed
  std::size_t variadic_ = 0; ///< their variadic buffers
};

/// The error for a message whose version, or whose mark of the prefix, differs from those of earlier
/// messages. No writer mixes them, and a plan looks only at the first batch of a file.
error mixed_messages();

/// The error for a delta of a dictionary that no earlier message gave values for.
error delta_of_nothing(std::int64_t dictionary);

/// Checks that a buffer has the bytes that its rows take. @param number  of the buffer
void require_bytes(std::size_t number, std::uint64_t there, std::size_t needed, std::string_view name);

/// Returns what rows point to by their first and last offset. @throws error format if there is less.
/// @param limit  bytes, or values of a list
child_rows pointed_by(std::int64_t first, std::int64_t last, std::int64_t limit, const data_type& type);

/// @param header  of a record batch, or of the values of a dictionary
/// @param names   its columns, named by errors where they are known
batch_layout read_layout(const message_header& header, const column_tree* names = nullptr);
/// The same for a message of which no other kind is expected.
batch_layout read_layout(std::span<const std::byte> metadata);

/// Checks what the compressed buffers of the columns of a batch in memory claim (`read_claim`), before memory
/// is allocated for them. A validity is left out if there are no nulls: nobody reads it.
/// @param tree  the columns of the batch
/// @param body  at least as large as the batch says
void require_honest_sizes(const batch_layout& batch, const column_tree& tree,
                          std::span<const std::byte> body);

/// Position of one message in a file: File.fbs, struct Block.
struct message_block {
  std::int64_t offset = 0;
  std::int32_t metadata_bytes = 0; ///< prefix and padding included
  std::int32_t padding = 0;
  std::int64_t body_bytes = 0;
};

struct file_footer {
  std::vector<message_block> dictionaries;
  std::vector<message_block> batches;
};

/// @param footer  the footer's FlatBuffer without its size and magic. It has a schema, which is not verified.
file_footer read_footer(std::span<const std::byte> footer);

/// The schema table of a source, which is not verified. @throws error format if there is none.
/// @param front  the footer of a file, the metadata of the first message of a stream.
flat_table schema_table(container format, std::span<const std::byte> front);

struct source_schema {
  schema fields;
  std::map<std::size_t, std::string> obstacles; ///< by column: why no context can hold it

  /// @throws error unsupported naming the column, if no context can hold it.
  void require_supported(std::size_t number) const;
};

/// Reads the schema of a source. Names of the entries of maps and of run ends, which Arrow leaves open, are those of
/// libarrow: the same table has the same schema by whichever way it comes. Extensions are kept by their names,
/// whatever their storage.
/// @param front  the footer of a file, the metadata of the first message of a stream.
/// @throws error format naming the column and the numbers; unsupported: a type or a version of the metadata that
/// is not known, and more levels or fields than a schema may have.
source_schema read_schema(container format, std::span<const std::byte> front);

/// The error for a dictionary that no column has. It is not ignored, because a batch with changed metadata
/// would then be lost unnoticed.
error unknown_dictionary(std::int64_t id);

/// The ids of all dictionaries in a schema. Computed when a dictionary of a column that is not read occurs.
using known_ids = std::optional<std::set<std::int64_t>>;

/// @throws unknown_dictionary if no column of the schema has the id
/// @param ids  those of the schema; it is filled at the first call
void require_known(std::int64_t id, const flat_table& schema, known_ids& ids);

// The columns of one message: the walk from its entries to columns over its body.
//
// What      Nodes of the tree are taken depth first. A maker says what their buffers, dictionaries and
//           columns are: columns over a body in a context (packed.cpp), or arrays in host memory
//           (host_columns.cpp).
// Owner     Borrows all of its arguments.
// Failure   That of the maker, with the label of the column.

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
      // A parent without rows refers to no rows of its children, but the metadata of these must be valid.
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
