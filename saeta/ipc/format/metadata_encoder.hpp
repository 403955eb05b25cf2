// Encodes the metadata of messages: schemas, record batches, values of dictionaries, footers, and the end.
//
// What      The places of the buffers are known; their bytes lie elsewhere.
//           Dictionaries are numbered in the order of their columns, each before those inside of its values.
//           Symbols are described as dictionaries of their names, and bools of one byte as Arrow's bools. The
//           name of an extension comes before all other metadata: entries may repeat its key, and readers
//           take the first one.
// Standard  Arrow's Schema.fbs, Message.fbs and File.fbs, metadata version 5; Arrow IPC, encapsulated message
//           format; FlatBuffers internals (flatbuffers.dev).
#pragma once

#include "saeta/column/schema.hpp"
#include "saeta/compute/pack_columns.hpp"
#include "saeta/ipc/codec/codecs.hpp"
#include "saeta/ipc/format/flat_builder.hpp"
#include "saeta/ipc/format/message_layout.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace saeta::ipc::detail {

/// The schema as files describe it: dictionaries in place of symbols, and bools of a bit.
schema schema_in_file(schema described);

/// Appends a Schema table.
flat_builder::table add_schema(flat_builder& to, const schema& described);

/// Returns the FlatBuffer of a schema message.
std::vector<std::byte> encode_schema(const schema& described);
/// Returns the FlatBuffer of a file's footer.
std::vector<std::byte> encode_footer(const schema& described, const file_footer& blocks);

/// Appends the prefix and the metadata of a message, padded to a multiple of 8 bytes.
/// @param flat  the FlatBuffer of the message
void append_message(std::vector<std::byte>& to, std::span<const std::byte> flat);

/// What a message says of its batch, besides its rows.
struct batch_kind {
  std::optional<std::int64_t> dictionary = {}; ///< id, if the rows are values of a dictionary
  bool is_delta = false;                       ///< the values are added to the dictionary
  body_codec codec = body_codec::none;
};

/// Appends a record batch message.
void append_batch_message(std::vector<std::byte>& to, const packed_rows& batch, const batch_kind& kind,
                          std::int64_t body_bytes);

/// Appends the mark of the end of a stream.
void append_end_of_stream(std::vector<std::byte>& to);

} // namespace saeta::ipc::detail
