// Encodes the metadata of messages whose bodies lie elsewhere: record batches, and values of dictionaries.
//
// What      libarrow encodes a batch from arrays, whose offsets it reads on the host. Here only the places of
//           the buffers are known.
// Standard  Arrow IPC, encapsulated message format; Message.fbs. FlatBuffers internals (flatbuffers.dev).
#pragma once

#include "saeta/compute/pack_columns.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace saeta::ipc::detail {

/// Appends the prefix and the metadata of a message, padded to a multiple of 8 bytes.
/// @param flat  the FlatBuffer of the message
void append_message(std::vector<std::byte>& to, std::span<const std::byte> flat);

/// Appends a record batch message.
/// @param dictionary  the id of the dictionary whose values the batch has; nullopt: it is a batch of rows
void append_batch_message(std::vector<std::byte>& to, const packed_rows& batch,
                          std::optional<std::int64_t> dictionary, std::int64_t body_bytes);

/// Appends the mark of the end of a stream.
void append_end_of_stream(std::vector<std::byte>& to);

} // namespace saeta::ipc::detail
