#include "saeta/bridge/arrow_status.hpp"

#include "saeta/base/text.hpp"

#include <arrow/util/io_util.h>

#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <system_error>

namespace saeta::bridge {
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

arrow::StatusCode code_of(const error& failure) {
  switch (failure.code()) {
  case errc::budget_exceeded:
  case errc::out_of_memory:
    return arrow::StatusCode::OutOfMemory;
  case errc::type_mismatch:
    return arrow::StatusCode::TypeError;
  case errc::unsupported:
    return arrow::StatusCode::NotImplemented;
  case errc::out_of_range:
    return arrow::StatusCode::IndexError;
  case errc::overflow:
    return arrow::StatusCode::CapacityError;
  case errc::device:
  case errc::device_lost:
  case errc::io:
  case errc::busy:
  case errc::download_forbidden:
    return arrow::StatusCode::IOError;
  case errc::column_name:
  case errc::invalid_argument:
  case errc::format:
  case errc::exchange:
  case errc::closed:
    break;
  }
  return arrow::StatusCode::Invalid;
}

constexpr const char* detail_type = "saeta::error";

/// Carries an exception through libarrow.
class passed_exception final : public arrow::StatusDetail {
public:
  /// Takes the exception that is being handled.
  explicit passed_exception(std::string_view kind) : kind_(kind) {}
  [[nodiscard]] const char* type_id() const override { return detail_type; }
  [[nodiscard]] std::string ToString() const override { return kind_; }
  [[nodiscard]] const std::exception_ptr& thrown() const noexcept { return thrown_; }

private:
  std::exception_ptr thrown_ = std::current_exception();
  std::string kind_;
};

arrow::Status make_status(arrow::StatusCode code, std::string_view message, std::string_view kind) {
  return {code, std::string(message), std::make_shared<passed_exception>(kind)};
}

/// Throws the exception that the status carries. Returns if it carries none.
void throw_passed(const arrow::Status& status, std::string_view where) {
  const auto& known = status.detail();
  if (known == nullptr || std::strcmp(known->type_id(), detail_type) != 0) {
    return;
  }
  try {
    std::rethrow_exception(static_cast<const passed_exception&>(*known).thrown());
  } catch (const error& failure) {
    ipc::rethrow(failure, where);
  }
}

} // namespace

void raise(const arrow::Status& status, std::string_view where) {
  throw_passed(status, where);
  const int number = arrow::internal::ErrnoFromStatus(status);
  const std::string reason =
      number == 0 ? "" : concat(": ", std::generic_category().message(number), " (errno ", number, ")");
  throw error(code_of(status), concat(where, ": ", status.message(), reason), number);
}

arrow::Status current_failure() {
  try {
    throw;
  } catch (const error& failure) {
    return make_status(code_of(failure), failure.message(), name_of(failure.code()));
  } catch (const std::bad_alloc&) {
    return make_status(arrow::StatusCode::OutOfMemory, "no host memory", name_of(errc::out_of_memory));
  } catch (const std::exception& failure) {
    return make_status(arrow::StatusCode::UnknownError, failure.what(), "exception");
  } catch (...) {
    return make_status(arrow::StatusCode::UnknownError, "unknown exception", "exception");
  }
}

} // namespace saeta::bridge
