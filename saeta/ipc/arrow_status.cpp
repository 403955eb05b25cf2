#include "saeta/ipc/detail/arrow_status.hpp"

#include "saeta/base/text.hpp"

#include <arrow/util/io_util.h>

#include <string>
#include <system_error>

namespace saeta::ipc::detail {
namespace {

errc code_of(const arrow::Status& status) {
  switch (status.code()) {
  case arrow::StatusCode::OutOfMemory:
    return errc::out_of_memory;
  case arrow::StatusCode::NotImplemented:
    return errc::unsupported;
  case arrow::StatusCode::CapacityError:
    return errc::overflow;
  case arrow::StatusCode::IOError:
    return arrow::internal::ErrnoFromStatus(status) != 0 ? errc::io : errc::format;
  default:
    return errc::format;
  }
}

} // namespace

void raise(const arrow::Status& status, std::string_view where) {
  const int number = arrow::internal::ErrnoFromStatus(status);
  const std::string reason =
      number == 0 ? "" : concat(": ", std::generic_category().message(number), " (errno ", number, ")");
  throw error(code_of(status), concat(where, ": ", status.message(), reason));
}

void rethrow(const error& failure, std::string_view where) {
  if (failure.refusal() != nullptr) {
    throw;
  }
  throw error(failure.code(), concat(where, ": ", failure.message()), failure.where());
}

} // namespace saeta::ipc::detail
