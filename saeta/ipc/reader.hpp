// Reading Arrow IPC files and streams into a context, on libarrow.
//
// What      A reader opens a file, bytes or an object that reads ranges, tells the schema at once and yields batches lazily. An
//           uncompressed batch body is one planned transfer and its columns are views into one slab; on a host context
//           an uncompressed batch is a view of the mapped file, without a copy, unless one is asked for. Everything that is
//           copied or decoded is read by `pread`: a file that is cut short meanwhile is an error.
// Owner     The mapping lives as long as a column that views it; nobody may shorten the file meanwhile (replacing it by
//           rename, as the writer does, is safe). Bytes given by the caller live through `keepalive`.
// Budget    What bodies are decoded to, and bodies that columns view, is charged for as long as it lives: to the context's budget
//           on the host, to that of page-locked memory for a device. The body of one batch, while its columns are copied, is not.
// Order     Columns are ready in stream order (memory/buffer.hpp).
// Thread    One thread a reader.
// Failure   io (missing, a directory, unreadable: errno's text; become shorter: the offset), budget_exceeded, format (not Arrow, truncated, hostile: names the batch),
//           unsupported (names the column and its type). Nothing of a failed batch stays allocated.
// Standard  Arrow IPC format; both the file format (magic ARROW1) and the stream format are recognised.
#pragma once

#include "saeta/column/table.hpp"
#include "saeta/interop/copy_policy.hpp"
#include "saeta/interop/validation.hpp"
#include "saeta/ipc/container.hpp"
#include "saeta/ipc/progress.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace saeta::ipc {

struct read_options {
  /// Only these, in this order; names must be unique in the file.
  std::optional<std::vector<std::string>> columns = {};
  /// [first, last) by number.
  std::optional<std::pair<std::int64_t, std::int64_t>> batches = {};
  copy_policy copy = copy_policy::when_needed;
  validation check = validation::full;
  /// Strings must be UTF-8, too: error format where one is not, naming the row. With `validation::full`.
  bool check_texts = false;
  /// Whether all batches become one, as far as their offsets can count. Nothing: on a device they do, on the host they stay as
  /// they are, views where they can be. Joined batches are never views.
  std::optional<bool> rechunk = {};
};

class reader {
public:
  static std::unique_ptr<reader> open(const std::filesystem::path& file, read_options options = {});
  static std::unique_ptr<reader> open(std::span<const std::byte> bytes, std::shared_ptr<void> keepalive,
                                      read_options options = {});
  /// An object that reads ranges: of `size` bytes, each read by a call that fills the target or throws, on any thread.
  static std::unique_ptr<reader> open(std::string name, std::uint64_t size,
                                      std::function<void(std::uint64_t, std::span<std::byte>)> read,
                                      read_options options = {});
  /// A stream that is still being sent. `read_some` fills the beginning of the target, which is not empty, and returns how many bytes,
  /// 0 at the end; it is called on the thread that reads. Each message is asked for when it is needed and as long as it is:
  /// `next` returns a batch as soon as it has come, and what follows the end of the stream stays unread. Not for the file format.
  static std::unique_ptr<reader> open(std::string name,
                                      std::function<std::size_t(std::span<std::byte>)> read_some,
                                      read_options options = {});
  reader(const reader&) = delete;
  reader& operator=(const reader&) = delete;
  ~reader();

  [[nodiscard]] container format() const noexcept;
  /// Whether it reads a stream that is still being sent.
  [[nodiscard]] bool live() const noexcept;
  /// After projection.
  [[nodiscard]] const schema& fields() const noexcept;
  /// Batches in the range asked for; -1 for a stream, whose number shows at its end.
  [[nodiscard]] std::int64_t batch_count() const noexcept;
  /// The next batch, or nothing at the end. A batch that the context refused (its budget) can be asked for again; what
  /// could not be decoded fails again.
  [[nodiscard]] std::optional<batch> next(const std::shared_ptr<context>& ctx);
  /// All batches from here on: one allocation and one planned transfer where the source is a file or memory of metadata version 5
  /// and in the machine's byte order, nothing becomes symbols, and nothing is to be viewed; others batch by batch, and joined
  /// afterwards. Compressed buffers are decoded by the threads of the staging ring, each by one. A read that was refused can be
  /// repeated.
  /// @throws error exchange where batches can't be joined without a copy.
  [[nodiscard]] table read_all(const std::shared_ptr<context>& ctx, const progress_hook& hook = {});

private:
  struct impl;
  explicit reader(std::unique_ptr<impl> state);
  std::unique_ptr<impl> impl_;
};

/// Release of libarrow that this library was built with, and the one that is loaded now ("26.0.1").
std::string built_arrow_version();
std::string loaded_arrow_version();

} // namespace saeta::ipc
