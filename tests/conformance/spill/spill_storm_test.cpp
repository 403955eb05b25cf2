// Many threads use tables that together need three times the budget.
#include "conformance/spill/spill_test.hpp"

#include <atomic>
#include <deque>
#include <numeric>
#include <random>
#include <thread>
#include <utility>

namespace saeta::conformance {
namespace {

constexpr std::size_t threads = 16;

class spill_storm : public spill_test {
protected:
  /// Threads use random tables that together need three times the budget.
  /// @param fitting   number of tables that fit into the budget
  /// @param in_tiers  numbers of tables that fit into page-locked and into pageable memory
  void use_three_times(std::size_t fitting, std::pair<std::size_t, std::size_t> in_tiers = {8, 16}) {
    const std::uint64_t bytes = handle(0, 0, small).bytes();
    context_options chosen = options(fitting * bytes);
    chosen.spill.pinned = in_tiers.first * bytes;
    chosen.spill.pageable = in_tiers.second * bytes;
    use_options(chosen);
    std::vector<table> expected;
    std::vector<spill_handle> kept;
    for (std::uint64_t i = 0; i < 3 * fitting; ++i) {
      expected.push_back(numbers(host_, i, small));
      kept.push_back(handle(i, static_cast<int>(i % 2), small));
    }
    std::atomic<std::size_t> running{threads};
    {
      std::vector<std::jthread> users;
      for (std::size_t t = 0; t < threads; ++t) {
        users.emplace_back([&, t] {
          std::mt19937_64 random(t);
          for (int i = 0; i < 40; ++i) {
            const std::size_t which = random() % kept.size();
            const spill_use used = kept[which].use(ctx());
            EXPECT_TRUE(support::same_contents(used.value(), expected[which]));
          }
          --running;
        });
      }
      while (running != 0) {
        expect_exact_budgets();
        std::this_thread::yield();
      }
    }
    EXPECT_EQ(refused(), 0U);
    EXPECT_TRUE(settle());
    const spill_statistics now = read_spill_statistics(ctx());
    EXPECT_EQ(now.tiers[0].charged, now.tiers[0].bytes);
    EXPECT_EQ(std::accumulate(now.tiers.begin(), now.tiers.end(), std::uint64_t{0},
                              [](std::uint64_t sum, const auto& tier) { return sum + tier.bytes; }),
              kept.size() * bytes);
    for (std::size_t i = 0; i < kept.size(); ++i) {
      EXPECT_TRUE(support::same_contents(kept[i].use(ctx()).value(), expected[i]));
    }
  }
};

TEST_P(spill_storm, tables_keep_their_values_and_no_request_is_refused) { use_three_times(threads + 8); }

TEST_P(spill_storm, room_for_one_table_for_each_thread_is_enough) { use_three_times(threads); }

TEST_P(spill_storm, tables_keep_their_values_while_they_move_between_tiers) {
  use_three_times(threads, {2, 2});
  EXPECT_TRUE(ctx()->on_host() || seen(spill_tier::file).demotions != 0);
}

TEST_P(spill_storm, handles_destroyed_during_a_move_leak_nothing) {
  const std::uint64_t bytes = handle(0, 0, small).bytes();
  context_options chosen = options();
  chosen.budget = 40 * bytes;
  chosen.spill.pinned = 6 * bytes;
  chosen.spill.pageable = 6 * bytes;
  use_options(chosen);
  {
    std::vector<std::jthread> users;
    for (std::size_t t = 0; t < threads; ++t) {
      users.emplace_back([&, t] {
        std::deque<spill_handle> own;
        for (std::uint64_t i = 0; i < 30; ++i) {
          own.push_back(handle(t * 100 + i, 0, small));
          if (own.size() == 6) {
            EXPECT_TRUE(holds(own.front(), t * 100 + i - 5, small));
            own.pop_front();
            own.pop_front();
            own.pop_front();
          }
        }
      });
    }
  }
  EXPECT_EQ(in_use(), 0U);
  EXPECT_TRUE(settle());
  for (const spill_tier tier : tiers_here()) {
    EXPECT_EQ(seen(tier).charged, 0U);
    EXPECT_EQ(seen(tier).handles, 0U);
  }
}

SAETA_CONFORMANCE_SUITE(spill_storm);

} // namespace
} // namespace saeta::conformance
