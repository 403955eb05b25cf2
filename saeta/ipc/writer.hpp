// Writing tables as Arrow IPC files and streams, on libarrow.
//
// What      Batches as the table has them, dictionaries once, bodies plain or compressed. A device table is downloaded
//           batch by batch, the next one while the present one is being written.
// Atomic    A path gets its file by rename after everything is written and synced; a failure leaves what was there
//           before and no temporary file.
// Failure   io (full disk, no directory, no permission: errno's text and the path), unsupported.
#pragma once

#include "saeta/column/table.hpp"
#include "saeta/ipc/reader.hpp"

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace saeta::ipc {

enum class compression { none, lz4, zstd };

/// @throws error invalid_argument naming what there is.
compression parse_compression(std::string_view name);

struct write_options {
  container format = container::file;
  compression body = compression::none;
};

/// Bytes of the finished file.
std::uint64_t write(const table& source, const std::filesystem::path& file, const write_options& options = {},
                    const progress_hook& hook = {});

/// The same into memory.
std::string write_bytes(const table& source, const write_options& options = {});

} // namespace saeta::ipc
