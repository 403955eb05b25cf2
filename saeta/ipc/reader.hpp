// Reading Arrow IPC files and streams into a context, on libarrow.
//
// What      A reader opens a file (memory-mapped) or bytes, tells the schema at once and yields batches lazily. An
//           uncompressed batch body is one planned transfer and its columns are views into one slab; on a host context
//           an uncompressed batch is a view of the mapping, without a copy, unless one is asked for.
// Owner     The mapping lives as long as a column that views it; nobody may shorten the file meanwhile (replacing it by
//           rename, as the writer does, is safe). Bytes given by the caller live through `keepalive`.
// Order     Columns are ready in stream order (memory/buffer.hpp).
// Thread    One thread a reader.
// Failure   io (missing, a directory, unreadable: errno's text), format (not Arrow, truncated, hostile: names the batch),
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
  /// Bytes that decoded bodies may take at one time, those that columns still view among them; a source that claims more
  /// is refused before memory is asked for. 0: the larger of 1 GiB and 1024 times the source's own bytes.
  std::uint64_t decode_limit = 0;
};

class reader {
public:
  static std::unique_ptr<reader> open(const std::filesystem::path& file, read_options options = {});
  static std::unique_ptr<reader> open(std::span<const std::byte> bytes, std::shared_ptr<void> keepalive,
                                      read_options options = {});
  reader(const reader&) = delete;
  reader& operator=(const reader&) = delete;
  ~reader();

  [[nodiscard]] container format() const noexcept;
  /// After projection.
  [[nodiscard]] const schema& fields() const noexcept;
  /// Batches in the range asked for; -1 for a stream, whose number shows at its end.
  [[nodiscard]] std::int64_t batch_count() const noexcept;
  /// The next batch, or nothing at the end. A batch that the context refused (its budget) can be asked for again; what
  /// could not be decoded fails again.
  [[nodiscard]] std::optional<batch> next(const std::shared_ptr<context>& home);
  /// All batches from here on.
  [[nodiscard]] table read_all(const std::shared_ptr<context>& home, const progress_hook& hook = {});

private:
  struct impl;
  explicit reader(std::unique_ptr<impl> state);
  std::unique_ptr<impl> impl_;
};

/// Release of libarrow that this library was built with, and the one that is loaded now ("26.0.1").
std::string built_arrow_version();
std::string loaded_arrow_version();

} // namespace saeta::ipc
