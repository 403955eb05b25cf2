// What libarrow knows of a message and does not tell: where the messages of a file lie, and what a batch says of itself.
//
// Standard  Arrow's File.fbs (Footer, Block) and Message.fbs (Message, RecordBatch, FieldNode, BodyCompression).
// Failure   error format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace saeta::ipc::detail {

/// Place of one message in a file: File.fbs, struct Block.
struct message_block {
  std::int64_t offset = 0;
  std::int32_t metadata_bytes = 0; ///< prefix and padding included
  std::int32_t padding = 0;
  std::int64_t body_bytes = 0;
};

struct file_footer {
  std::vector<message_block> dictionaries;
  std::vector<message_block> batches;
  /// A schema message of the footer's schema, of the footer's version, or of the oldest that is read: files of the format 0.14 have none
  /// in their footers, and it is the messages that say how their buffers lie. The one at the beginning of a file is not needed: writers differ in what they put
  /// there, and where both differ the footer's is believed, as libarrow does.
  std::vector<std::byte> schema;
};

/// @param footer  its flatbuffer alone. The schema is not verified.
file_footer read_footer(std::span<const std::byte> footer);

/// Bytes of the body behind a message. Not checked.
std::int64_t read_body_length(std::span<const std::byte> message);

/// One field of a batch, depth first: Message.fbs, struct FieldNode.
struct field_node {
  std::int64_t length = 0;
  std::int64_t null_count = 0;
};

/// One buffer of a body: Schema.fbs, struct Buffer.
struct buffer_place {
  std::int64_t offset = 0;
  std::int64_t length = 0;
};

struct batch_metadata {
  std::int16_t version = 0; ///< of the message, which the footer of a file need not know
  std::int64_t rows = 0;
  std::vector<field_node> nodes;
  std::vector<buffer_place> buffers;
  std::vector<std::int64_t> variadic_counts; ///< of each column of views, the buffers behind them
  std::string compression; ///< "none", "lz4", "zstd", or "codec N" for one that the standard did not have
};

/// @param message  metadata of a record batch message, or of a dictionary batch: then of its values.
batch_metadata read_batch_metadata(std::span<const std::byte> message);

/// Writes other places of buffers, as many as there are, and the length of their body into the metadata of a record batch message.
/// @param message  which has a body, so that its length is written there.
void place_buffers(std::span<std::byte> message, std::span<const buffer_place> places,
                   std::int64_t body_bytes);

struct dictionary_metadata {
  std::int64_t id = 0;
  std::int64_t values = 0;
  bool is_delta = false; ///< the values follow those that the dictionary has already
};

/// @param message  metadata of a dictionary batch message.
dictionary_metadata read_dictionary_metadata(std::span<const std::byte> message);

} // namespace saeta::ipc::detail
