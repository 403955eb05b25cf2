#include "saeta/memory/budget.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace saeta {
namespace {

TEST(budget, of_two_charges_for_all_of_it_exactly_one_wins) {
  constexpr int rounds = 10'000;
  budget b("test", 100);
  std::atomic<int> wins{0};
  std::atomic<int> at_start{0};
  std::atomic<int> at_end{0};
  const auto contender = [&] {
    for (int round = 1; round <= rounds; ++round) {
      ++at_start;
      while (at_start < 2 * round) {
      }
      const bool won = b.try_charge(100);
      wins += won;
      ++at_end;
      while (at_end < 2 * round) {
      }
      if (won) {
        b.refund(100);
      }
    }
  };
  std::thread other(contender);
  contender();
  other.join();
  EXPECT_EQ(wins, rounds);
  EXPECT_EQ(b.statistics().peak, 100U);
  EXPECT_EQ(b.statistics().current, 0U);
}

TEST(budget, never_shows_more_than_its_limit_to_anyone) {
  budget b("test", 1000);
  std::atomic<bool> stop{false};
  std::atomic<int> violations{0};
  std::thread watcher([&] {
    while (!stop) {
      const budget_statistics now = b.statistics();
      violations += now.current > now.limit || now.peak > now.limit;
    }
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20'000; ++i) {
        if (b.try_charge(400)) {
          b.refund(400);
        }
      }
    });
  }
  for (std::thread& t : threads) {
    t.join();
  }
  stop = true;
  watcher.join();
  EXPECT_EQ(violations, 0);
  EXPECT_EQ(b.statistics().current, 0U);
}

TEST(budget, a_refusal_changes_only_its_own_count) {
  budget b("layer", 10);
  ASSERT_TRUE(b.try_charge(4));
  ASSERT_FALSE(b.try_charge(7));
  const budget_refusal numbers = b.refuse(7);
  EXPECT_EQ(numbers.layer, "layer");
  EXPECT_EQ(numbers.requested, 7U);
  EXPECT_TRUE(numbers.required == 11);
  const budget_statistics expected{10, 4, 6, 4, 1, 1};
  EXPECT_EQ(b.statistics(), expected);
}

TEST(budget, a_limit_below_what_is_live_is_refused_and_the_old_one_stays) {
  budget b("test", 10);
  ASSERT_TRUE(b.try_charge(8));
  EXPECT_THROW(b.set_limit(7), error);
  EXPECT_EQ(b.statistics().limit, 10U);
  b.set_limit(8);
  EXPECT_FALSE(b.try_charge(1));
  b.set_limit(9);
  EXPECT_TRUE(b.try_charge(1));
}

} // namespace
} // namespace saeta
