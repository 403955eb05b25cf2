#include "saeta/budget/reservation.hpp"
#include "support/budget_probe.hpp"
#include "unit/base/raises.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <optional>
#include <thread>
#include <vector>

namespace saeta {
namespace {

using unit::code_raised_by;

TEST(reservation, of_two_for_the_whole_budget_exactly_one_succeeds) {
  constexpr int rounds = 10'000;
  const auto b = budget::create("test", 100);
  std::barrier step(2);
  std::atomic<int> wins{0};
  const auto contender = [&] {
    for (int round = 0; round < rounds; ++round) {
      step.arrive_and_wait();
      std::optional<reservation> mine;
      if (!code_raised_by([&] { mine.emplace(reservation::make(b, 100)); })) {
        ++wins;
      }
      step.arrive_and_wait();
    }
  };
  std::thread other(contender);
  contender();
  other.join();
  EXPECT_EQ(wins, rounds);
  EXPECT_EQ(b->statistics(), (budget_statistics{.limit = 100, .remaining = 100, .refused = rounds}));
}

TEST(reservation, blocks_other_requests_and_becomes_exact_charges) {
  const auto root = budget::create("root", 100);
  const auto child = root->make_child("child");
  reservation promised = reservation::make(child, 70);
  EXPECT_EQ(root->statistics(), (budget_statistics{.limit = 100, .reserved = 70, .remaining = 30}));
  EXPECT_FALSE(root->try_charge(31));
  ASSERT_TRUE(root->try_charge(30));

  ASSERT_TRUE(promised.try_draw(50));
  EXPECT_EQ(promised.left(), 20U);
  EXPECT_EQ(child->statistics().current, 50U);
  EXPECT_EQ(child->statistics().reserved, 20U);
  EXPECT_EQ(root->statistics(),
            (budget_statistics{.limit = 100, .current = 80, .reserved = 20, .peak = 80, .requests = 2}));
  EXPECT_FALSE(promised.try_draw(21));
  ASSERT_TRUE(promised.try_draw(20));
  EXPECT_EQ(promised.left(), 0U);
  EXPECT_EQ(promised.bytes(), 70U);
  EXPECT_EQ(root->statistics().current, 100U);
  child->refund(70);
  root->refund(30);
}

TEST(reservation, uses_the_unspent_credit_of_other_threads) {
  const auto b = budget::create("test", 100);
  std::thread([&] {
    ASSERT_TRUE(b->try_charge(100));
    b->refund(100);
  }).join();
  const reservation promised = reservation::make(b, 100);
  EXPECT_FALSE(b->try_charge(1));
}

TEST(reservation, returns_its_unused_part_in_any_order_of_destruction) {
  const auto b = budget::create("test", 100);
  {
    std::optional<reservation> promised = reservation::make(b, 60);
    ASSERT_TRUE(promised->try_draw(20));
    promised.reset();
    EXPECT_EQ(b->statistics().remaining, 80U);
    b->refund(20);
    EXPECT_EQ(b->statistics().remaining, 100U);
  }
  reservation promised = reservation::make(b, 60);
  ASSERT_TRUE(promised.try_draw(20));
  b->refund(20);
  EXPECT_EQ(b->statistics().remaining, 60U); // freed bytes go to the budget, not back to the reservation
  EXPECT_EQ(promised.left(), 40U);
  promised.release();
  EXPECT_EQ(promised.left(), 0U);
  EXPECT_FALSE(promised.try_draw(1));
  EXPECT_EQ(b->statistics().remaining, 100U);
}

TEST(reservation, a_returned_draw_is_reserved_again) {
  const auto b = budget::create("test", 100);
  reservation promised = reservation::make(b, 100);
  ASSERT_TRUE(promised.try_draw(40));
  promised.put_back(40);
  EXPECT_EQ(promised.left(), 100U);
  EXPECT_EQ(b->statistics(), (budget_statistics{.limit = 100, .reserved = 100, .peak = 40, .requests = 1}));
  EXPECT_FALSE(b->try_charge(1));
  EXPECT_TRUE(promised.try_draw(100));
  b->refund(100);
}

TEST(reservation, keeps_its_budget_alive_and_moves) {
  auto b = budget::create("test", 100);
  const std::weak_ptr<budget> watched = b;
  std::optional<reservation> first = reservation::make(std::move(b), 30);
  reservation second = reservation::make(first->from(), 20);
  second = std::move(*first);
  first.reset();
  EXPECT_EQ(second.left(), 30U);
  ASSERT_FALSE(watched.expired());
  EXPECT_EQ(watched.lock()->statistics().reserved, 30U);
  { const reservation last = std::move(second); }
  EXPECT_TRUE(watched.expired());
}

TEST(reservation, a_moved_from_reservation_is_empty) {
  const auto b = budget::create("test", 100);
  reservation gone = reservation::make(b, 30);
  const reservation kept = std::move(gone);
  EXPECT_EQ(gone.bytes(), 0U); // NOLINT(bugprone-use-after-move): tests the moved-from state
  EXPECT_EQ(gone.left(), 0U);
  EXPECT_EQ(gone.overbooked(), 0U);
  EXPECT_EQ(gone.from(), nullptr);
  EXPECT_FALSE(gone.try_draw(0));
  EXPECT_FALSE(gone.try_draw(1));
  gone.put_back(1);
  gone.release();
  const budget_refusal refused = gone.draw_or_refuse(7).value();
  EXPECT_EQ(refused.requested, 7U);
  EXPECT_EQ(refused.limit, 0U);
  EXPECT_TRUE(refused.required == 7);
  EXPECT_NE(error(refused).message().find("moved from"), std::string::npos);
  EXPECT_EQ(b->statistics(), (budget_statistics{.limit = 100, .reserved = 30, .remaining = 70}));
}

TEST(reservation, of_threads_that_draw_all_of_it_exactly_one_succeeds) {
  constexpr int rounds = 300;
  constexpr std::size_t count = 4;
  const auto b = budget::create("test", 1000);
  std::optional<reservation> promised;
  std::unique_lock<std::mutex> held;
  std::atomic<int> wins{0};
  std::atomic<std::size_t> about_to_draw{0};
  std::barrier step(count + 1);
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < count; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < rounds; ++round) {
        step.arrive_and_wait();
        ++about_to_draw;
        wins += promised->try_draw(100) ? 1 : 0;
        step.arrive_and_wait();
      }
    });
  }
  for (int round = 0; round < rounds; ++round) {
    promised.emplace(reservation::make(b, 100));
    about_to_draw = 0;
    held = budget_probe::hold(*b); // so that all threads compete for the lock
    step.arrive_and_wait();
    while (about_to_draw != count) {
      std::this_thread::yield();
    }
    held.unlock();
    step.arrive_and_wait();
    EXPECT_EQ(wins, round + 1);
    EXPECT_EQ(promised->left(), 0U);
    EXPECT_EQ(b->statistics().current, 100U);
    EXPECT_EQ(b->statistics().reserved, 0U);
    b->refund(b->statistics().current);
  }
}

