// Reads the metadata of files, streams and single messages, and checks it.
//
// What      Bodies are not read.
// Failure   The same as the reader (ipc/reader.hpp). A type that a context can't hold is not an error of a
//           summary.
// Standard  Arrow IPC format; Message.fbs.

#pragma once

#include "saeta/base/export.hpp"
#include "saeta/column/schema.hpp"
#include "saeta/ipc/common.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace SAETA_EXPORT saeta {
namespace ipc {

struct column_summary {
  std::string name;
  std::string type; ///< Arrow's name for it
  bool nullable = true;
  bool supported = true; ///< false: a context can't hold this type yet
  std::int64_t nulls = 0;
  std::int64_t dictionary_values = -1; ///< -1: not a dictionary
};
struct file_summary {
  container format = container::file;
  std::uint64_t bytes = 0;
  std::string compression;      ///< "none", "lz4", "zstd"
  std::string metadata_version; ///< "V5"
  std::vector<std::int64_t> batch_rows;
  metadata_list metadata;
  std::vector<column_summary> columns;
};
[[nodiscard]] file_summary inspect(const std::filesystem::path& file);
/// Summarizes bytes in memory. They must not change during the call.
[[nodiscard]] file_summary inspect(std::span<const std::byte> bytes);
/// Summarizes an object that reads ranges, and a stream that is still being sent, as reader::open takes them.
[[nodiscard]] file_summary inspect(std::string name, std::uint64_t size,
                                   std::function<void(std::uint64_t, std::span<std::byte>)> read);
[[nodiscard]] file_summary inspect(std::string name,
                                   std::function<std::size_t(std::span<std::byte>)> read_some);

/// Checks the metadata of a record batch message against its schema and the size of its body, as that of a
/// message in a file is checked (format/message_layout.hpp). Returns whether the buffers are compressed.
/// @param schema  the metadata of a schema message
bool check_body(std::span<const std::byte> schema, std::span<const std::byte> metadata,
                std::uint64_t body_bytes);
/// The same check, and one of the sizes that compressed buffers in the body claim.
bool check_body(std::span<const std::byte> schema, std::span<const std::byte> metadata,
                std::span<const std::byte> body);

} // namespace ipc
} // namespace saeta
