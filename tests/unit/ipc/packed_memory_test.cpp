// Memory for compressed bytes is charged exactly: first its capacity, then its final size.

#include "saeta/ipc/codec/codecs.hpp"
#include "support/error_of.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace saeta::ipc::detail {
namespace {

TEST(packed_memory, is_charged_for_its_capacity_and_then_for_its_size) {
  const auto limit = budget::create("test", 1000);
  {
    packed_memory made(limit, 1000);
    std::memset(made.bytes().data(), 7, 1000);
    EXPECT_EQ(limit->statistics().current, 1000U);
    made.shrink(3);
    EXPECT_EQ(limit->statistics().current, 3U);
    EXPECT_EQ(made.bytes().size(), 3U);
    EXPECT_EQ(made.bytes()[2], std::byte{7});
  }
  EXPECT_EQ(limit->statistics().current, 0U);
}

TEST(packed_memory, is_refused_beyond_the_budget_without_a_charge) {
  const auto limit = budget::create("test", 1000);
  const error refused = support::error_of([&] { packed_memory(limit, 1001); });
  EXPECT_EQ(refused.code(), errc::budget_exceeded);
  EXPECT_EQ(limit->statistics().current, 0U);
}

} // namespace
} // namespace saeta::ipc::detail
