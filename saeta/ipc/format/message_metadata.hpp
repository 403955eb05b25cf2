// Metadata that libarrow does not expose: positions of messages in a file, nodes and buffers of a batch.
//
// Standard  Arrow's File.fbs (Footer, Block) and Message.fbs (Message, RecordBatch, FieldNode,
//           BodyCompression).
// Failure   error format.
#pragma once

#include "saeta/compute/pack_columns.hpp"
#include "saeta/ipc/container.hpp"
#include "saeta/ipc/format/flat_table.hpp"

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
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

/// Makes a schema message with the footer's schema. Its version is the footer's, or the oldest supported one:
/// footers of format 0.14 have no version, and the version of each message decides its buffer layout. The
/// schema message at the beginning of the file is not used. Writers differ in what they put there, and
/// libarrow uses the footer's schema as well.
std::vector<std::byte> schema_message(std::span<const std::byte> footer);

/// Runs libarrow's verifier on the metadata of a message, so that no table of it is taken for another one.
/// @throws error format, also for a custom metadata entry without key or value.
void verify_message(std::span<const std::byte> message);

/// Returns the ids of all dictionaries in a schema.
std::set<std::int64_t> dictionary_ids(const flat_table& schema);

/// Returns the body length that a message states. It is not checked.
std::int64_t read_body_length(std::span<const std::byte> message);

using field_node = packed_node;    ///< one field of a batch, depth first
using buffer_place = packed_range; ///< one buffer of a body

/// Checks the numbers of a field. The count of nulls is at least -1, which means that it is unknown.
/// @throws error format with the numbers.
void require_node(const field_node& node, std::size_t number);

/// Checks that a buffer lies in a body of `body_bytes`, at a multiple of 8 as the format demands. A buffer
/// without bytes may be anywhere.
/// @throws error format with the number of the buffer, its place and the size of the body.
void require_place(const buffer_place& place, std::size_t number, std::int64_t body_bytes);

struct batch_metadata {
  std::int16_t version = 0; ///< of the message; the footer of a file may not have it
  std::int64_t rows = 0;
  std::vector<field_node> nodes;
  std::vector<buffer_place> buffers;
  std::vector<std::int64_t> variadic_counts; ///< number of variadic buffers of each view column
  std::string compression;                   ///< "none", "lz4", "zstd", or "codec N" for an unknown codec
};

/// Reads the batch of a record batch message, or the values of a dictionary batch message.
/// @param message  metadata of the message.
batch_metadata read_batch_metadata(std::span<const std::byte> message);

/// Overwrites the places of all buffers and the body length in the metadata of a record batch message.
/// @param message  metadata of a message with a body, so that it has a body length field.
void place_buffers(std::span<std::byte> message, std::span<const buffer_place> places,
                   std::int64_t body_bytes);

struct dictionary_metadata {
  std::int64_t id = 0;
  std::int64_t values = 0;
  bool is_delta = false; ///< the values are appended to the dictionary
};

/// @param message  metadata of a dictionary batch message.
dictionary_metadata read_dictionary_metadata(std::span<const std::byte> message);

} // namespace saeta::ipc::detail
