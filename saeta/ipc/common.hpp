// Definitions that readers and writers share: the two forms of Arrow IPC data, progress, and errors that name
// the place where they occurred.

#pragma once

#include "saeta/base/error.hpp"

#include <cstdint>
#include <functional>
#include <string_view>

namespace saeta::ipc {

/// Throws the error being handled again, with `where` before its message. A budget refusal is not changed.
[[noreturn]] void rethrow(const error& failure, std::string_view where);

/// The same for errors of reading. Errors of our own checks about numbers from the source, which contradict
/// each other or are too large for any memory, become errors of the code `format`.
[[noreturn]] void rethrow_input(const error& failure, std::string_view where);

enum class container { file, stream };

/// Batches, rows and body bytes read or written so far, and the total number of batches (-1: a stream,
/// unknown).
struct progress {
  std::int64_t batches = 0;
  std::int64_t total_batches = -1;
  std::int64_t rows = 0;
  std::uint64_t bytes = 0;
};
using progress_hook = std::function<void(const progress&)>;

} // namespace saeta::ipc
