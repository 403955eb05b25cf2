// What one message says, checked: the only reader of the metadata of messages.
//
// What      Every number is checked here, before anything follows an offset: the tables of the FlatBuffer,
//           also those that nobody reads; versions and codecs; rows and nulls; buffers, which lie inside the
//           body at multiples of 8; counts of the buffers of views. What needs a schema follows:
//           `require_entries`.
// Owner     Borrows the bytes of the metadata.
// Failure   error format with the numbers; unsupported: a version, a kind or a codec that is not known.
// Standard  Arrow's Message.fbs; Arrow columnar format, "Encapsulated message format".
#pragma once

#include "saeta/column/schema.hpp"
#include "saeta/compute/pack_columns.hpp"
#include "saeta/ipc/codec/body_codec.hpp"
#include "saeta/ipc/format/flat_table.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace saeta::ipc::detail {

struct column_tree; // column_tree.hpp

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

  /// Checks that there are as many entries as the columns need, and as many rows of children as those of
  /// their parents, where these say it without values. More are ignored.
  void require_entries(const column_tree& tree) const;
};

/// @param header  of a record batch, or of the values of a dictionary
/// @param names   its columns, named by errors where they are known
batch_layout read_layout(const message_header& header, const column_tree* names = nullptr);
/// The same for a message of which no other kind is expected.
batch_layout read_layout(std::span<const std::byte> metadata);

} // namespace saeta::ipc::detail
