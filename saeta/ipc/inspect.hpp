// A summary of an Arrow IPC file or stream, from its metadata.
//
// What      Bodies are not read.
// Failure   The same as the reader (ipc/reader.hpp). A type that a context can't hold is not an error.
#pragma once

#include "saeta/column/schema.hpp"
#include "saeta/ipc/container.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace saeta::ipc {

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
file_summary inspect(const std::filesystem::path& file);
/// Summarizes bytes in memory. They must not change during the call.
file_summary inspect(std::span<const std::byte> bytes);
/// These two take an object that reads ranges and a stream that is still being sent, like reader::open.
file_summary inspect(std::string name, std::uint64_t size,
                     std::function<void(std::uint64_t, std::span<std::byte>)> read);
file_summary inspect(std::string name, std::function<std::size_t(std::span<std::byte>)> read_some);

} // namespace saeta::ipc
