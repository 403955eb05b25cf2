#include "saeta/transfer/detail/worker_team.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

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

} // namespace
} // namespace saeta
