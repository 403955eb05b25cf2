// Writing tables as Arrow IPC files and streams, on libarrow.
//
// What      Batches as the table has them, dictionaries once, bodies plain or compressed. A device table is downloaded
//           batch by batch, the next one while the present one is being written.
// Atomic    A path gets its file by rename after everything is written and synced; a failure leaves what was there
//           before and no temporary file.
// Files     A file holds one dictionary a column: different ones are united on the host. A stream holds them as they are.
// Failure   io (full disk, no directory, no permission: errno's text and the path), unsupported (dictionaries that can't
//           be united), format and out_of_range (a column whose offsets or indices contradict its buffers).
#pragma once

#include "saeta/column/table.hpp"
#include "saeta/ipc/container.hpp"
#include "saeta/ipc/progress.hpp"

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
  /// In streams: a dictionary that begins with the one before it is written as a delta. Not every reader knows deltas.
  bool dictionary_deltas = false;
};

/// Bytes of the finished file.
std::uint64_t write(const table& source, const std::filesystem::path& file, const write_options& options = {},
                    const progress_hook& hook = {});

/// The same into memory.
std::string write_bytes(const table& source, const write_options& options = {});

} // namespace saeta::ipc
