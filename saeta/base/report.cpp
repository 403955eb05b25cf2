#include "saeta/base/report.hpp"

#include <atomic>
#include <cstdio>
#include <exception>

namespace saeta {
namespace {

void to_stderr(std::string_view where, std::string_view message) noexcept {
  std::fprintf(stderr, "saeta: %.*s: %.*s\n", static_cast<int>(where.size()), where.data(),
               static_cast<int>(message.size()), message.data());
}

std::atomic<report_sink> current_sink{&to_stderr};

} // namespace

report_sink set_report_sink(report_sink sink) noexcept {
  return current_sink.exchange(sink == nullptr ? &to_stderr : sink);
}

void report(std::string_view where, std::string_view message) noexcept {
  current_sink.load()(where, message);
}

void report_current_exception(std::string_view where) noexcept {
  try {
    throw;
  } catch (const std::exception& e) {
    report(where, e.what());
  } catch (...) {
    report(where, "an exception of unknown type");
  }
}

} // namespace saeta
