#include "saeta/ipc/common.hpp"

#include "saeta/base/text.hpp"

namespace saeta::ipc {

void rethrow(const error& failure, std::string_view where) {
  if (failure.refusal() != nullptr) {
    throw;
  }
  throw error(failure.code(), concat(where, ": ", failure.message()), failure.error_number(),
              failure.where());
}

void rethrow_input(const error& failure, std::string_view where) {
  switch (failure.code()) {
  case errc::overflow:
  case errc::out_of_range:
  case errc::invalid_argument:
  case errc::type_mismatch:
    throw error(errc::format, concat(where, ": ", failure.message()), failure.error_number(),
                failure.where());
  default:
    rethrow(failure, where);
  }
}

} // namespace saeta::ipc
