#include "saeta/budget/reservation.hpp"
#include "support/budget_probe.hpp"
#include "unit/base/raises.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace saeta {
namespace {

using unit::code_raised_by;

constexpr std::uint64_t most_charge = std::numeric_limits<std::uint64_t>::max();

template <class Action>
void on_another_thread(Action action) {
  std::thread(action).join();
}

TEST(budget, counts_exactly_through_charge_refund_refusal_and_reset) {
  const auto b = budget::create("test", 100);
  EXPECT_EQ(b->statistics(), (budget_statistics{.limit = 100, .remaining = 100}));
  ASSERT_TRUE(b->try_charge(60));
  ASSERT_TRUE(b->try_charge(0));
  EXPECT_EQ(b->statistics(),
            (budget_statistics{.limit = 100, .current = 60, .remaining = 40, .peak = 60, .requests = 2}));
  ASSERT_FALSE(b->try_charge(41));
  EXPECT_EQ(b->statistics().refused, 0U); // counted when the caller gives up
  ASSERT_TRUE(b->charge_or_refuse(41));
  b->refund(50);
  EXPECT_EQ(b->statistics(),
            (budget_statistics{
                .limit = 100, .current = 10, .remaining = 90, .peak = 60, .requests = 2, .refused = 1}));
  b->reset_peak();
  EXPECT_EQ(b->statistics().peak, 10U);
  ASSERT_TRUE(b->try_charge(5));
  EXPECT_EQ(b->statistics().peak, 15U);
  b->refund(15);
  EXPECT_EQ(b->statistics().current, 0U);
}

TEST(budget, a_refusal_has_its_numbers_and_changes_only_the_refusal_count) {
  const auto b = budget::create("layer", 10);
  ASSERT_TRUE(b->try_charge(4));
  const budget_refusal numbers = b->charge_or_refuse(7).value();
  EXPECT_EQ(numbers.layer, "layer");
  EXPECT_EQ(numbers.requested, 7U);
  EXPECT_EQ(numbers.current, 4U);
  EXPECT_EQ(numbers.reserved, 0U);
  EXPECT_TRUE(numbers.required == 11);
  EXPECT_EQ(numbers.limit, 10U);
  EXPECT_EQ(numbers.remaining, 6U);
  EXPECT_EQ(numbers.peak, 4U);
  EXPECT_EQ(
      b->statistics(),
      (budget_statistics{.limit = 10, .current = 4, .remaining = 6, .peak = 4, .requests = 1, .refused = 1}));
}

TEST(budget, numbers_are_exact_up_to_the_last_64_bit_value) {
  const auto b = budget::create("all");
  ASSERT_TRUE(b->try_charge(1));
  const budget_refusal numbers = b->charge_or_refuse(most_charge).value();
  EXPECT_TRUE(numbers.required == uint128{most_charge} + 1);
  EXPECT_EQ(numbers.remaining, most_charge - 1);
  ASSERT_TRUE(b->try_charge(most_charge - 1));
  EXPECT_EQ(b->statistics().current, most_charge);
  EXPECT_EQ(b->statistics().remaining, 0U);
  EXPECT_FALSE(b->try_charge(1));
  on_another_thread([&] { b->refund(most_charge); });
  EXPECT_EQ(b->statistics().current, 0U);
  EXPECT_TRUE(b->try_charge(most_charge));
  b->refund(most_charge);
}

TEST(budget, a_charge_is_applied_to_all_ancestors_or_to_none) {
  const auto root = budget::create("root", 100);
  const auto narrow = root->make_child("narrow", 30);
  const auto wide = root->make_child("wide", 500);
  ASSERT_TRUE(narrow->try_charge(30));
  EXPECT_FALSE(narrow->try_charge(1));
  EXPECT_FALSE(wide->try_charge(71));
  EXPECT_EQ(wide->statistics().peak, 0U);
  EXPECT_EQ(wide->statistics().remaining, 70U);
  ASSERT_TRUE(wide->try_charge(70));
  EXPECT_EQ(root->statistics(),
            (budget_statistics{.limit = 100, .current = 100, .peak = 100, .requests = 2}));
  narrow->refund(30);
  wide->refund(70);
  EXPECT_EQ(root->statistics().current, 0U);
}

TEST(budget, a_refusal_names_the_full_budget_and_is_counted_there) {
  const auto root = budget::create("root", 10);
  const auto child = root->make_child("child", 50);
  ASSERT_FALSE(child->try_charge(11));
  const budget_refusal by_root = child->charge_or_refuse(11).value();
  EXPECT_EQ(by_root.layer, "root");
  EXPECT_EQ(by_root.levels_above, 1U);
  const budget_refusal by_child = child->charge_or_refuse(51).value();
  EXPECT_EQ(by_child.layer, "child");
  EXPECT_EQ(by_child.levels_above, 0U);
  EXPECT_EQ(child->statistics().refused, 2U);
  EXPECT_EQ(root->statistics().refused, 1U);
}

TEST(budget, the_numbers_of_a_refusal_are_consistent) {
  const auto root = budget::create("root", 10);
  const auto child = root->make_child("child", 50);
  ASSERT_TRUE(root->try_charge(4));
  reservation promised = reservation::make(child, 8, overbooking::allow);
  const auto locks_of = [&](const auto& call) {
    const std::uint64_t before = budget_probe::locks(*root);
    EXPECT_TRUE(call());
    return budget_probe::locks(*root) - before - 1;
  };
  EXPECT_EQ(locks_of([&] { return child->charge_or_refuse(7); }), 1U);
  EXPECT_EQ(locks_of([&] { return promised.draw_or_refuse(8); }), 1U);
  EXPECT_EQ(locks_of([&] { return promised.draw_or_refuse(9); }), 1U);
  root->refund(4);
}

TEST(budget, a_destroyed_child_leaves_only_its_request_count) {
  const auto root = budget::create("root", 100);
  auto child = root->make_child("child");
  EXPECT_TRUE(child->is_within(*root));
  EXPECT_FALSE(root->is_within(*child));
  ASSERT_TRUE(child->try_charge(80));
  child->refund(80);
  child.reset();
  EXPECT_EQ(root->statistics(),
            (budget_statistics{.limit = 100, .remaining = 100, .peak = 80, .requests = 1}));
  EXPECT_TRUE(root->try_charge(100));
}

TEST(budget, credit_of_other_threads_is_recalled_before_a_refusal) {
  const auto b = budget::create("test", 1000);
  const auto child = b->make_child("child");
  for (int round = 0; round < 100; ++round) {
    on_another_thread([&] {
      ASSERT_TRUE(child->try_charge(1000));
      child->refund(1000);
    });
    ASSERT_TRUE(b->try_charge(1000));
    ASSERT_FALSE(child->try_charge(1));
    b->refund(1000);
  }
}

TEST(budget, a_charge_may_be_refunded_on_another_thread) {
  const auto b = budget::create("test", 1000);
  for (int round = 0; round < 100; ++round) {
    on_another_thread([&] { ASSERT_TRUE(b->try_charge(900)); });
    ASSERT_EQ(b->statistics().current, 900U);
    b->refund(900);
    ASSERT_EQ(b->statistics().current, 0U);
  }
  EXPECT_EQ(b->statistics().peak, 900U);
}

TEST(budget, the_peak_of_sequential_threads_is_that_of_one) {
  const auto b = budget::create("test");
  for (int i = 0; i < 4; ++i) {
    on_another_thread([&] {
      ASSERT_TRUE(b->try_charge(10));
      b->refund(10);
    });
  }
  EXPECT_EQ(b->statistics().peak, 10U);
}

TEST(budget, the_peak_of_concurrent_threads_is_their_sum) {
  constexpr int count = 8;
  const auto b = budget::create("test");
  const auto child = b->make_child("child");
  std::barrier step(count);
  std::vector<std::jthread> threads;
  for (int t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 50; ++round) {
        budget& mine = t % 2 == 0 ? *b : *child;
        EXPECT_TRUE(mine.try_charge(10));
        step.arrive_and_wait();
        mine.refund(10);
        step.arrive_and_wait();
      }
    });
  }
  threads.clear();
  EXPECT_EQ(b->statistics().peak, 80U);
  EXPECT_EQ(child->statistics().peak, 40U);
}

