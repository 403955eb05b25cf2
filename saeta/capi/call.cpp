#include "saeta/capi/call.hpp"

namespace saeta::capi {
namespace {

struct thread_error {
  std::string message;
  saeta_error shown{SAETA_OK, 0, "", 0, 0, 0, 0, 0, 0};

  void set(saeta_code code, std::string_view text) noexcept {
    shown = {code, 0, "", 0, 0, 0, 0, 0, 0};
    try {
      message = text;
      shown.message = message.c_str();
    } catch (const std::bad_alloc&) {
      shown.message = "no memory for the text of the error";
    }
  }
};

thread_error& last_error() noexcept {
  thread_local thread_error last;
  return last;
}

static_assert(SAETA_INVALID_ARGUMENT == static_cast<int>(errc::invalid_argument) + 1);
static_assert(SAETA_BUDGET_EXCEEDED == static_cast<int>(errc::budget_exceeded) + 1);
static_assert(SAETA_IO == static_cast<int>(errc::io) + 1);
static_assert(SAETA_COLUMN_NAME == static_cast<int>(errc::column_name) + 1);

} // namespace

saeta_code note(saeta_code code, std::string_view message) noexcept {
  last_error().set(code, message);
  return code;
}

saeta_code note(const error& failure) noexcept {
  thread_error& last = last_error();
  last.set(static_cast<saeta_code>(failure.code()) + 1, failure.message());
  last.shown.error_number = failure.error_number();
  if (const budget_refusal* const refusal = failure.refusal()) {
    last.shown.requested = refusal->requested;
    last.shown.current = refusal->current;
    last.shown.reserved = refusal->reserved;
    last.shown.limit = refusal->limit;
    last.shown.remaining = refusal->remaining;
    last.shown.peak = refusal->peak;
  }
  return last.shown.code;
}

std::vector<std::string> required_texts(const char* const* given, std::size_t count, std::string_view name) {
  if (count != 0) {
    require_argument(given, name);
  }
  std::vector<std::string> made;
  for (std::size_t i = 0; i < count; ++i) {
    made.emplace_back(required_text(given[i], name));
  }
  return made;
}

} // namespace saeta::capi

const saeta_error* saeta_last_error(void) { return &saeta::capi::last_error().shown; }
