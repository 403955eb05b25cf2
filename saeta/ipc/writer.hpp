// Writing tables as Arrow IPC files and streams, on libarrow.
//
// What      Batches as the table has them, dictionaries once, bodies plain or compressed. A device table is downloaded
//           window by window, of several batches or of a part of one, the next one while threads put the one before into the
//           file; they compress blocks and batches at once.
// Memory    About three windows, however large a batch is, and dictionaries. Of a batch larger than a window run-end encoded columns, list views,
//           symbols, indices that change since dictionaries are united, and slices of less than half of a column of views
//           come as a whole besides. What is compressed stays until it is in the file: three windows of it, or the largest batch. All of it
//           is charged to the budget of the host, of a host context to its own.
// Atomic    A path gets its file after everything is written; a failure, or the end of the process, leaves what was there
//           before. A sink has what was handed to it. The file replaced is followed through symbolic links and hands its permissions on, and its owner where the
//           system allows that.
// Files     A file holds one dictionary a column: different ones are united, and the index type becomes wider where that needs it. A
//           stream holds them as they are.
// Interrupt  The thread that writes looks for one (base/interrupt.hpp) at least after each few MiB; what it was writing is gone then.
// Failure   budget_exceeded (of the host), io (full disk, no directory, no permission: errno's text and the path), unsupported (dictionaries that can't
//           be united or read by anybody), format and out_of_range (a column whose offsets or indices contradict its buffers).
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

/// @throws error invalid_argument naming what there is.
compression parse_compression(std::string_view name);

struct write_options {
  container format = container::file;
  compression body = compression::none;
  /// In streams: a dictionary that begins with the one before it is written as a delta. Not every reader knows deltas.
  bool dictionary_deltas = false;
  /// When `write` returns, the file and its name outlast a crash of the system (fsync of the file before it gets its name,
  /// and of its folder afterwards). False: they outlast the process, and a crash soon after may leave an empty or a broken file.
  bool durable = true;
  /// A file without permission to write is replaced as well; otherwise that is error io.
  bool replace_read_only = false;
  /// Bytes of columns that are downloaded and encoded together.
  std::uint64_t window_bytes = std::uint64_t{64} << 20;
};

/// Bytes of the finished file.
std::uint64_t write(const table& source, const std::filesystem::path& file, const write_options& options = {},
                    const progress_hook& hook = {});

/// Takes the next bytes, which it keeps no longer than the call: a few MiB at most, in order, on the thread that writes.
using byte_sink = std::function<void(std::span<const std::byte>)>;

/// The same to a sink. A window is handed over before the next one is downloaded. What the sink throws ends the write and is thrown as
/// it is. @param name  begins messages. The options `durable` and `replace_read_only` are for files.
std::uint64_t write(const table& source, const byte_sink& sink, const std::string& name,
                    const write_options& options = {}, const progress_hook& hook = {});

/// The same into memory.
std::string write_bytes(const table& source, const write_options& options = {});

} // namespace saeta::ipc
