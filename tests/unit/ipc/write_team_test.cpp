// The threads of one write, and what a failure does to them.
#include "saeta/ipc/write/write_team.hpp"
#include "support/interrupts.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <stdexcept>
#include <thread>
#include <vector>

namespace saeta::ipc::detail {
namespace {

TEST(write_team, does_every_task_once_and_tasks_inside_of_tasks) {
  write_team team(3);
  std::vector<std::atomic<int>> done(40);
  team.run(4,
           [&](std::size_t outer) { team.run(10, [&](std::size_t inner) { ++done[outer * 10 + inner]; }); });
  for (const auto& count : done) {
    EXPECT_EQ(count, 1);
  }
  team.run(0, [](std::size_t) { FAIL() << "there is no task"; });
}

TEST(write_team, lets_several_threads_do_tasks_at_once) {
  write_team team(2);
  std::latch together(3);
  team.run(3, [&](std::size_t) { together.arrive_and_wait(); }); // never ends with fewer
}

TEST(write_team, queues_work_and_goes_on_until_too_many_bytes_wait) {
  write_team team(4);
  std::latch open(1);
  std::atomic<int> done{0};
  for (std::size_t i = 0; i < 8; ++i) {
    team.queue(write_team::most_queued / 8, [&] {
      open.wait();
      ++done;
    });
  }
  EXPECT_EQ(done, 0) << "the caller has not waited";
  std::jthread opener([&] { open.count_down(); });
  team.queue(1, [&] { ++done; }); // one too many
  EXPECT_GE(done, 1);
  team.finish();
  EXPECT_EQ(done, 9);
}

TEST(write_team, waits_until_there_is_enough_and_not_for_more_than_is_queued) {
  write_team team(1);
  std::atomic<int> done{0};
  team.wait_until([] { return false; }); // nothing is queued
  for (int i = 0; i < 20; ++i) {
    team.queue(1, [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ++done;
    });
  }
  team.wait_until([&] { return done >= 3; });
  EXPECT_GE(done, 3);
  EXPECT_LT(done, 20);
  team.wait_until([] { return false; });
  EXPECT_EQ(done, 20);
  EXPECT_THROW( // by either call
      {
        team.queue(1, [] { throw std::runtime_error("full"); });
        team.wait_until([] { return false; });
      },
      std::runtime_error);
}

TEST(write_team, never_has_more_threads_at_the_queue_than_may_be) {
  write_team team(12);
  team.run(100, [](std::size_t) {}); // now there are threads
  std::atomic<std::size_t> inside{0};
  std::atomic<std::size_t> most{0};
  for (int i = 0; i < 200; ++i) {
    team.queue(1, [&] {
      const std::size_t now = ++inside;
      for (std::size_t seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
      }
      std::this_thread::yield();
      --inside;
    });
  }
  team.finish();
  EXPECT_LE(most, write_team::most_at_queue);
}

TEST(write_team, begins_nothing_after_a_failure_and_throws_it_from_every_call) {
  write_team team(3);
  std::atomic<int> later{0};
  const auto fail = [&] { // either call may be the one that learns of it
    team.queue(1, [] { throw std::runtime_error("full"); });
    team.finish();
  };
  EXPECT_THROW(fail(), std::runtime_error);
  EXPECT_THROW(team.queue(1, [&] { ++later; }), std::runtime_error);
  EXPECT_THROW(team.run(5, [&](std::size_t) { ++later; }), std::runtime_error);
  EXPECT_THROW(team.finish(), std::runtime_error);
  EXPECT_EQ(later, 0);
}

TEST(write_team, leaves_what_waits_where_it_is_after_a_failure) {
  std::atomic<int> later{0};
  std::latch open(1);
  {
    write_team team(1); // has begun the work that fails when the others are queued
    team.queue(1, [&] {
      open.wait();
      throw std::runtime_error("full");
    });
    for (int i = 0; i < 20; ++i) {
      team.queue(1, [&] { ++later; });
    }
    open.count_down();
    EXPECT_THROW(
        for (;;) { team.queue(1, [&] { ++later; }); }, std::runtime_error);
    std::this_thread::sleep_for(std::chrono::milliseconds(20)); // a team that goes on does so
  }
  EXPECT_EQ(later, 0);
}

TEST(write_team, throws_the_failure_of_a_task_inside_of_a_task_when_all_have_stopped) {
  write_team team(3);
  std::atomic<int> inside{0};
  EXPECT_THROW(team.run(4,
                        [&](std::size_t outer) {
                          team.run(50, [&](std::size_t inner) {
                            ++inside;
                            if (outer == 2 && inner == 3) {
                              --inside;
                              throw std::runtime_error("block 3");
                            }
                            --inside;
                          });
                        }),
               std::runtime_error);
  EXPECT_EQ(inside, 0);
}

TEST(write_team, drops_what_waits_when_it_ends) {
  constexpr int tasks = 2000; // take 5 s, in which the destructor surely begins
  std::atomic<int> done{0};
  std::latch begun(write_team::most_at_queue);
  std::latch open(1);
  {
    write_team team(write_team::most_at_queue);
    for (int i = 0; i < tasks; ++i) {
      team.queue(1, [&] {
        if (++done <= static_cast<int>(write_team::most_at_queue)) {
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

TEST(write_team, looks_for_an_interrupt_between_tasks_and_ends_with_it) {
  struct interrupted {};
  std::atomic<int> looks{0};
  const support::interrupts hook([&] {
    if (++looks == 2) {
      throw interrupted();
    }
  });
  write_team team(1);
  std::atomic<int> done{0};
  const auto work = [&](std::size_t) {
    ++done;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  EXPECT_THROW(team.run(20'000, work), interrupted);
  EXPECT_LT(done, 10'000) << "two looks take 50 ms";
  EXPECT_THROW(team.finish(), interrupted);
}

TEST(write_team, looks_for_an_interrupt_while_it_waits) {
  struct interrupted {};
  std::latch open(1);
  const support::interrupts hook([&] {
    open.count_down();
    throw interrupted();
  });
  std::latch all_busy(write_team::most_at_queue);
  write_team team(write_team::most_at_queue);
  for (std::size_t i = 0; i < write_team::most_at_queue; ++i) {
    team.queue(1, [&] {
      all_busy.count_down();
      open.wait();
    });
  }
  all_busy.wait();
  EXPECT_THROW(team.finish(), interrupted);
}

} // namespace
} // namespace saeta::ipc::detail
