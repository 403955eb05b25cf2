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

struct footer_blocks {
  std::vector<message_block> dictionaries;
  std::vector<message_block> batches;
};

/// @param file  a whole file whose footer libarrow has verified.
footer_blocks read_footer_blocks(std::span<const std::byte> file);

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
  std::int64_t rows = 0;
  std::vector<field_node> nodes;
  std::vector<buffer_place> buffers;
  std::vector<std::int64_t> variadic_counts; ///< of each column of views, the buffers behind them
  std::string compression; ///< "none", "lz4", "zstd", or "codec N" for one that the standard did not have
};

/// @param message  metadata of a record batch message.
batch_metadata read_batch_metadata(std::span<const std::byte> message);

} // namespace saeta::ipc::detail
