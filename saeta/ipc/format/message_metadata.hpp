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
#include <optional>
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

/// What a dictionary is refused with that no column has: a batch whose metadata was changed would be lost
/// without a word.
error unknown_dictionary(std::int64_t id);

/// The ids of all dictionaries in a schema, found when one of a column that is not read is met.
using known_ids = std::optional<std::set<std::int64_t>>;

/// @throws unknown_dictionary if no column of the schema has the id
/// @param ids  those of the schema; it is filled at the first call
void require_known(std::int64_t id, const flat_table& schema, known_ids& ids);

} // namespace saeta::ipc::detail
