#include "saeta/base/error.hpp"
#include "saeta/base/report.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace saeta {
namespace {

std::vector<std::string> reported;

void remember(std::string_view where, std::string_view message) noexcept {
  reported.push_back(std::string(where) + " | " + std::string(message));
}

class report_sink_test : public ::testing::Test {
protected:
  report_sink_test() : previous_(set_report_sink(remember)) { reported.clear(); }
  ~report_sink_test() override { set_report_sink(previous_); }

private:
  report_sink previous_;
};

TEST_F(report_sink_test, gets_location_and_message_in_order) {
  report("~buffer", "first");
  report("reaper", "second");
  EXPECT_EQ(reported, (std::vector<std::string>{"~buffer | first", "reaper | second"}));
}

TEST_F(report_sink_test, gets_the_exception_being_handled) {
  try {
    throw error(errc::io, "disk full");
  } catch (...) {
    report_current_exception("writer");
  }
  try {
    throw std::runtime_error("plain");
  } catch (...) {
    report_current_exception("writer");
  }
  try {
    throw 42;
  } catch (...) {
    report_current_exception("writer");
  }
  EXPECT_EQ(reported, (std::vector<std::string>{"writer | disk full", "writer | plain",
                                                "writer | an exception of unknown type"}));
}

TEST_F(report_sink_test, is_returned_when_it_is_replaced) { EXPECT_EQ(set_report_sink(remember), &remember); }

TEST(report_default, writes_one_line_to_standard_error) {
  const report_sink previous = set_report_sink(nullptr);
  ::testing::internal::CaptureStderr();
  report("~stream", "cudaErrorInvalidResourceHandle (400)");
  const std::string written = ::testing::internal::GetCapturedStderr();
  set_report_sink(previous);

  EXPECT_EQ(written, "saeta: ~stream: cudaErrorInvalidResourceHandle (400)\n");
}

} // namespace
} // namespace saeta
