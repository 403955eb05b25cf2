// Between libarrow's Status and Result and Saeta's error: the one place where one becomes the other.
//
// Failure   Invalid and serialization errors are format; an IOError is io where errno says so and format where the bytes
//           ended early; NotImplemented is unsupported; OutOfMemory out_of_memory. The message starts with `where`: the
//           file and the batch.
// Back      An exception of ours that libarrow passes on travels in the detail of its Status, and is thrown again as it was: a
//           refused budget keeps its numbers, an interrupt stays one.
#pragma once

#include "saeta/base/error.hpp"

#include <arrow/result.h>
#include <arrow/status.h>

#include <string_view>
#include <utility>

namespace saeta::ipc {

[[noreturn]] void raise(const arrow::Status& status, std::string_view where);

/// Throws the error being handled again, with `where` before its message; a budget refusal stays as it is.
[[noreturn]] void rethrow(const error& failure, std::string_view where);

inline void check(const arrow::Status& status, std::string_view where) {
  if (!status.ok()) {
    raise(status, where);
  }
}

template <class T>
T take(arrow::Result<T> result, std::string_view where) {
  check(result.status(), where);
  return std::move(result).ValueUnsafe();
}

/// For methods that libarrow calls, out of which nothing may be thrown: the exception being handled, with its message. Call only
/// inside a catch block. Refused budgets are OutOfMemory, ranges IndexError, what a device or the system refused IOError.
arrow::Status current_failure();

/// What `action` returns, a Status or a Result; current_failure() where it throws.
template <class Action>
auto guarded(const Action& action) -> decltype(action()) {
  try {
    return action();
  } catch (...) {
    return current_failure();
  }
}

} // namespace saeta::ipc
