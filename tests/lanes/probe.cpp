// One test of each outcome, for tests/lanes/check.cmake.
#include <gtest/gtest.h>

namespace {

TEST(probe, passes) { SUCCEED(); }
TEST(probe, fails) { FAIL() << "as it should"; }
TEST(probe, is_skipped) { GTEST_SKIP() << "as it should be"; }
TEST(probe, fails_and_is_skipped) {
  ADD_FAILURE() << "as it should";
  GTEST_SKIP() << "which hides nothing";
}

} // namespace
