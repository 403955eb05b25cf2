// Requests that wait in line until a budget has enough free bytes.
#include "saeta/budget/reservation.hpp"
#include "support/budget_probe.hpp"
#include "support/interrupts.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <optional>
#include <semaphore>
#include <thread>
#include <vector>

namespace saeta {
namespace {

using std::chrono::steady_clock;
using support::interrupts;
using support::stopped_clock;

struct stop {};
thread_local bool may_be_interrupted = false;

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

TEST(budget_line, a_timeout_changes_nothing) {
  const auto b = budget::create("test", 10);
  ASSERT_TRUE(b->try_charge(6));
  const budget_statistics before = b->statistics();
  EXPECT_FALSE(b->charge_by(5, past));
  EXPECT_FALSE(b->charge_by(5, steady_clock::now() + std::chrono::milliseconds(5)));
  EXPECT_EQ(b->waiting(), 0U);
  EXPECT_EQ(b->statistics(), before);
  EXPECT_TRUE(b->try_charge(4));
  b->refund(10);
}

TEST(budget_line, serves_requests_in_order_regardless_of_their_size) {
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

  b->refund(6); // 3 bytes live
  EXPECT_EQ(b->waiting(), 4U);
  b->refund(1); // 2 bytes live, and 8 of the first request
  EXPECT_TRUE(line[0].get());
  EXPECT_EQ(b->waiting(), 3U);
  EXPECT_EQ(b->statistics().remaining, 0U);
  b->refund(2); // 8 bytes live and 1 of the second request; one is free, but not for the fourth request
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

TEST(budget_line, serves_reservations_in_order_without_charging) {
  const auto b = budget::create("test", 10);
  ASSERT_TRUE(b->try_charge(9));
  auto promised = std::async(std::launch::async, [&] { return reservation::make_by(b, 4, far); });
  until_waiting(*b, 1);
  auto behind = charge_in_line(*b, 5);
  until_waiting(*b, 2);
  EXPECT_FALSE(reservation::make_by(b, 1, past).has_value()) << "there is a byte left, but others wait";
  b->refund(3);
  std::optional<reservation> mine = promised.get();
  ASSERT_TRUE(mine.has_value());
  EXPECT_EQ(mine->left(), 4U);
  EXPECT_EQ(b->statistics(),
            (budget_statistics{.limit = 10, .current = 6, .reserved = 4, .peak = 9, .requests = 1}));
  b->refund(6);
  EXPECT_TRUE(behind.get());
  ASSERT_TRUE(mine->try_draw(4));
  b->refund(9);
  EXPECT_EQ(b->statistics().remaining, 10U);
}

TEST(budget_line, an_interrupted_wait_for_a_reservation_promises_nothing) {
  const auto b = budget::create("test", 10);
  ASSERT_TRUE(b->try_charge(9));
  const interrupts hook([&] {
    b->refund(9); // the request is served while the hook runs
    throw stop{};
  });
  EXPECT_THROW(static_cast<void>(reservation::make_by(b, 4, far)), stop);
  EXPECT_EQ(b->statistics().remaining, 10U);
  EXPECT_EQ(b->waiting(), 0U);
}

TEST(budget_line, a_reservation_that_can_never_fit_does_not_wait) {
  const auto b = budget::create("test", 10);
  EXPECT_FALSE(reservation::make_by(b, 11, far).has_value());
}

TEST(budget_line, blocks_only_requests_to_the_full_budget_and_its_children) {
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

TEST(budget_line, keeps_no_bytes_of_budgets_that_have_enough) {
  const auto root = budget::create("root", 20);
  const auto full = root->make_child("full", 10);
  ASSERT_TRUE(full->try_charge(5));
  ASSERT_TRUE(root->try_charge(5));
  auto waits = charge_in_line(*full, 10); // only `full` lacks bytes: the root has 10 left
  until_waiting(*root, 1);
  EXPECT_TRUE(root->try_charge(10));
  root->refund(15);
  full->refund(5);
  EXPECT_TRUE(waits.get());
  full->refund(10);
}

TEST(budget_line, a_timeout_lets_the_next_request_go) {
  const auto b = budget::create("test", 10);
  ASSERT_TRUE(b->try_charge(6));
  const stopped_clock clock;
  const interrupts hook([] {}); // with a hook, waits check the clock repeatedly
  auto gives_up = charge_in_line(*b, 8, stopped_clock::now() + std::chrono::hours(1));
  until_waiting(*b, 1);
  auto next = charge_in_line(*b, 3);
  until_waiting(*b, 2);
  stopped_clock::move_by(std::chrono::hours(1));
  EXPECT_FALSE(gives_up.get());
  EXPECT_EQ(b->waiting(), 0U) << "a request that leaves the line serves the others";
  b->refund(6);
  EXPECT_TRUE(next.get());
  b->refund(3);
}

TEST(budget_line, an_interrupt_lets_the_next_request_go) {
  const auto b = budget::create("test", 10);
  ASSERT_TRUE(b->try_charge(6));
  std::atomic<bool> interrupted{false};
  const interrupts hook([&] {
    if (interrupted && may_be_interrupted) {
      throw stop{};
    }
  });
  std::thread gives_up([&] {
    may_be_interrupted = true;
    EXPECT_THROW(static_cast<void>(b->charge_by(8, far)), stop);
  });
  until_waiting(*b, 1);
  auto next = charge_in_line(*b, 3);
  until_waiting(*b, 2);
  interrupted = true;
  gives_up.join();
  EXPECT_EQ(b->waiting(), 0U);
  b->refund(6);
  EXPECT_TRUE(next.get());
  EXPECT_EQ(b->statistics(),
            (budget_statistics{.limit = 10, .current = 3, .remaining = 7, .peak = 9, .requests = 2}));
  b->refund(3);
}

TEST(budget_line, a_charge_served_during_an_interrupt_is_refunded) {
  const auto b = budget::create("test", 10);
  ASSERT_TRUE(b->try_charge(10));
  const interrupts hook([&] {
    b->refund(10); // no lock is held while the hook runs
    EXPECT_EQ(b->waiting(), 0U) << "served";
    throw stop{};
  });
  EXPECT_THROW(static_cast<void>(b->charge_by(4, far)), stop);
  EXPECT_EQ(b->statistics().current, 0U);
  EXPECT_EQ(b->statistics().remaining, 10U);
}

TEST(budget_line, a_refund_just_before_the_shards_close_serves_the_line) {
  const auto b = budget::create("test", 10);
  static std::binary_semaphore refund(0);
  static std::binary_semaphore refunded(0);
  std::binary_semaphore charged(0);
  std::thread other([&] {
    ASSERT_TRUE(
        b->try_charge(10)); // opens the shard of this thread, which takes refunds without the tree's lock
    charged.release();
    refund.acquire();
    b->refund(10);
    refunded.release();
  });
  charged.acquire();
  const interrupts hook([] { throw stop{}; }); // no other request will free bytes
  // The clock is read after the request has failed and before the shards are closed.
  set_wait_clock([] {
    refund.release();
    refunded.acquire();
    set_wait_clock(nullptr);
    return steady_clock::now();
  });
  EXPECT_NO_THROW(EXPECT_TRUE(b->charge_by(10, far)));
  other.join();
  EXPECT_EQ(b->statistics().current, 10U);
}

TEST(budget_line, waits_until_the_given_deadline) {
  const auto b = budget::create("test", 10);
  ASSERT_TRUE(b->try_charge(10));
  const stopped_clock clock;
  const auto deadline = stopped_clock::now() + std::chrono::hours(1);
  int asked = 0;
  const interrupts hook([&] {
    EXPECT_EQ(budget_probe::deadlines(*b), std::vector{deadline});
    if (++asked > 1) {
      throw stop{};
    }
    stopped_clock::move_to(deadline);
  });
  EXPECT_NO_THROW(EXPECT_FALSE(b->charge_by(1, deadline)));
  EXPECT_EQ(asked, 1);
}

TEST(budget_line, a_new_request_is_refused_with_the_bytes_kept_for_waiting_ones) {
  const auto root = budget::create("root", 10);
  const auto child = root->make_child("child");
  ASSERT_TRUE(child->try_charge(8));
  auto waits = charge_in_line(*root, 5);
  until_waiting(*root, 1);
  const budget_refusal refused = child->charge_or_refuse(1).value();
  EXPECT_EQ(refused.layer, "root");
  EXPECT_EQ(refused.levels_above, 1U);
  EXPECT_EQ(refused.current, 8U);
  EXPECT_EQ(refused.kept, 2U);
  EXPECT_EQ(refused.reserved, 2U);
  EXPECT_EQ(refused.remaining, 0U);
  EXPECT_TRUE(refused.required == 11);
  EXPECT_THROW(static_cast<void>(reservation::make(child, 1)), error);
  child->refund(8);
  EXPECT_TRUE(waits.get());
  root->refund(5);
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

TEST(budget_line, is_not_overtaken_by_reservations_or_overbooked_draws) {
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

TEST(budget_line, is_served_or_refused_when_the_limit_changes) {
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

TEST(budget_line, is_refused_when_the_limit_of_an_ancestor_becomes_too_small) {
  const auto root = budget::create("root", 100);
  const auto child = root->make_child("child", 100);
  const auto grandchild = child->make_child("grandchild", 100);
  ASSERT_TRUE(root->try_charge(40));
  for (const auto& lowered : {root, child, grandchild}) {
    auto large = charge_in_line(*grandchild, 70);
    until_waiting(*root, 1);
    lowered->set_limit(69);
    EXPECT_FALSE(large.get()) << lowered->name();
    EXPECT_TRUE(grandchild->can_never_fit(70));
    EXPECT_FALSE(grandchild->can_never_fit(69));
    EXPECT_FALSE(grandchild->charge_by(70, far)) << "and is not let in again";
    lowered->set_limit(100);
  }
  root->refund(40);
}

TEST(budget_line, is_refused_when_its_budget_or_an_ancestor_is_closed) {
  const auto root = budget::create("root", 10);
  const auto child = root->make_child("child");
  const auto grandchild = child->make_child("grandchild");
  const auto sibling = root->make_child("sibling");
  ASSERT_TRUE(root->try_charge(10));
  auto first = charge_in_line(*child, 6);
  until_waiting(*root, 1);
  auto second = charge_in_line(*grandchild, 5);
  until_waiting(*root, 2);
  auto other = charge_in_line(*sibling, 4);
  until_waiting(*root, 3);
  child->close();
  EXPECT_FALSE(first.get());
  EXPECT_FALSE(second.get());
  EXPECT_EQ(root->waiting(), 1U);
  EXPECT_TRUE(child->closed());
  EXPECT_TRUE(grandchild->closed());
  EXPECT_FALSE(sibling->closed());
  EXPECT_FALSE(root->closed());
  EXPECT_FALSE(grandchild->charge_by(1, far)) << "requests to a closed budget do not wait";
  root->refund(10);
  EXPECT_TRUE(other.get());
  EXPECT_EQ(root->statistics().current, 4U);
  sibling->refund(4);
}

TEST(budget_line, of_a_closed_budget_lets_later_requests_go) {
  const auto root = budget::create("root", 10);
  const auto child = root->make_child("child");
  ASSERT_TRUE(root->try_charge(6));
  auto large = charge_in_line(*child, 9);
  until_waiting(*root, 1);
  auto small = charge_in_line(*root, 3);
  until_waiting(*root, 2);
  child->close();
  EXPECT_FALSE(large.get());
  EXPECT_TRUE(small.get());
  root->refund(9);
}

} // namespace
} // namespace saeta
