// Writes tables as Arrow IPC files and streams.
//
// What      Batches are written as they are in the table, plain or compressed, or cut (`batch_rows`). A device
//           table is downloaded in windows of several batches or of a part of one. While one window is
//           downloaded, threads compress the previous one or write it to the file. They compress blocks and
//           batches in parallel.
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
// Files     A file holds one dictionary per column. Different dictionaries of a table are united, and the
//           index type is widened if needed. From one table of a `writer` to the next, values may be added. A
//           stream holds dictionaries as they are.
// Interrupt  The writing thread checks for an interrupt (base/interrupt.hpp) at least every few MiB. The
//           unfinished file is then removed.
// Failure   budget_exceeded, io (full disk, no directory, no permission: errno's text and the path),
//           unsupported (dictionaries that can't be united or read back, or would have to be replaced in a
//           file), format and out_of_range (a column whose offsets or indices contradict its buffers).
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/base/process.hpp"
#include "saeta/column/table.hpp"
#include "saeta/ipc/common.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace SAETA_EXPORT saeta {
namespace ipc {

enum class compression { none, lz4, zstd };

/// @throws error invalid_argument with the known names.
[[nodiscard]] compression parse_compression(std::string_view name);

struct write_options {
  container format = container::file;
  compression body = compression::none;
  /// In streams, writes a dictionary that begins with the previous one as a delta. Not every reader supports
  /// deltas. A file has no other way to add values.
  bool dictionary_deltas = false;
  /// When `write` returns, the file and its name survive a system crash: the file is synced before it gets
  /// its name, its folder afterwards. If false, they survive the process, but a crash soon after may leave an
  /// empty or broken file.
  bool durable = true;
  /// Also replaces a read-only file; otherwise such a file is error io.
  bool replace_read_only = false;
  /// Bytes of columns that are downloaded and encoded together.
  std::uint64_t window_bytes = std::uint64_t{64} << 20;
  /// For a `writer`: bytes of the tables that it holds. `writer::write` waits while there would be more.
  std::uint64_t pending_bytes = std::uint64_t{256} << 20;
  /// The level of the compression, as its library counts: LZ4 1 to 12, ZSTD 1 to 22. 0: the fastest.
  int level = 0;
  /// The most rows of a batch; larger ones of a table are cut. 0: as many as `batch_bytes` says.
  std::int64_t batch_rows = 0;
  /// The values of a batch in bytes, about, of files with compression and of streams: their readers read a
  /// batch as a whole. Plain files keep the batches of the table, which are read in parts and viewed.
  std::uint64_t batch_bytes = std::uint64_t{4} << 20;
};

/// Writes a table to a file. Returns the bytes of the finished file.
std::uint64_t write(const table& source, const std::filesystem::path& file, const write_options& options = {},
                    const progress_hook& hook = {});

/// Takes the next bytes, in order and a few MiB at most. Called on the writing thread; the bytes are valid
/// during the call.
using byte_sink = std::function<void(std::span<const std::byte> bytes)>;

/// Writes a table to a sink. Each window is handed over before the next one is downloaded. An exception from
/// the sink ends the write and is rethrown unchanged. `durable` and `replace_read_only` are ignored.
/// @param name  begins error messages.
std::uint64_t write(const table& source, const byte_sink& sink, const std::string& name,
                    const write_options& options = {}, const progress_hook& hook = {});

/// Writes a table into memory.
[[nodiscard]] std::string write_bytes(const table& source, const write_options& options = {});

/// Writes a file or stream table by table, in the background.
///
/// What      A thread of the writer downloads, encodes and writes tables while the caller makes the next one.
///           It also calls the hook and the sink. Tables that wait together are downloaded together, if they
///           have no dictionaries and are not compressed.
/// Memory    The tables that were given and are not written, at most `pending_bytes` or one table, and what
///           `write` needs for one of them. A table is held, not copied: its memory may be released by the
///           caller, but must not be changed before `flush` or `close` returns.
/// Order     The downloads wait on the device for the work that is pending on a table. Tables keep the order
///           of the calls.
/// Atomic    As `write`. The file gets its name in `close`. A writer that ends without it leaves none.
/// Thread    Any; calls take turns. `abandon` ends a call of another thread.
/// Fork      A child of fork can't use the writer of its parent: error closed.
/// Failure   An error of the background is thrown once, by the next call of `write`, `flush` or `close`.
///           Every later one is error closed. A table that the writer refuses (type_mismatch, unsupported)
///           and an interrupt while `write` waits change nothing. `close` that fails or is interrupted is the
///           end.
///
/// @code
/// writer file("orders.arrow", orders.fields(), {.body = compression::zstd});
/// file.write(orders); // returns while the table is written; its memory must not change until `close`
/// const std::uint64_t file_bytes = file.close(); // now the file has its name
/// @endcode
class writer {
public:
  /// @param fields  of every table; nullopt: those of the first one
  writer(const std::filesystem::path& file, std::optional<schema> fields, const write_options& options = {},
         progress_hook hook = {});
  /// @param sink  called on the background thread, at the latest when nothing else is to be written
  /// @param name  begins error messages
  writer(byte_sink sink, std::string name, std::optional<schema> fields, const write_options& options = {},
         progress_hook hook = {});
  writer(const writer&) = delete;
  writer& operator=(const writer&) = delete;
  /// As `abandon`, but never interrupted.
  ~writer();

  /// Takes a table with the names and types of `fields`, without nullable columns where these are not.
  /// Returns when there is room for it.
  /// @throws error type_mismatch naming the column.
  void write(const table& source);
  /// Waits until all tables are in the file or have been passed to the sink.
  void flush();
  /// Writes the rest and the end, and gives a file its name. Returns the bytes of the file or stream, again
  /// in later calls.
  /// @throws error invalid_argument: no table was written and no schema given, so there is no file.
  std::uint64_t close();
  /// Ends the writer without a file within 50 ms, or when a running call of the sink returns. Does nothing
  /// after `close`.
  void abandon();

private:
  class implementation;
  [[nodiscard]] implementation& in_own_process() const;

  std::unique_ptr<implementation, delete_in_own_process> made_;
};

namespace detail {
class atomic_file;
} // namespace detail

/// A file of any format that appears under its name when it is complete, as the file of `write` does. Without
/// `commit` there is no new file.
///
/// @code
/// saeta::ipc::file_target target("trips.csv", {.durable = false});
/// const std::string text = "fare\n12.5\n";
/// target.put(std::as_bytes(std::span(text)));
/// target.commit();
/// @endcode
///
/// Thread    One at a time.
/// Fork      A child of fork can't use the target of its parent.
/// Failure   io, as of `write`. closed after `commit` and `discard`.
class file_target {
public:
  /// @param options  `durable` and `replace_read_only`; the others are ignored
  explicit file_target(std::filesystem::path file, const write_options& options = {});
  file_target(const file_target&) = delete;
  file_target& operator=(const file_target&) = delete;
  ~file_target();

  /// Writes the next bytes.
  void put(std::span<const std::byte> bytes);
  /// Gives the file its name.
  void commit();
  /// Drops the file. Does nothing after `commit`.
  void discard() noexcept;

private:
  [[nodiscard]] detail::atomic_file& open() const;

  std::filesystem::path name_;
  std::unique_ptr<detail::atomic_file, delete_in_own_process> file_;
};

} // namespace ipc
} // namespace saeta
