// Waiting in line for room in a budget.
#include "saeta/budget/reservation.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <optional>
#include <thread>
#include <vector>

namespace saeta {
namespace {

using std::chrono::steady_clock;

const auto far = steady_clock::time_point::max();
const auto past = steady_clock::time_point::min();

void until_waiting(const budget& b, std::size_t count) {
  while (b.waiting() != count) {
    std::this_thread::yield();
  }
}

std::future<bool> charge_in_line(budget& b, std::uint64_t bytes, steady_clock::time_point deadline = far) {
  return std::async(std::launch::async, [&b, bytes, deadline] { return b.charge_by(bytes, deadline); });
}

TEST(budget_line, a_charge_that_fits_does_not_wait) {
  const auto b = budget::create("test", 10);
  EXPECT_TRUE(b->charge_by(10, past));
  b->refund(10);
}

TEST(budget_line, a_request_that_can_never_fit_does_not_wait) {
  const auto root = budget::create("root", 10);
  const auto child = root->make_child("child", 20);
  EXPECT_FALSE(child->charge_by(21, far));
  EXPECT_FALSE(child->charge_by(11, far));
}

TEST(budget_line, a_deadline_that_passes_leaves_everything_as_it_was) {
  const auto b = budget::create("test", 10);
  ASSERT_TRUE(b->try_charge(6));
  const budget_statistics before = b->statistics();
  EXPECT_FALSE(b->charge_by(5, past));
  const auto soon = steady_clock::now() + std::chrono::milliseconds(5);
  EXPECT_FALSE(b->charge_by(5, soon));
  EXPECT_GE(steady_clock::now(), soon);
  EXPECT_EQ(b->waiting(), 0U);
  EXPECT_EQ(b->statistics(), before);
  EXPECT_TRUE(b->try_charge(4));
  b->refund(10);
}

TEST(budget_line, serves_first_come_first_and_small_ones_do_not_pass) {
  const auto b = budget::create("test", 10);
  ASSERT_TRUE(b->try_charge(9));
  std::vector<std::future<bool>> line;
  for (const std::uint64_t bytes : {8U, 1U, 7U, 1U}) {
    line.push_back(charge_in_line(*b, bytes));
    until_waiting(*b, line.size());
  }
  EXPECT_FALSE(b->try_charge(1)) << "there is a byte left, but the first in line waits for it";
  EXPECT_FALSE(b->charge_by(1, past));
  EXPECT_TRUE(b->try_charge(0));

  b->refund(6); // 3 live
  EXPECT_EQ(b->waiting(), 4U);
  b->refund(1); // 2 live, and 8 of the first
  EXPECT_TRUE(line[0].get());
  EXPECT_EQ(b->waiting(), 3U);
  EXPECT_EQ(b->statistics().remaining, 0U);
  b->refund(2); // 8 live and 1 of the second; a byte is left that the fourth may not have
  EXPECT_TRUE(line[1].get());
  EXPECT_EQ(b->waiting(), 2U);
  EXPECT_EQ(b->statistics().remaining, 1U);
  b->refund(8);
  EXPECT_TRUE(line[2].get());
  EXPECT_TRUE(line[3].get());
  EXPECT_EQ(b->statistics().current, 9U);
  b->refund(9);
  EXPECT_EQ(b->statistics().peak, 10U);
}

TEST(budget_line, stops_only_those_who_share_the_budget_that_is_full) {
  const auto root = budget::create("root", 100);
  const auto full = root->make_child("full", 10);
  const auto other = root->make_child("other", 50);
  ASSERT_TRUE(full->try_charge(8));
  auto waits = charge_in_line(*full, 5);
  until_waiting(*root, 1);
  EXPECT_FALSE(full->try_charge(1));
  EXPECT_TRUE(other->try_charge(50));
  EXPECT_TRUE(root->try_charge(10));
  auto below = charge_in_line(*other, 20);
  until_waiting(*root, 2);
  other->refund(20);
  EXPECT_TRUE(below.get());
  EXPECT_EQ(root->waiting(), 1U);
  full->refund(8);
  EXPECT_TRUE(waits.get());
  EXPECT_EQ(root->statistics().current, 65U);
  full->refund(5);
  other->refund(50);
  root->refund(10);
}

TEST(budget_line, one_that_gives_up_lets_the_next_go) {
  const auto b = budget::create("test", 10);
  ASSERT_TRUE(b->try_charge(6));
  auto gives_up = charge_in_line(*b, 8, steady_clock::now() + std::chrono::milliseconds(50));
  auto next = charge_in_line(*b, 3);
  EXPECT_TRUE(next.get());
  EXPECT_FALSE(gives_up.get());
  b->refund(9);
}

TEST(budget_line, is_served_when_a_reservation_is_dropped) {
  const auto b = budget::create("test", 10);
  std::optional<reservation> promised = reservation::make(b, 6);
  auto waits = charge_in_line(*b, 5);
  until_waiting(*b, 1);
  ASSERT_TRUE(promised->try_draw(2)) << "promised bytes need no place in line";
  EXPECT_EQ(b->waiting(), 1U);
  promised.reset();
  EXPECT_TRUE(waits.get());
  b->refund(7);
}

TEST(budget_line, is_not_passed_by_reservations_or_overbooked_draws) {
  const auto b = budget::create("test", 10);
  ASSERT_TRUE(b->try_charge(4));
  reservation early = reservation::make(b, 8, overbooking::allow);
  EXPECT_EQ(early.overbooked(), 2U);
  b->refund(2);
  auto waits = charge_in_line(*b, 5);
  until_waiting(*b, 1);
  EXPECT_THROW(static_cast<void>(reservation::make(b, 1)), error);
  EXPECT_EQ(reservation::make(b, 1, overbooking::allow).overbooked(), 1U);
  EXPECT_FALSE(early.try_draw(8)) << "the 2 overbooked bytes are what the first in line waits for";
  EXPECT_TRUE(early.try_draw(6));
  b->refund(6);
  EXPECT_TRUE(waits.get());
  b->refund(7);
}

TEST(budget_line, is_served_or_sent_away_when_the_limit_changes) {
  const auto b = budget::create("test", 10);
  ASSERT_TRUE(b->try_charge(6));
  auto small = charge_in_line(*b, 5);
  until_waiting(*b, 1);
  b->set_limit(11);
  EXPECT_TRUE(small.get());
  b->refund(5);
  auto large = charge_in_line(*b, 9);
  until_waiting(*b, 1);
  b->set_limit(8);
  EXPECT_FALSE(large.get());
  b->refund(6);
}

} // namespace
} // namespace saeta
