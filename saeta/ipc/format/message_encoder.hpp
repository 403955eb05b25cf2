// Encodes the metadata of messages: schemas, record batches, values of dictionaries, and the end.
//
// What      The places of the buffers are known; their bytes lie elsewhere.
// Standard  Arrow IPC, encapsulated message format; Message.fbs. FlatBuffers internals (flatbuffers.dev).
#pragma once

#include "saeta/compute/pack_columns.hpp"
#include "saeta/ipc/codec/body_codec.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace saeta::ipc::detail {

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
