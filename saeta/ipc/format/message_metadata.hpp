// Metadata around messages: their positions in a file, and the schema of a footer.
//
// Standard  Arrow's File.fbs (Footer, Block) and Message.fbs (Message, RecordBatch, FieldNode,
//           BodyCompression).
// Failure   error format.
#pragma once

#include "saeta/ipc/container.hpp"
#include "saeta/ipc/format/message_layout.hpp"

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

namespace saeta::ipc::detail {

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

/// Returns the ids of all dictionaries in a schema.
std::set<std::int64_t> dictionary_ids(const flat_table& schema);

} // namespace saeta::ipc::detail
