// Reads the schema of a source from its metadata.
//
// What      The schema is the one that an import of libarrow's description of the same table gives. libarrow
//           makes several objects and hash entries of each column, which takes longer than everything else
//           that is done to read a wide table.
// Failure   What is rare or wrong is left to libarrow, which describes it or names the error: extension types
//           that are registered in libarrow, names and time zones with a zero byte or not in UTF-8, and every
//           table that is broken.
// Standard  Arrow's Schema.fbs.
#pragma once

#include "saeta/column/schema.hpp"
#include "saeta/ipc/container.hpp"

#include <cstddef>
#include <optional>
#include <span>

namespace saeta::ipc::detail {

/// Returns nullopt if the schema is left to libarrow.
/// @param front  the footer of a file, the metadata of the first message of a stream.
std::optional<schema> read_schema(container format, std::span<const std::byte> front);

} // namespace saeta::ipc::detail
