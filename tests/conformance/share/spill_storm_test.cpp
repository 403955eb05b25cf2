// Many threads with three times as many tables as the budget has room for.
#include "conformance/share/spill_test.hpp"

#include <atomic>
#include <deque>
#include <random>
#include <thread>

namespace saeta::conformance {
namespace {

constexpr std::size_t threads = 16;
constexpr std::int64_t small = 500;

class spill_storm : public spill_test {
protected:
  /// The budgets of all tiers, at any instant.
  void sample() const {
    const spill_statistics now = read_spill_statistics(ctx());
    for (const spill_tier_statistics& tier : now.tiers) {
      EXPECT_LE(tier.charged, tier.limit);
      // A body that leaves the device counts there until it has settled, and is freed a moment before.
      EXPECT_TRUE(&tier == now.tiers.data() || tier.bytes <= tier.charged);
    }
    EXPECT_EQ(now.failures, 0U);
  }

  /// Threads use tables at random that need three times the room of the budget.
  /// @param fitting  how many tables the budget has room for
  void use_three_times(std::size_t fitting) {
    const std::uint64_t bytes = handle(0, 0, small).bytes();
    context_options chosen = options(fitting * bytes);
    chosen.spill.pinned = 8 * bytes;
    chosen.spill.pageable = 16 * bytes;
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
        sample();
        std::this_thread::yield();
      }
    }
    EXPECT_EQ(refused(), 0U);
    EXPECT_EQ(seen(spill_tier::device).charged, seen(spill_tier::device).bytes);
    std::uint64_t total = 0;
    for (const spill_tier tier : tiers_here()) {
      EXPECT_EQ(seen(tier).bytes, seen(tier).charged);
      total += seen(tier).bytes;
    }
    EXPECT_EQ(total + seen(spill_tier::device).bytes, kept.size() * bytes);
    for (std::size_t i = 0; i < kept.size(); ++i) {
      EXPECT_TRUE(support::same_contents(kept[i].use(ctx()).value(), expected[i]));
    }
  }
};

TEST_P(spill_storm, every_table_is_right_and_no_request_is_refused) { use_three_times(threads + 8); }

TEST_P(spill_storm, room_for_one_table_a_thread_is_enough) { use_three_times(threads); }

TEST_P(spill_storm, handles_that_end_while_others_move_them_leave_nothing) {
  context_options chosen = options();
  chosen.budget = 40 * handle(0, 0, small).bytes();
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
  for (const spill_tier tier : tiers_here()) {
    EXPECT_EQ(seen(tier).charged, 0U);
    EXPECT_EQ(seen(tier).handles, 0U);
  }
}

SAETA_CONFORMANCE_SUITE(spill_storm);

} // namespace
} // namespace saeta::conformance
