// Work items queued for the threads of a pool (`thread_pool::queue`): order, byte limit and failures.
#include "saeta/executor/thread_pool.hpp"
#include "support/interrupts.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <stdexcept>
#include <thread>

namespace saeta {
namespace {

TEST(queued_work, is_started_after_waiting_tasks) {
  thread_pool pool(2);
  std::latch begun(1);
  std::latch open(1);
  std::atomic<bool> task_done{false};
  pool.queue(1, [&] {
    begun.count_down();
    open.wait();
  });
  begun.wait(); // the only worker thread is busy
  pool.queue(1, [&] { EXPECT_TRUE(task_done); });
  std::latch both(2);
  pool.run(2, [&](std::size_t member, std::size_t) {
    if (member == 0) {
      open.count_down();
    }
    task_done = true;
    both.arrive_and_wait(); // returns only if caller and worker each run one task
  });
  pool.wait_until([] { return false; });
}

TEST(queued_work, blocks_the_caller_only_beyond_the_byte_limit) {
  thread_pool pool(5);
  std::latch open(1);
  std::atomic<int> done{0};
  for (std::size_t i = 0; i < 8; ++i) {
    pool.queue(thread_pool::most_queued / 8, [&] {
      open.wait();
      ++done;
    });
  }
  EXPECT_EQ(done, 0) << "the caller has not waited";
  std::jthread opener([&] { open.count_down(); });
  pool.queue(1, [&] { ++done; }); // beyond the byte limit, so it blocks
  EXPECT_GE(done, 1);
  pool.wait_until([] { return false; });
  EXPECT_EQ(done, 9);
}

TEST(queued_work, is_waited_for_until_the_condition_is_true) {
  thread_pool pool(2);
  std::atomic<int> done{0};
  pool.wait_until([] { return false; }); // nothing is queued
  for (int i = 0; i < 20; ++i) {
    pool.queue(1, [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ++done;
    });
  }
  pool.wait_until([&] { return done >= 3; });
  EXPECT_GE(done, 3);
  EXPECT_LT(done, 20);
  pool.wait_until([] { return false; });
  EXPECT_EQ(done, 20);
  EXPECT_THROW( // queue() throws if the item has already failed, otherwise wait_until() does
      {
        pool.queue(1, [] { throw std::runtime_error("full"); });
        pool.wait_until([] { return false; });
      },
      std::runtime_error);
}

TEST(queued_work, is_done_by_a_limited_number_of_threads_at_once) {
  thread_pool pool(13);
  pool.run(100, [](std::size_t, std::size_t) {}); // starts the worker threads
  std::atomic<std::size_t> inside{0};
  std::atomic<std::size_t> most{0};
  for (int i = 0; i < 200; ++i) {
    pool.queue(1, [&] {
      const std::size_t now = ++inside;
      for (std::size_t seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
      }
      std::this_thread::yield();
      --inside;
    });
  }
  pool.wait_until([] { return false; });
  EXPECT_LE(most, thread_pool::most_at_queue);
}

TEST(queued_work, is_refused_by_every_call_after_a_failure) {
  thread_pool pool(4);
  std::atomic<int> later{0};
  const auto fail = [&] {
    pool.queue(1, [] { throw std::runtime_error("full"); });
    pool.wait_until([] { return false; });
  };
  EXPECT_THROW(fail(), std::runtime_error);
  EXPECT_THROW(pool.queue(1, [&] { ++later; }), std::runtime_error);
  EXPECT_THROW(pool.run(5, [&](std::size_t, std::size_t) { ++later; }), std::runtime_error);
  EXPECT_THROW(pool.wait_until([] { return false; }), std::runtime_error);
  EXPECT_EQ(later, 0);
}

TEST(queued_work, is_not_started_after_an_earlier_item_failed) {
  std::atomic<int> later{0};
  std::latch open(1);
  {
    thread_pool pool(2);
    pool.queue(1, [&] {
      open.wait();
      throw std::runtime_error("full");
    });
    for (int i = 0; i < 20; ++i) {
      pool.queue(1, [&] { ++later; });
    }
    open.count_down();
    EXPECT_THROW(
        for (;;) { pool.queue(1, [&] { ++later; }); }, std::runtime_error);
    std::this_thread::sleep_for(std::chrono::milliseconds(20)); // enough for a pool that wrongly goes on
  }
  EXPECT_EQ(later, 0);
}

TEST(queued_work, is_dropped_by_the_destructor) {
  constexpr int tasks = 2000; // take 5 s, so the destructor begins before they are done
  std::atomic<int> done{0};
  std::latch begun(thread_pool::most_at_queue);
  std::latch open(1);
  {
    thread_pool pool(thread_pool::most_at_queue + 1);
    for (int i = 0; i < tasks; ++i) {
      pool.queue(1, [&] {
        if (++done <= static_cast<int>(thread_pool::most_at_queue)) {
          begun.count_down();
          open.wait();
        } else {
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
      });
    }
    begun.wait();
    open.count_down();
  }
  EXPECT_LT(done, tasks);
}

TEST(queued_work, can_be_waited_for_interruptibly) {
  struct interrupted {};
  std::latch open(1);
  std::atomic<bool> waits{false};
  const support::interrupts hook([&] {
    if (waits) {
      open.count_down();
      throw interrupted();
    }
  });
  std::latch all_busy(thread_pool::most_at_queue);
  thread_pool pool(thread_pool::most_at_queue + 1);
  for (std::size_t i = 0; i < thread_pool::most_at_queue; ++i) {
    pool.queue(1, [&] {
      all_busy.count_down();
      open.wait();
    });
  }
  all_busy.wait();
  waits = true;
  EXPECT_THROW(pool.wait_until([] { return false; }), interrupted);
}

} // namespace
} // namespace saeta