TEST(reservation, beyond_the_limit_is_refused_with_its_numbers) {
  const auto b = budget::create("test", 100);
  const reservation promised = reservation::make(b, 40);
  ASSERT_TRUE(b->try_charge(10));
  try {
    static_cast<void>(reservation::make(b, 51));
    FAIL() << "reserved more than there is";
  } catch (const error& refused) {
    ASSERT_NE(refused.refusal(), nullptr);
    EXPECT_EQ(refused.refusal()->requested, 51U);
    EXPECT_EQ(refused.refusal()->current, 10U);
    EXPECT_EQ(refused.refusal()->reserved, 40U);
    EXPECT_TRUE(refused.refusal()->required == 101);
    EXPECT_EQ(refused.refusal()->remaining, 50U);
    EXPECT_NE(refused.message().find("current 10 + reserved 40 + requested = 101"), std::string::npos);
  }
  EXPECT_EQ(b->statistics().reserved, 40U);
  EXPECT_EQ(b->statistics().refused, 1U);
  b->refund(10);
}

TEST(reservation, overbooks_only_on_request_without_exceeding_the_limit) {
  const auto b = budget::create("test", 100);
  ASSERT_TRUE(b->try_charge(70));
  EXPECT_EQ(code_raised_by([&] { static_cast<void>(reservation::make(b, 50)); }), errc::budget_exceeded);
  reservation promised = reservation::make(b, 50, overbooking::allow);
  EXPECT_EQ(promised.left(), 50U);
  EXPECT_EQ(promised.overbooked(), 20U);
  EXPECT_EQ(b->statistics().reserved, 30U);

  EXPECT_FALSE(promised.try_draw(40));
  EXPECT_EQ(promised.draw_or_refuse(40)->requested, 10U);
  EXPECT_EQ(promised.left(), 50U);
  EXPECT_EQ(b->statistics().reserved, 30U);
  ASSERT_TRUE(promised.try_draw(30));
  EXPECT_EQ(promised.overbooked(), 20U);
  b->refund(15);
  ASSERT_TRUE(promised.try_draw(15));
  EXPECT_FALSE(promised.try_draw(5));
  EXPECT_EQ(promised.overbooked(), 5U);
  EXPECT_EQ(b->statistics().current, 100U);
  EXPECT_EQ(b->statistics().peak, 100U);
  b->refund(100);
}

