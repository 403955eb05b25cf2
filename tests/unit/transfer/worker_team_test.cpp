#include "saeta/transfer/detail/worker_team.hpp"
#include "support/interrupts.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

namespace saeta {
namespace {

TEST(worker_team, does_every_task_once) {
  worker_team team(4);
  for (const std::size_t tasks : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{1000}}) {
    std::vector<std::atomic<int>> done(tasks);
    team.run(tasks, [&](std::size_t member, std::size_t task) {
      EXPECT_LT(member, 4U);
      ++done[task];
    });
    for (const auto& count : done) {
      EXPECT_EQ(count, 1);
    }
  }
}

TEST(worker_team, throws_the_first_failure_after_all_members_have_stopped_and_works_again) {
  worker_team team(3);
  std::atomic<int> inside{0};
  EXPECT_THROW(team.run(100,
                        [&](std::size_t, std::size_t task) {
                          ++inside;
                          if (task == 10) {
                            --inside;
                            throw std::runtime_error("task 10");
                          }
                          --inside;
                        }),
               std::runtime_error);
  EXPECT_EQ(inside, 0);
  std::atomic<int> done{0};
  team.run(10, [&](std::size_t, std::size_t) { ++done; });
  EXPECT_EQ(done, 10);
}

TEST(worker_team, begins_no_task_after_a_failure) {
  worker_team team(3);
  std::atomic<int> begun{0};
  EXPECT_THROW(team.run(10'000,
                        [&](std::size_t, std::size_t task) {
                          ++begun;
                          std::this_thread::sleep_for(std::chrono::milliseconds(1));
                          if (task == 5) {
                            throw std::runtime_error("task 5");
                          }
                        }),
               std::runtime_error);
  EXPECT_LT(begun, 1000) << "the others went on";
}

TEST(worker_team, ends_with_an_interrupt_between_two_tasks) {
  struct interrupted {};
  std::atomic<int> looks{0};
  std::atomic<int> done{0};
  const std::thread::id caller = std::this_thread::get_id();
  {
    const support::interrupts hook([&] {
      EXPECT_EQ(std::this_thread::get_id(), caller);
      if (++looks == 2) {
        throw interrupted();
      }
    });
    worker_team team(2);
    EXPECT_THROW(team.run(20'000,
                          [&](std::size_t, std::size_t) {
                            ++done;
                            std::this_thread::sleep_for(std::chrono::milliseconds(1));
                          }),
                 interrupted);
  }
  EXPECT_LT(done, 10'000) << "two looks take 50 ms";
}

TEST(worker_team, a_single_task_is_the_callers) {
  worker_team team(4);
  team.run(100, [](std::size_t, std::size_t) {}); // now there are threads
  for (int i = 0; i < 1000; ++i) {
    team.run(1, [&, caller = std::this_thread::get_id()](std::size_t member, std::size_t task) {
      EXPECT_EQ(member, 0U);
      EXPECT_EQ(task, 0U);
      EXPECT_EQ(std::this_thread::get_id(), caller);
    });
  }
}

TEST(worker_team, of_one_is_the_caller_alone) {
  worker_team team(1);
  team.run(100, [caller = std::this_thread::get_id()](std::size_t member, std::size_t) {
    EXPECT_EQ(member, 0U);
    EXPECT_EQ(std::this_thread::get_id(), caller);
  });
}

TEST(worker_team, all_members_take_part_where_each_waits_for_the_others) {
  constexpr std::size_t members = 4;
  worker_team team(members);
  for (int round = 0; round < 10; ++round) {
    std::barrier together(members);
    std::vector<std::atomic<int>> took(members);
    team.run(members, [&](std::size_t member, std::size_t) {
      ++took[member];
      together.arrive_and_wait(); // never ends with fewer
    });
    for (const auto& tasks : took) {
      EXPECT_EQ(tasks, 1);
    }
  }
}

} // namespace
} // namespace saeta
