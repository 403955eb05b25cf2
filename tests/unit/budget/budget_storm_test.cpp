// Many threads use one tree of budgets, while another thread checks the invariants that must hold at any
// time.
#include "saeta/budget/reservation.hpp"
#include "support/budget_probe.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <random>
#include <thread>
#include <vector>

namespace saeta {
namespace {

const auto never = std::chrono::steady_clock::time_point::max();

/// A thread that reads the statistics of budgets until it is stopped, and counts impossible numbers.
class watcher {
public:
  template <class Wrong>
  watcher(const budget& watched, Wrong wrong)
      : thread_([this, &watched, wrong](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            violations_ += wrong(watched.statistics()) ? 1 : 0;
          }
        }) {}
  int violations() {
    thread_ = {}; // stops and joins the thread
    return violations_;
  }

private:
  std::atomic<int> violations_{0};
  std::jthread thread_;
};

bool past_limit(const budget_statistics& s) {
  return s.current + s.reserved > s.limit || s.peak > s.limit || s.current > s.peak ||
         s.remaining > s.limit - s.current - s.reserved;
}

TEST(budget_storm, a_refused_charge_is_never_visible) {
  const auto b = budget::create("test", 1000);
  watcher watch(*b, [](const budget_statistics& s) { return past_limit(s) || s.current % 400 != 0; });
  std::vector<std::jthread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10'000; ++i) {
        if (b->try_charge(400)) {
          b->refund(400);
        }
        EXPECT_FALSE(b->try_charge(1001));
      }
    });
  }
  threads.clear();
  EXPECT_EQ(watch.violations(), 0);
  EXPECT_EQ(b->statistics().current, 0U);
  EXPECT_LE(b->statistics().peak, 800U);
}

TEST(budget_storm, threads_without_credit_do_not_raise_the_peak) {
  constexpr std::size_t count = 4;
  constexpr std::uint64_t largest = 1000;
  const auto b = budget::create("test", 1'000'000);
  ASSERT_TRUE(b->try_charge(count * largest));
  b->refund(count * largest);
  watcher watch(*b, [](const budget_statistics& s) { return past_limit(s) || s.peak != count * largest; });
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int i = 0; i < 20'000; ++i) { // mostly small sizes, so that large ones exceed the thread's credit
        const std::uint64_t bytes = 1 + random() % (random() % 8 == 0 ? largest : largest / 20);
        ASSERT_TRUE(b->try_charge(bytes));
        b->refund(bytes);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(watch.violations(), 0);
  const budget_statistics after = b->statistics();
  EXPECT_EQ(after.current, 0U);
  EXPECT_EQ(after.remaining, after.limit);
  EXPECT_EQ(after.requests, 1 + count * 20'000);
}

TEST(budget_storm, no_credit_is_lost_when_it_is_recalled_while_in_use) {
  constexpr std::uint64_t limit = 1'000'000;
  const auto b = budget::create("test", limit);
  ASSERT_TRUE(b->try_charge(limit));
  b->refund(limit);
  std::atomic<std::uint64_t> turns{0};
  std::atomic<bool> done{false};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&] {
        while (!done) {
          for (std::uint64_t bytes = 1; bytes < 100; ++bytes) {
            if (b->try_charge(bytes)) {
              b->refund(bytes);
            }
          }
          ++turns;
        }
      });
    }
    for (int i = 0; i < 100; ++i) {
      const std::uint64_t seen = turns;
      while (turns == seen) { // until some threads have credit again
        std::this_thread::yield();
      }
      b->set_limit(limit); // recalls all credit
    }
    done = true;
  }
  const budget_statistics after = b->statistics();
  EXPECT_EQ(after.current, 0U);
  EXPECT_EQ(after.remaining, limit);
  EXPECT_EQ(after.refused, 0U);
  EXPECT_TRUE(b->try_charge(limit));
}

TEST(budget_storm, no_refusal_has_numbers_by_which_the_request_fits) {
  constexpr int rounds = 2000;
  const auto root = budget::create("root", 1000);
  const std::array budgets{root->make_child("narrow", 800), root->make_child("wide")};
  enum class stage { free, taken, to_be_freed, freed };
  std::atomic<stage> now{stage::free};
  std::atomic<bool> over{false};
  const auto await = [&](stage wanted) {
    while (now != wanted) {
      std::this_thread::yield();
    }
  };
  std::jthread holder([&] {
    for (int round = 0; round < rounds; ++round) {
      await(stage::free);
      while (!budgets[0]->try_charge(700)) {
      }
      now = stage::taken;
      await(stage::to_be_freed);
      budgets[0]->refund(700); // into its own shard if that is open, without the tree's lock
      now = stage::freed;
    }
  });
  std::jthread between([&] { // lets bytes become free between two acquisitions of the tree's lock
    for (int round = 0; round < rounds; ++round) {
      await(stage::taken);
      {
        const auto held = budget_probe::hold(*root);
        now = stage::to_be_freed;
        for (int i = 0; i < 1000 && now != stage::freed; ++i) { // its shard may have been closed meanwhile
          std::this_thread::yield();
        }
      }
      await(stage::freed);
      now = stage::free;
    }
    over = true;
  });
  std::uint64_t refusals = 0;
  int wrong = 0;
  for (std::uint64_t attempt = 0; !over; ++attempt) {
    if (now == stage::free || attempt % 64 == 0) {
      std::this_thread::yield(); // otherwise this thread could starve the others at the lock
      continue;
    }
    budget& mine = *budgets[refusals % 2];
    if (const auto refused = mine.charge_or_refuse(400)) {
      ++refusals;
      const bool exact = refused->required == uint128{refused->current} + refused->reserved + 400 &&
                         refused->remaining == refused->limit - refused->current - refused->reserved;
      wrong += exact && refused->required > refused->limit && refused->remaining < 400 ? 0 : 1;
    } else {
      mine.refund(400);
    }
  }
  EXPECT_EQ(wrong, 0) << "of " << refusals;
  EXPECT_EQ(budgets[0]->statistics().refused + budgets[1]->statistics().refused, refusals);
}

