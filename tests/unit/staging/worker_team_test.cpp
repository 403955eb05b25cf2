#include "saeta/staging/worker_team.hpp"
#include "support/interrupts.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <latch>
#include <memory>
#include <mutex>
#include <set>
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

TEST(worker_team, does_not_wait_for_members_that_have_no_task) {
  std::latch both(2);
  std::latch asked(1);
  std::latch released(1);
  worker_team team(2); // ends before what its threads use
  const auto occupied = std::make_shared<const worker_team::condition>([&] {
    asked.count_down();
    released.wait();
    return true;
  });
  team.run(
      2, [&](std::size_t, std::size_t) { both.arrive_and_wait(); }, occupied);
  asked.wait();
  int done = 0;
  team.run(2, [&](std::size_t member, std::size_t) {
    EXPECT_EQ(member, 0U);
    ++done;
  });
  EXPECT_EQ(done, 2);
  released.count_down();
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

/// The members of a team that ask whether they may sleep, and what they are told.
struct watched_sleep {
  std::atomic<bool> may_sleep{false};
  std::atomic<int> asked{0};

  std::shared_ptr<const worker_team::condition> condition() {
    return std::make_shared<const worker_team::condition>([this] {
      ++asked;
      return may_sleep.load();
    });
  }
  void await_more(int than) const {
    while (asked <= than) {
      std::this_thread::yield();
    }
  }
};

TEST(worker_team, has_members_awake_after_a_round_until_they_may_sleep) {
  constexpr int rounds = 20;
  watched_sleep watched;
  worker_team team(3);
  const auto condition = watched.condition();
  for (int round = 0; round < rounds; ++round) {
    const int before = watched.asked;
    watched.may_sleep = false;
    std::latch all(3);
    team.run(
        3, [&](std::size_t, std::size_t) { all.arrive_and_wait(); }, condition);
    watched.await_more(before + 1); // each member at least once
    for (int i = 0; watched.asked <= before + 2 && i < 1000;
         ++i) { // and again, unless its time is over by then
      std::this_thread::yield();
    }
    watched.may_sleep = true;
  }
  EXPECT_GT(watched.asked, 2 * rounds) << "nobody asked again";
}

TEST(worker_team, has_members_awake_for_a_while_and_no_longer) {
  watched_sleep watched;
  std::latch both(2);
  worker_team team(2);
  team.run(
      2, [&](std::size_t, std::size_t) { both.arrive_and_wait(); }, watched.condition());
  int before = -1;
  while (before != watched.asked) { // it never is true, so only the time ends it
    before = watched.asked;
    std::this_thread::sleep_for(10 * worker_team::most_awake);
  }
  EXPECT_GT(before, 0);
}

TEST(worker_team, goes_from_one_round_to_the_next_without_sleep) {
  watched_sleep watched;
  worker_team team(3);
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> done{0};
    team.run(
        30, [&](std::size_t, std::size_t) { ++done; }, watched.condition());
    EXPECT_EQ(done, 30);
  }
} // and ends while its members are awake

