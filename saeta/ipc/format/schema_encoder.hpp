// Encodes a schema as the messages of Arrow IPC hold it.
//
// What      Dictionaries are numbered in the order of their columns, each before those inside of its values.
//           Symbols are described as dictionaries of their names, and bools of one byte as Arrow's bools. The
//           name of an extension comes before all other metadata: entries may repeat its key, and readers
//           take the first one.
// Standard  Arrow's Schema.fbs and Message.fbs, metadata version 5.
#pragma once

#include "saeta/column/schema.hpp"
#include "saeta/ipc/format/flat_builder.hpp"
#include "saeta/ipc/format/message_metadata.hpp"

#include <cstddef>
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

} // namespace saeta::ipc::detail