TEST(budget_storm, of_two_charges_of_the_whole_budget_exactly_one_succeeds) {
  constexpr int rounds = 10'000;
  const auto b = budget::create("test", 100);
  std::atomic<int> wins{0};
  std::atomic<int> at_start{0};
  std::atomic<int> at_end{0};
  const auto meet = [](std::atomic<int>& gate, int all) {
    ++gate;
    while (gate < all) {
      std::this_thread::yield();
    }
  };
  const auto contender = [&] {
    for (int round = 1; round <= rounds; ++round) {
      meet(at_start, 2 * round);
      const bool won = b->try_charge(100);
      wins += won ? 1 : 0;
      meet(at_end, 2 * round);
      if (won) {
        b->refund(100);
      }
    }
  };
  std::thread other(contender);
  contender();
  other.join();
  EXPECT_EQ(wins, rounds);
  EXPECT_EQ(b->statistics().peak, 100U);
  EXPECT_EQ(b->statistics().requests, static_cast<std::uint64_t>(rounds));
}

TEST(budget_storm, sixteen_threads_with_sixty_percent_of_their_demand_all_progress) {
  constexpr std::size_t count = 16;
  constexpr std::uint64_t largest = 1000;
  constexpr int rounds = 1000;
  const auto root = budget::create("root", count * largest * 6 / 10);
  const std::array budgets{root, root->make_child("narrow", 2 * largest), root->make_child("wide")};
  watcher at_root(*root, past_limit);
  watcher at_child(*budgets[1], past_limit);
  std::atomic<std::uint64_t> charged{0};
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int i = 0; i < rounds; ++i) {
        budget& mine = *budgets[random() % budgets.size()];
        const std::uint64_t bytes = 1 + random() % largest;
        ASSERT_TRUE(mine.charge_by(bytes, never)) << "refused though others were going to free";
        const std::uint64_t more = random() % largest; // no waiting while holding bytes: may deadlock
        const bool got_more = mine.try_charge(more);
        charged += got_more ? 2 : 1;
        std::this_thread::yield();
        mine.refund(bytes);
        if (got_more) {
          mine.refund(more);
        }
      }
    });
  }
  threads.clear();
  EXPECT_EQ(at_root.violations(), 0);
  EXPECT_EQ(at_child.violations(), 0);
  EXPECT_EQ(root->waiting(), 0U);
  for (const auto& b : budgets) {
    EXPECT_EQ(b->statistics().current, 0U) << b->name();
    EXPECT_EQ(b->statistics().refused, 0U) << b->name();
  }
  EXPECT_EQ(root->statistics().requests, charged);
}

TEST(budget_storm, all_operations_at_once_return_to_the_baseline) {
  const auto root = budget::create("root", 10'000);
  watcher watch(*root, past_limit);
  std::vector<std::jthread> threads;
  for (unsigned t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 500; ++i) {
        const auto child = root->make_child("child", 1000 + random() % 5000);
        reservation promised = reservation::make(child, random() % 1000, overbooking::allow);
        const budget_window window = child->open_window();
        const std::uint64_t drawn = promised.bytes() / 2;
        if (promised.try_draw(drawn)) {
          child->refund(drawn);
        }
        const std::uint64_t bytes = random() % 1000;
        const auto soon = std::chrono::steady_clock::now() + std::chrono::microseconds(random() % 200);
        if (child->charge_by(bytes, soon)) {
          EXPECT_GE(window.read().peak, bytes);
          child->refund(bytes);
        }
        if (t == 0) {
          root->reset_peak();
        }
      }
    });
  }
  threads.clear();
  EXPECT_EQ(watch.violations(), 0);
  EXPECT_EQ(root->waiting(), 0U);
  EXPECT_EQ(root->statistics().current, 0U);
  EXPECT_EQ(root->statistics().reserved, 0U);
  EXPECT_TRUE(root->try_charge(10'000));
}

} // namespace
} // namespace saeta
