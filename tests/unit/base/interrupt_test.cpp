#include "saeta/base/interrupt.hpp"
#include "saeta/base/interruptible_lock.hpp"
#include "support/interrupts.hpp"
#include "unit/base/raises.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <semaphore>
#include <stdexcept>
#include <thread>
#include <vector>

namespace saeta {
namespace {

using std::chrono::steady_clock;
using support::interrupts;
using support::stopped_clock;

struct interruption {};

/// A lock that records whether it is held.
struct seen_lock {
  bool held = true;
  void lock() { held = true; }
  void unlock() { held = false; }
};

/// Replaces a condition variable: it is never notified, and each wait ends at once as if its time had passed.
struct timed_out_at_once {
  std::vector<steady_clock::time_point> until;
  void wait_until(seen_lock& lock, steady_clock::time_point when) {
    EXPECT_TRUE(lock.held);
    EXPECT_GT(when, stopped_clock::now());
    until.push_back(when);
    stopped_clock::move_to(when);
  }
};

bool never() { return false; }

TEST(interrupt, is_not_checked_without_a_hook) {
  EXPECT_FALSE(has_interrupt_hook());
  EXPECT_NO_THROW(check_interrupt());
}

TEST(interrupt, the_hook_is_replaced_and_the_former_one_returned) {
  const interrupt_hook first = [] { throw std::runtime_error("first"); };
  const interrupt_hook second = [] { throw interruption{}; };
  EXPECT_EQ(set_interrupt_hook(first), nullptr);
  EXPECT_THROW(check_interrupt(), std::runtime_error);
  EXPECT_EQ(set_interrupt_hook(second), first);
  EXPECT_THROW(check_interrupt(), interruption);
  EXPECT_EQ(set_interrupt_hook(nullptr), second);
  EXPECT_NO_THROW(check_interrupt());
}

TEST(interrupt, a_wait_calls_the_hook_at_its_beginning_and_after_each_interval) {
  const stopped_clock clock;
  seen_lock lock;
  timed_out_at_once changed;
  std::vector<steady_clock::time_point> asked;
  const interrupts hook([&] {
    EXPECT_FALSE(lock.held) << "another thread may need the lock to end the wait";
    asked.push_back(stopped_clock::now());
  });
  const auto start = stopped_clock::now();
  const auto deadline = start + 3 * interrupt_interval + std::chrono::milliseconds(7);
  EXPECT_FALSE(wait_interruptibly(changed, lock, deadline, never));
  const std::vector expected_asks{start, start + interrupt_interval, start + 2 * interrupt_interval,
                                  start + 3 * interrupt_interval};
  const std::vector expected_ends{start + interrupt_interval, start + 2 * interrupt_interval,
                                  start + 3 * interrupt_interval, deadline};
  EXPECT_EQ(asked, expected_asks);
  EXPECT_EQ(changed.until, expected_ends);
  EXPECT_TRUE(lock.held);
  EXPECT_LE(interrupt_interval, std::chrono::milliseconds(50));
}

TEST(interrupt, a_wait_without_a_hook_sleeps_until_its_deadline) {
  const stopped_clock clock;
  seen_lock lock;
  timed_out_at_once changed;
  const auto deadline = stopped_clock::now() + std::chrono::hours(1);
  EXPECT_FALSE(wait_interruptibly(changed, lock, deadline, never));
  EXPECT_EQ(changed.until, std::vector{deadline});
}

TEST(interrupt, a_wait_that_the_hook_ends_reacquires_its_lock) {
  const stopped_clock clock;
  seen_lock lock;
  timed_out_at_once changed;
  const interrupts hook([] { throw interruption{}; });
  EXPECT_THROW(wait_interruptibly(changed, lock, steady_clock::time_point::max(), never), interruption);
  EXPECT_TRUE(lock.held);
  EXPECT_TRUE(changed.until.empty());
}

TEST(interrupt, a_wait_for_a_true_condition_does_not_call_the_hook) {
  seen_lock lock;
  timed_out_at_once changed;
  const interrupts hook([] { throw interruption{}; });
  EXPECT_TRUE(wait_interruptibly(changed, lock, steady_clock::time_point::min(), [] { return true; }));
  EXPECT_FALSE(wait_interruptibly(changed, lock, steady_clock::time_point::min(), never));
  EXPECT_TRUE(changed.until.empty());
}

TEST(interrupt, a_condition_that_the_hook_makes_true_needs_no_notification) {
  const stopped_clock clock;
  seen_lock lock;
  timed_out_at_once changed;
  bool happened = false;
  const interrupts hook([&] { happened = true; });
  EXPECT_TRUE(wait_interruptibly(changed, lock, steady_clock::time_point::max(), [&] { return happened; }));
  EXPECT_TRUE(changed.until.empty());
}

TEST(interrupt, a_wait_for_a_lock_can_be_ended_by_the_hook) {
  interruptible_mutex mutex;
  std::binary_semaphore held(0);
  std::binary_semaphore asked(0);
  std::jthread holder([&] {
    const auto hold = mutex.lock("holding");
    held.release();
    asked.acquire();
  });
  held.acquire();
  {
    const interrupts hook([] { throw interruption{}; });
    EXPECT_THROW(static_cast<void>(mutex.lock("waiting")), interruption);
  }
  int asks = 0;
  const interrupts hook([&] {
    if (++asks == 2) {
      throw interruption{};
    }
    asked.release();
    holder.join();
  });
  { const auto taken = mutex.lock("waiting"); }
  { const auto free = mutex.lock("not waiting"); }
  EXPECT_EQ(asks, 1) << "a free lock is taken without asking";
}

TEST(interrupt, locking_twice_on_a_thread_is_an_error) {
  interruptible_mutex mutex;
  {
    const auto held = mutex.lock("a transfer");
    EXPECT_EQ(unit::code_raised_by([&] { static_cast<void>(mutex.lock("a transfer")); }), errc::busy);
  }
  const auto again = mutex.lock("a transfer");
}

TEST(interrupt, cancellation_ends_one_wait_so_that_cleanup_can_wait) {
  std::atomic<bool> cancelled{false};
  {
    const cancellation_scope scope(cancelled);
    EXPECT_TRUE(has_interrupt_hook()) << "so that waits are cut in parts";
    EXPECT_LT(wait_interval(), interrupt_interval);
    EXPECT_NO_THROW(check_interrupt());
    cancelled = true;
    EXPECT_EQ(unit::code_raised_by([] { check_interrupt(); }), errc::closed);
    EXPECT_NO_THROW(check_interrupt());
  }
  EXPECT_FALSE(has_interrupt_hook());
  EXPECT_EQ(wait_interval(), interrupt_interval);
  std::thread([&] { EXPECT_NO_THROW(check_interrupt()) << "another thread goes on"; }).join();
}

TEST(interrupt, an_inner_cancellation_scope_hides_the_outer_one) {
  const std::atomic<bool> cancelled{true};
  const std::atomic<bool> going_on{false};
  const cancellation_scope outer(cancelled);
  {
    const cancellation_scope inner(going_on);
    EXPECT_NO_THROW(check_interrupt());
  }
  EXPECT_EQ(unit::code_raised_by([] { check_interrupt(); }), errc::closed);
}

TEST(interrupt, run_if_free_does_not_wait_for_a_held_lock) {
  interruptible_mutex mutex;
  int runs = 0;
  mutex.run_if_free([&] { ++runs; });
  {
    const auto held = mutex.lock("a transfer");
    std::thread([&] { mutex.run_if_free([&] { ++runs; }); }).join();
  }
  EXPECT_EQ(runs, 1);
  const auto again = mutex.lock("a transfer");
}

} // namespace
} // namespace saeta