TEST(reservation, a_draw_beyond_the_remaining_bytes_is_refused) {
  const auto b = budget::create("cuda:0", 100);
  reservation promised = reservation::make(b, 30);
  ASSERT_TRUE(promised.try_draw(10));
  ASSERT_FALSE(promised.try_draw(21));
  const budget_refusal numbers = promised.draw_or_refuse(21).value();
  EXPECT_EQ(numbers.layer, "cuda:0 (reservation)");
  EXPECT_TRUE(numbers.required == uint128{numbers.current} + numbers.requested);
  EXPECT_EQ(numbers.limit, 30U);
  EXPECT_EQ(numbers.current, 10U);
  EXPECT_EQ(numbers.remaining, 20U);
  EXPECT_TRUE(numbers.required == 31);
  EXPECT_EQ(b->statistics().refused, 1U);
  b->refund(10);
}

TEST(reservation, a_limit_below_the_reserved_bytes_is_refused) {
  const auto b = budget::create("test", 100);
  const reservation promised = reservation::make(b, 60);
  ASSERT_TRUE(b->try_charge(10));
  EXPECT_EQ(code_raised_by([&] { b->set_limit(69); }), errc::invalid_argument);
  b->set_limit(70);
  EXPECT_EQ(b->statistics().remaining, 0U);
  b->refund(10);
}

TEST(reservation, parent_and_child_agree_in_any_order_of_destruction) {
  const auto root = budget::create("root", 100);
  const auto child = root->make_child("child", 80);
  for (const bool parent_first : {false, true}) {
    std::optional<reservation> above = reservation::make(root, 20);
    std::optional<reservation> below = reservation::make(child, 60);
    EXPECT_EQ(root->statistics().reserved, 80U);
    EXPECT_EQ(child->statistics().remaining, 20U);
    (parent_first ? above : below).reset();
    EXPECT_EQ(root->statistics().reserved, parent_first ? 60U : 20U);
    EXPECT_EQ(child->statistics().remaining, parent_first ? 20U : 80U);
    (parent_first ? below : above).reset();
    EXPECT_EQ(root->statistics().remaining, 100U);
    EXPECT_EQ(child->statistics().remaining, 80U);
  }
}

} // namespace
} // namespace saeta
