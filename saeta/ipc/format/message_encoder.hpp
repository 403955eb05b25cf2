// Encodes the metadata of messages whose bodies lie elsewhere: record batches, and values of dictionaries.
//
// What      libarrow encodes a batch from arrays, whose offsets it reads on the host. Here only the places of
//           the buffers are known.
// Standard  Arrow IPC, encapsulated message format; Message.fbs. FlatBuffers internals (flatbuffers.dev).
#pragma once

#include "saeta/ipc/format/message_metadata.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace saeta::ipc::detail {

/// The lists of a record batch message, in the order of its columns, depth first.
struct message_lists {
  std::int64_t rows = 0;
  std::vector<field_node> nodes;
  std::vector<buffer_place> buffers;
  std::vector<std::int64_t> variadic_counts;
};

/// Appends the prefix and the metadata of a message, padded to a multiple of 8 bytes.
/// @param flat  the FlatBuffer of the message
void append_message(std::vector<std::byte>& to, std::span<const std::byte> flat);

/// Appends a record batch message.
/// @param dictionary  the id of the dictionary whose values the batch has; nullopt: it is a batch of rows
void append_batch_message(std::vector<std::byte>& to, const message_lists& batch,
                          std::optional<std::int64_t> dictionary, std::int64_t body_bytes);

/// Appends the mark of the end of a stream.
void append_end_of_stream(std::vector<std::byte>& to);

} // namespace saeta::ipc::detail
