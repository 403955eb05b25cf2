// Reads Arrow IPC files and streams into a context.
//
// @code
// const read_options options{.columns = std::vector<std::string>{"price", "city"}};
// const std::unique_ptr<reader> file = reader::open("orders.arrow", options);
// while (const std::optional<batch> part = file->next(ctx)) { // charged to the budget of `ctx`
//   launch(ctx->work_stream(), part->columns.front());        // ordered behind the transfer
// }
// @endcode
//
// What      A reader opens a file, bytes or an object that reads ranges. The schema is known at once; batches
//           are read lazily. An uncompressed batch body is one planned transfer, and its columns are views
//           into one slab. On a host context an uncompressed batch is a view of the mapped file, unless a
//           copy is requested. Bytes that are copied or decoded are read with `pread`, so a file that becomes
//           shorter meanwhile is an error.
// Owner     The mapping lives as long as a column that views it. The file must not be shortened meanwhile;
//           replacing it by rename, as the writer does, is safe. Bytes given by the caller live through
//           `keepalive`.
// Budget    Decoded bodies, and bodies that columns view, are charged while they live: to the context's
//           budget on the host, to the budget of page-locked memory for a device. The body of a batch is not
//           charged while its columns are copied out of it.
// Order     Columns are ready in stream order (memory/buffer.hpp).
// Thread    One thread per reader.
// Failure   io (missing, a directory or unreadable: errno's text; became shorter: the offset),
//           budget_exceeded, format (not Arrow, truncated or hostile: names the batch), unsupported (names
//           the column and its type). A failed batch leaves no allocations.
// Standard  Arrow IPC format. The file format (magic ARROW1) and the stream format are recognised.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/column/table.hpp"
#include "saeta/interop/options.hpp"
#include "saeta/ipc/common.hpp"
#include "saeta/ipc/scan.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace SAETA_EXPORT saeta {
class schema_index;
}

namespace SAETA_EXPORT saeta {
namespace ipc {

namespace detail {
struct read_request;
}

struct read_options {
  /// The columns to read, in this order. Names must be unique in the file.
  std::optional<std::vector<std::string>> columns = {};
  /// The batches to read, [first, last) by number.
  std::optional<std::pair<std::int64_t, std::int64_t>> batches = {};
  copy_policy copy = copy_policy::when_needed;
  validation check = validation::full;
  /// Also checks that strings are UTF-8; the error format names the row. Use it with `validation::full`.
  bool check_texts = false;
  /// Whether all batches are joined into one, or into as few as 32-bit offsets allow. Default: joined on a
  /// device, kept on the host (as views where possible). Joined batches are never views.
  std::optional<bool> combine_chunks = {};
};

class reader {
public:
  /// @param keep_open  false: a source of a large data set (ipc/data_set.hpp), which shares descriptors with
  /// others and may be opened again. It must not be replaced or changed meanwhile.
  [[nodiscard]] static std::unique_ptr<reader> open(const std::filesystem::path& file,
                                                    read_options options = {}, bool keep_open = true);
  [[nodiscard]] static std::unique_ptr<reader>
  open(std::span<const std::byte> bytes, std::shared_ptr<void> keepalive, read_options options = {});
  /// Reads from an object of `size` bytes. Each call of `read` fills the target with the bytes from
  /// `position` on, or throws. Calls come from any thread.
  /// @param fetch  begins to read ranges (offset, bytes) that `read` will be called for, and returns what
  /// keeps their bytes. Calls of `read` for large ranges are then not split. Null: there is no such function.
  [[nodiscard]] static std::unique_ptr<reader> open(std::string name, std::uint64_t size, source_reader read,
                                                    read_options options = {},
                                                    source_fetcher fetch = nullptr);
  /// Reads a stream that is still being sent; not for the file format. `read_some` fills the beginning of the
  /// target, which is never empty, and returns the number of bytes, 0 at the end. It is called on the
  /// reader's thread. Each message is read when needed and no further, so `next` returns a batch as soon as
  /// it has arrived. Bytes behind the end of the stream stay unread.
  [[nodiscard]] static std::unique_ptr<reader>
  open(std::string name, std::function<std::size_t(std::span<std::byte> target)> read_some,
       read_options options = {});
  reader(const reader&) = delete;
  reader& operator=(const reader&) = delete;
  ~reader();

  [[nodiscard]] container format() const noexcept;
  /// Whether the source is a stream that is still being sent.
  [[nodiscard]] bool live() const noexcept;
  /// The schema after projection.
  [[nodiscard]] const schema& fields() const noexcept;
  /// Reads only these columns, as `read_options::columns` does. For columns that depend on the schema. Call
  /// it before anything is read.
  void choose(std::vector<std::string> columns);
  /// Number of batches in the requested range; -1 for a stream, where it is known only at the end.
  [[nodiscard]] std::int64_t batch_count() const noexcept;
  /// Returns the next batch, or nullopt at the end. If a budget refused a batch, the call can be repeated. A
  /// batch that could not be decoded fails again.
  [[nodiscard]] std::optional<batch> next(const std::shared_ptr<context>& ctx);
  /// Returns all remaining batches. Uses one allocation and one planned transfer if the source is a file or
  /// memory with metadata version 5 in this machine's byte order, no column becomes symbols, and columns are
  /// copied. Otherwise reads batch by batch and joins afterwards. Each compressed buffer is decoded by one
  /// thread of the staging ring. A read that a budget refused can be repeated.
  /// @throws error exchange if batches can't be joined without a copy.
  [[nodiscard]] table read_all(const std::shared_ptr<context>& ctx, const progress_hook& hook = {});
  /// Begins a scan of the remaining batches, which reads them in windows (ipc/scan.hpp). Returns null in the
  /// cases in which `read_all` reads batch by batch.
  [[nodiscard]] std::unique_ptr<scan> scan_windows(const std::shared_ptr<context>& ctx,
                                                   const scan_options& options) const;

private:
  friend class data_set;
  struct impl;
  explicit reader(std::unique_ptr<impl> state);
  [[nodiscard]] const std::string& name() const noexcept;
  /// The same as `fields`.
  [[nodiscard]] const std::shared_ptr<const schema_index>& shared_fields() const noexcept;
  [[nodiscard]] const read_options& options() const noexcept;
  /// Batches, rows and bytes that were read.
  [[nodiscard]] const progress& so_far() const noexcept;
  /// Returns the number of all batches. Walks through a stream. @throws error unsupported if it is live.
  [[nodiscard]] std::int64_t count_batches() const;
  /// Reads these batches next.
  void restart(std::pair<std::int64_t, std::int64_t> batches);
  /// Ends the reader, and drops everything that it holds in memory. `restart` begins again.
  void drop() noexcept;
  /// Returns what a plan needs to read the remaining batches; nullopt if it can't take the source.
  [[nodiscard]] std::optional<detail::read_request> request() const;
  [[nodiscard]] bool near_by() const noexcept;
  /// Lets the source fetch the first batches. Returns the bytes that are fetched.
  std::uint64_t fetch_ahead(const std::shared_ptr<context>& ctx);
  /// Whether a plan may take the source, and batches are copied for this context. Otherwise they are views.
  [[nodiscard]] bool copied_by_plan(const context& ctx) const;
  std::unique_ptr<impl> impl_;
};

} // namespace ipc
} // namespace saeta
