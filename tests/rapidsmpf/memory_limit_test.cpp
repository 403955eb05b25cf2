// The memory limit for RapidsMPF is the remaining part of the budget.
#include "conformance/harness/context_test.hpp"
#include "saeta/rapidsmpf/memory_limit.hpp"

#include <gtest/gtest.h>

namespace saeta::conformance {
namespace {

class memory_limits : public context_test {
protected:
  [[nodiscard]] static std::int64_t limit_of(const std::shared_ptr<context>& of) {
    return memory_limits_of(*of).at(rapidsmpf::MemoryType::DEVICE);
  }
};

TEST_P(memory_limits, are_the_remaining_bytes_of_the_budget) {
  constexpr auto whole = static_cast<std::int64_t>(limit);
  EXPECT_EQ(limit_of(ctx()), whole);
  const buffer held = make(1 << 20);
  EXPECT_EQ(limit_of(ctx()), whole - (1 << 20));
  EXPECT_EQ(limit_of(ctx()->with_budget("small", 4096)), 4096);
  EXPECT_EQ(limit_of(ctx()->with_budget("large", 2 * limit)), whole - (1 << 20)) << "that of the parent";
  EXPECT_EQ(limit_of(ctx()->with_reservation(8192)), 8192);
}

TEST_P(memory_limits, of_an_unlimited_budget_are_the_largest_number) {
  EXPECT_EQ(limit_of(new_context()), std::numeric_limits<std::int64_t>::max());
}

SAETA_CONFORMANCE_SUITE(memory_limits);

} // namespace
} // namespace saeta::conformance
