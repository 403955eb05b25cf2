// Conversion between libarrow's Status and Result and Saeta's error.
//
// Failure   Invalid and serialization errors become format. An IOError becomes io if it has an errno, else
//           format (the bytes ended early). NotImplemented becomes unsupported, OutOfMemory out_of_memory,
//           CapacityError overflow. The message starts with `where`: the file and the batch.
// Back      A Saeta exception that passes through libarrow travels in the detail of the Status. It is thrown
//           again with its original type: a refused budget keeps its numbers, an interrupt stays an
//           interrupt.
#pragma once

#include "saeta/base/error.hpp"
#include "saeta/base/export.hpp"
#include "saeta/ipc/common.hpp"

#include <arrow/result.h>
#include <arrow/status.h>

#include <string_view>
#include <type_traits>
#include <utility>

namespace SAETA_EXPORT saeta {
namespace bridge {

[[noreturn]] void raise(const arrow::Status& status, std::string_view where);

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

/// Returns the exception being handled as a Status, for methods that libarrow calls and that may not throw.
/// Call it only inside a catch block. A refused budget becomes OutOfMemory, out_of_range becomes IndexError,
/// a device or io error becomes IOError.
arrow::Status current_failure();

/// Returns the Status or Result of `action`, OK if it returns nothing, or current_failure() if it throws.
template <class Action>
auto run_guarded(const Action& action)
    -> std::conditional_t<std::is_void_v<decltype(action())>, arrow::Status, decltype(action())> {
  try {
    if constexpr (std::is_void_v<decltype(action())>) {
      action();
      return arrow::Status::OK();
    } else {
      return action();
    }
  } catch (...) {
    return current_failure();
  }
}

} // namespace bridge
} // namespace saeta