TEST(budget, the_peak_is_exact_for_alternating_threads) {
  const auto b = budget::create("test", 5000);
  const auto child = b->make_child("child", 3000);
  struct {
    std::mutex turn;
    std::uint64_t live[2] = {};
    std::uint64_t peak[2] = {};
  } model;
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::uint64_t> mine;
    for (int i = 0; i < 5000; ++i) {
      const std::lock_guard hold(model.turn);
      const std::uint64_t bytes = random() % 400;
      if (random() % 2 == 0 && model.live[1] + bytes <= 3000) {
        ASSERT_TRUE(child->try_charge(bytes));
        mine.push_back(bytes);
        model.live[1] += bytes;
        model.peak[1] = std::max(model.peak[1], model.live[1]);
        model.peak[0] = std::max(model.peak[0], model.live[1] + model.live[0]);
      } else if (!mine.empty()) {
        child->refund(mine.back());
        model.live[1] -= mine.back();
        mine.pop_back();
      }
      if (i % 100 == 0) {
        if (i % 1000 == 0) {
          child->reset_peak();
          model.peak[1] = model.live[1];
        }
        ASSERT_EQ(child->statistics().peak, model.peak[1]);
        ASSERT_EQ(b->statistics().peak, model.peak[0]);
        ASSERT_EQ(b->statistics().current, model.live[1]);
      }
    }
    for (const std::uint64_t bytes : mine) {
      const std::lock_guard hold(model.turn);
      child->refund(bytes);
      model.live[1] -= bytes;
    }
  };
  std::vector<std::jthread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back(work, t);
  }
  threads.clear();
  EXPECT_EQ(b->statistics().current, 0U);
}

