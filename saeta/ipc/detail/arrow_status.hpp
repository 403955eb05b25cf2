// Between libarrow's Status and Result and Saeta's error: the one place where one becomes the other.
//
// Failure   Invalid and serialization errors are format; an IOError is io where errno says so and format where the bytes
//           ended early; NotImplemented is unsupported; OutOfMemory out_of_memory. The message starts with `where`: the
//           file and the batch.
#pragma once

#include "saeta/base/error.hpp"

#include <arrow/result.h>
#include <arrow/status.h>

#include <string_view>
#include <utility>

namespace saeta::ipc::detail {

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

} // namespace saeta::ipc::detail