TEST(worker_team, does_not_ask_for_sleep_in_a_round_that_says_nothing_of_it) {
  watched_sleep watched;
  worker_team team(2);
  watched.may_sleep = true;
  std::latch both(2);
  team.run(
      2, [&](std::size_t, std::size_t) { both.arrive_and_wait(); }, watched.condition());
  watched.await_more(0);
  team.run(2, [](std::size_t, std::size_t) {});
  const int before = watched.asked;
  std::barrier together(2);
  team.run(2, [&](std::size_t, std::size_t) { together.arrive_and_wait(); });
  team.run(2, [&](std::size_t, std::size_t) { together.arrive_and_wait(); });
  EXPECT_EQ(watched.asked, before);
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

TEST(worker_team, goes_on_with_the_tasks_of_another_call_while_the_last_ones_of_a_call_run) {
  worker_team team(3);
  std::latch last_runs(1);
  std::latch other_done(1);
  std::thread first([&] {
    std::atomic<int> done{0};
    team.run(10, [&](std::size_t, std::size_t task) {
      if (task == 9) {
        last_runs.count_down();
        other_done.wait();
      }
      ++done;
    });
    EXPECT_EQ(done, 10);
  });
  last_runs.wait();
  std::atomic<int> done{0};
  team.run(20, [&](std::size_t, std::size_t) { ++done; });
  EXPECT_EQ(done, 20);
  other_done.count_down();
  first.join();
}

TEST(worker_team, runs_a_single_task_while_another_caller_is_member_0) {
  worker_team team(2);
  std::latch runs(1);
  std::latch end(1);
  std::thread first([&] {
    team.run(1, [&](std::size_t, std::size_t) {
      runs.count_down();
      end.wait();
    });
  });
  runs.wait();
  std::atomic<int> done{0};
  team.run(1, [&](std::size_t member, std::size_t) {
    EXPECT_EQ(member, 1U);
    ++done;
  });
  EXPECT_EQ(done, 1);
  end.count_down();
  first.join();
}

TEST(worker_team, has_one_caller_at_a_time_as_member_0) {
  worker_team team(3);
  std::array<std::atomic<int>, 3> inside{};
  const auto call = [&] {
    for (int round = 0; round < 200; ++round) {
      std::atomic<int> done{0};
      team.run(7, [&](std::size_t member, std::size_t) {
        EXPECT_EQ(++inside.at(member), 1) << "two threads are this member";
        ++done;
        --inside.at(member);
      });
      EXPECT_EQ(done, 7);
    }
  };
  std::thread other(call);
  call();
  other.join();
}

/// A call of two tasks that keeps member 0 and the only thread of a team of two until it is told to end.
class blocking_call {
public:
  explicit blocking_call(worker_team& team)
      : caller_([this, &team] {
          team.run(2, [this](std::size_t, std::size_t) {
            both_run_.arrive_and_wait();
            end_.wait();
          });
        }) {
    both_run_.arrive_and_wait();
  }
  blocking_call(const blocking_call&) = delete;
  blocking_call& operator=(const blocking_call&) = delete;
  ~blocking_call() { end(); }

  void end() {
    if (caller_.joinable()) {
      end_.count_down();
      caller_.join();
    }
  }

private:
  std::latch both_run_{3};
  std::latch end_{1};
  std::thread caller_;
};

TEST(worker_team, begins_the_call_with_the_fewest_tasks_first) {
  std::mutex mutex;
  std::set<std::thread::id> waiting; // callers ask for an interrupt while they wait for member 0
  const support::interrupts hook([&] {
    const std::lock_guard lock(mutex);
    waiting.insert(std::this_thread::get_id());
  });
  const auto await_waiting = [&](std::size_t callers) {
    for (std::size_t found = 0; found < callers; std::this_thread::yield()) {
      const std::lock_guard lock(mutex);
      found = waiting.size();
    }
  };
  worker_team team(2);
  blocking_call busy(team);
  std::atomic<bool> few_begun{false};
  std::thread many(
      [&] { team.run(50, [&](std::size_t member, std::size_t) { EXPECT_TRUE(member == 0 || few_begun); }); });
  await_waiting(1);
  std::barrier both(2);
  std::thread few([&] {
    team.run(2, [&](std::size_t member, std::size_t) {
      few_begun = few_begun || member == 1;
      both.arrive_and_wait(); // needs the caller and the thread
    });
  });
  await_waiting(2);
  busy.end();
  many.join();
  few.join();
}

TEST(worker_team, leaves_a_call_for_one_with_fewer_tasks_that_begins_meanwhile) {
  std::atomic<bool> other_waits{false}; // a caller asks for an interrupt while it waits for member 0
  const support::interrupts hook([&] { other_waits = true; });
  worker_team team(2);
  std::latch both_run(3);
  std::latch other_done(1);
  std::atomic<int> done{0}; // tasks of the longer call, by the thread
  std::thread longer([&] {
    team.run(3, [&](std::size_t member, std::size_t task) {
      if (task < 2) {
        both_run.arrive_and_wait();
      }
      if (member == 0) {
        return other_done.wait();
      }
      while (!other_waits) {
        std::this_thread::yield();
      }
      ++done;
    });
  });
  both_run.arrive_and_wait();
  team.run(1, [&](std::size_t, std::size_t) { EXPECT_EQ(done, 1) << "it stayed in the longer call"; });
  other_done.count_down();
  longer.join();
}

TEST(worker_team, a_caller_that_waits_for_another_can_be_interrupted) {
  struct interrupted {};
  worker_team team(2);
  blocking_call busy(team);
  {
    const support::interrupts hook([] { throw interrupted(); });
    EXPECT_THROW(team.run(5, [](std::size_t, std::size_t) { ADD_FAILURE() << "a task began"; }), interrupted);
  }
  busy.end();
  int done = 0;
  team.run(1, [&](std::size_t, std::size_t) { ++done; });
  EXPECT_EQ(done, 1);
}

TEST(worker_team, throws_a_failure_from_the_call_that_has_the_task) {
  worker_team team(3);
  std::latch both(2);
  std::thread failing([&] {
    EXPECT_THROW(team.run(100,
                          [&](std::size_t, std::size_t task) {
                            if (task == 0) {
                              both.arrive_and_wait();
                              throw std::runtime_error("task 0");
                            }
                          }),
                 std::runtime_error);
  });
  std::atomic<int> done{0};
  EXPECT_NO_THROW(team.run(100, [&](std::size_t, std::size_t task) {
    if (task == 0) {
      both.arrive_and_wait();
    }
    ++done;
  }));
  EXPECT_EQ(done, 100);
  failing.join();
}

} // namespace
} // namespace saeta
