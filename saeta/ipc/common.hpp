// Definitions that readers and writers share: the two forms of Arrow IPC data, progress, and errors that name
// the place where they occurred.

#pragma once

#include "saeta/base/error.hpp"
#include "saeta/base/export.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

namespace SAETA_EXPORT saeta {
namespace ipc {

/// Throws the error being handled again, with `where` before its message. A budget refusal is not changed.
[[noreturn]] void rethrow(const error& failure, std::string_view where);

/// The same for errors of reading. Errors of our own checks about numbers from the source, which contradict
/// each other or are too large for any memory, become errors of the code `format`.
[[noreturn]] void rethrow_input(const error& failure, std::string_view where);

enum class container { file, stream };

/// Batches, rows and body bytes read or written so far, and the numbers of all batches and rows (-1: unknown,
/// as of a stream).
struct progress {
  std::int64_t batches = 0;
  std::int64_t total_batches = -1;
  std::int64_t rows = 0;
  std::uint64_t bytes = 0;
  std::int64_t total_rows = -1;
};
/// Bytes of a source.
struct byte_range {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  /// Where a source_fetcher puts them, and the owner of that memory. Null: it keeps them. If a source_reader is
  /// called with this memory as its target, it waits until they are there.
  std::shared_ptr<std::byte> memory = nullptr;
};
/// Fills the target with the bytes from `offset` on, or throws. Several threads call it.
using source_reader = std::function<void(std::uint64_t offset, std::span<std::byte> target)>;
/// Begins to read ranges that a source_reader will be called for, and returns what keeps their bytes.
using source_fetcher = std::function<std::shared_ptr<void>(std::span<const byte_range> ranges)>;

using progress_hook = std::function<void(const progress&)>;

} // namespace ipc
} // namespace saeta
