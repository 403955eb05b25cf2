// Writes tables as Arrow IPC files and streams. Uses libarrow.
//
// What      Batches are written as they are in the table, plain or compressed. A device table is downloaded
//           in windows of several batches or of a part of one. While one window is downloaded, threads
//           compress the previous one or write it to the file. They compress blocks and batches in parallel.
// Memory    About three windows, however large a batch is, and the dictionaries. In a batch larger than a
//           window these columns are downloaded as a whole: run-end encoded columns, list views, symbols,
//           indices that change because dictionaries are united, and slices of less than half of a column of
//           views. Compressed bytes are kept until they are in the file: three windows of them, or the
//           largest batch. Everything is charged to the budget of page-locked memory, on a host context to
//           the context's own budget.
// Atomic    The path gets its file after everything is written. A failure or the end of the process leaves
//           the old file in place. A sink has already received earlier bytes. Symbolic links are followed.
//           The new file takes over the permissions of the file it replaces, and its owner if the system
//           allows that.
// Files     A file holds one dictionary per column. Different dictionaries are united, and the index type is
//           widened if needed. A stream holds dictionaries as they are.
// Interrupt  The writing thread checks for an interrupt (base/interrupt.hpp) at least every few MiB. The
//           unfinished file is then removed.
// Failure   budget_exceeded, io (full disk, no directory, no permission: errno's text and the path),
//           unsupported (dictionaries that can't be united or read back), format and out_of_range (a column
//           whose offsets or indices contradict its buffers).
#pragma once

#include "saeta/column/table.hpp"
#include "saeta/ipc/container.hpp"
#include "saeta/ipc/progress.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace saeta::ipc {

enum class compression { none, lz4, zstd };

/// @throws error invalid_argument with the known names.
compression parse_compression(std::string_view name);

struct write_options {
  container format = container::file;
  compression body = compression::none;
  /// In streams, writes a dictionary that begins with the previous one as a delta. Not every reader supports
  /// deltas.
  bool dictionary_deltas = false;
  /// When `write` returns, the file and its name survive a system crash: the file is synced before it gets
  /// its name, its folder afterwards. If false, they survive the process, but a crash soon after may leave an
  /// empty or broken file.
  bool durable = true;
  /// Also replaces a read-only file; otherwise such a file is error io.
  bool replace_read_only = false;
  /// Bytes of columns that are downloaded and encoded together.
  std::uint64_t window_bytes = std::uint64_t{64} << 20;
};

/// Writes a table to a file. Returns the bytes of the finished file.
std::uint64_t write(const table& source, const std::filesystem::path& file, const write_options& options = {},
                    const progress_hook& hook = {});

/// Takes the next bytes, in order and a few MiB at most. Called on the writing thread; the bytes are valid
/// during the call.
using byte_sink = std::function<void(std::span<const std::byte>)>;

/// Writes a table to a sink. Each window is handed over before the next one is downloaded. An exception from
/// the sink ends the write and is rethrown unchanged. `durable` and `replace_read_only` are ignored.
/// @param name  begins error messages.
std::uint64_t write(const table& source, const byte_sink& sink, const std::string& name,
                    const write_options& options = {}, const progress_hook& hook = {});

/// Writes a table into memory.
std::string write_bytes(const table& source, const write_options& options = {});

} // namespace saeta::ipc