TEST(budget, a_limit_below_the_live_bytes_is_refused) {
  const auto b = budget::create("test", 10);
  ASSERT_TRUE(b->try_charge(8));
  std::string message;
  EXPECT_EQ(code_raised_by([&] { b->set_limit(7); }, &message), errc::invalid_argument);
  EXPECT_NE(message.find("8 bytes are live"), std::string::npos) << message;
  EXPECT_EQ(b->limit(), 10U);
  b->set_limit(8);
  EXPECT_FALSE(b->try_charge(1));
  b->set_limit(9);
  EXPECT_EQ(b->limit(), 9U);
  EXPECT_TRUE(b->try_charge(1));
}

TEST(budget, credit_never_exceeds_the_peak_of_an_open_window) {
  const auto b = budget::create("test", 100'000);
  ASSERT_TRUE(b->try_charge(64'000));
  b->refund(64'000); // credit may be granted up to this peak
  const auto child = b->make_child("child");
  const budget_window window = b->open_window();
  for (std::uint64_t live = 1; live <= 100; ++live) {
    ASSERT_TRUE((live % 2 == 0 ? b : child)->try_charge(1));
    ASSERT_EQ(window.read().peak, live);
  }
  b->refund(50);
  child->refund(50);
  EXPECT_EQ(window.read().peak, 100U);
}

TEST(budget, windows_are_independent_and_may_be_nested) {
  const auto b = budget::create("test", 100);
  ASSERT_TRUE(b->try_charge(50));
  b->refund(30);
  const budget_window outer = b->open_window();
  EXPECT_EQ(outer.read().start, 20U);
  EXPECT_EQ(outer.read().peak, 20U);
  ASSERT_TRUE(b->try_charge(10));
  {
    const budget_window inner = b->open_window();
    on_another_thread([&] {
      ASSERT_TRUE(b->try_charge(7));
      b->refund(7);
    });
    EXPECT_TRUE(b->charge_or_refuse(99));
    const budget_window::values seen = inner.read();
    EXPECT_EQ(seen.start, 30U);
    EXPECT_EQ(seen.current, 30U);
    EXPECT_EQ(seen.peak, 37U);
    EXPECT_EQ(seen.requests, 1U);
    EXPECT_EQ(seen.refused, 1U);
  }
  b->refund(30);
  b->reset_peak();
  EXPECT_EQ(outer.read().current, 0U);
  EXPECT_EQ(outer.read().peak, 37U);
  EXPECT_EQ(outer.read().requests, 2U);
  EXPECT_EQ(b->statistics().peak, 0U);
}

TEST(budget, a_window_is_not_changed_by_queries) {
  const auto root = budget::create("root");
  ASSERT_TRUE(root->try_charge(100));
  root->refund(100);
  const budget_window window = root->open_window();
  ASSERT_TRUE(root->try_charge(1));
  root->refund(1); // leaves the thread a byte of credit, which expires after some searches
  for (int times = 0; times < 200; ++times) {
    ASSERT_EQ(window.read().current, 0U) << times;
  }
}

TEST(budget, a_closed_window_is_removed) {
  const auto b = budget::create("test", 100);
  {
    budget_window outer = b->open_window();
    { const budget_window inner = b->open_window(); }
    EXPECT_EQ(budget_probe::windows(*b), 1U);
    const budget_window moved = std::move(outer);
    EXPECT_EQ(budget_probe::windows(*b), 1U);
  }
  EXPECT_EQ(budget_probe::windows(*b), 0U) << "its peak would be written after its end";
}

TEST(budget, of_a_parent_process_can_be_dropped_in_a_child_while_its_lock_is_held) {
  const auto root = budget::create("root", 100);
  auto child_budget = root->make_child("child");
  auto window = std::make_optional(root->open_window());
  auto promised = std::make_optional(reservation::make(root, 10));
  auto elsewhere = budget_probe::hold(*root); // as another thread of the parent may have held it
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20); // kills a child that waits for that thread
    window.reset();
    promised.reset();
    child_budget.reset();
    ::_exit(0);
  }
  elsewhere.unlock();
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
}

} // namespace
} // namespace saeta
