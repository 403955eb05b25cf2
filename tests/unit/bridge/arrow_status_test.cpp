// Conversion of arrow::Status to saeta::error and back.

#include "saeta/base/text.hpp"
#include "saeta/bridge/arrow_status.hpp"
#include "support/error_of.hpp"

#include <arrow/util/io_util.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <new>
#include <stdexcept>
#include <system_error>

namespace saeta::bridge {
namespace {

TEST(arrow_status, becomes_an_error_with_the_reason_of_the_operating_system) {
  using arrow::Status;
  const auto raised = [](const Status& status) {
    const error seen = support::error_of([&] { raise(status, "here"); });
    return concat(name_of(seen.code()), ", ", seen.message());
  };
  const auto expected = [](errc code, std::string_view text) {
    return concat(name_of(code), ", here: ", text);
  };
  EXPECT_EQ(raised(Status::OutOfMemory("none")), expected(errc::out_of_memory, "none"));
  EXPECT_EQ(raised(Status::NotImplemented("not yet")), expected(errc::unsupported, "not yet"));
  EXPECT_EQ(raised(Status::CapacityError("too many")), expected(errc::overflow, "too many"));
  EXPECT_EQ(raised(Status::Invalid("wrong")), expected(errc::format, "wrong"));
  const Status passed = run_guarded([]() -> Status { throw error(errc::busy, "in use"); });
  EXPECT_TRUE(passed.IsIOError());
  EXPECT_EQ(passed.message(), "in use");
  EXPECT_EQ(raised(passed.WithMessage("as libarrow says it")), expected(errc::busy, "in use"));
  EXPECT_TRUE(run_guarded([]() -> Status { throw error(errc::out_of_range, "far"); }).IsIndexError());
  EXPECT_TRUE(run_guarded([]() -> Status { throw std::bad_alloc(); }).IsOutOfMemory());
  EXPECT_THROW(raise(run_guarded([]() -> Status { throw std::range_error("ours"); }), "here"),
               std::range_error);
  EXPECT_EQ(raised(Status::IOError("cut off")), expected(errc::format, "cut off"));
  for (const int number : {EPERM, EIO}) {
    EXPECT_EQ(raised(arrow::internal::IOErrorFromErrno(number, "reading")),
              expected(errc::io, concat("reading: ", std::generic_category().message(number), " (errno ",
                                        number, ")")));
  }
}

} // namespace
} // namespace saeta::bridge
