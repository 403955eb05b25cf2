// Reads the schema of a source from its metadata.
//
// What      Names of the entries of maps and of run ends, which Arrow leaves open, are those of libarrow: the
//           same table has the same schema by whichever way it comes. Extensions are kept by their names,
//           whatever their storage.
// Failure   error format naming the column and the numbers; unsupported: a type or a version of the metadata
//           that is not known, and more levels or fields than a schema may have.
// Standard  Arrow's Schema.fbs.
#pragma once

#include "saeta/column/schema.hpp"
#include "saeta/ipc/common.hpp"

#include <cstddef>
#include <map>
#include <span>
#include <string>

namespace saeta::ipc::detail {

struct source_schema {
  schema fields;
  std::map<std::size_t, std::string> obstacles; ///< by column: why no context can hold it

  /// @throws error unsupported naming the column, if no context can hold it.
  void require_supported(std::size_t number) const;
};

/// @param front  the footer of a file, the metadata of the first message of a stream.
source_schema read_schema(container format, std::span<const std::byte> front);

} // namespace saeta::ipc::detail
