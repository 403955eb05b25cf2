// `thread_pool::run`: numbered tasks on the caller (member 0) and the worker threads (other members), their
// order, idle members, interrupts and failures.
#include "saeta/executor/thread_pool.hpp"
#include "support/interrupts.hpp"
#include "support/without_threads.hpp"

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

TEST(thread_pool, does_every_task_once) {
  thread_pool pool(4);
  for (const std::size_t tasks : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{1000}}) {
    std::vector<std::atomic<int>> done(tasks);
    pool.run(tasks, [&](std::size_t member, std::size_t task) {
      EXPECT_LT(member, 4U);
      ++done[task];
    });
    for (const auto& count : done) {
      EXPECT_EQ(count, 1);
    }
  }
}

TEST(thread_pool, leaves_one_member_of_eight_to_the_program_during_a_call_of_a_background_thread) {
  thread_pool pool(8);
  const auto most_at_once = [&](std::size_t expected) {
    std::atomic<std::size_t> inside{0};
    std::atomic<std::size_t> most{0};
    pool.run(64, [&](std::size_t, std::size_t) {
      const std::size_t now = ++inside;
      for (std::size_t seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
      }
      while (most < expected) { // until so many members are here together
        std::this_thread::yield();
      }
      for (int i = 0; i < 200; ++i) { // a member too many would come meanwhile
        std::this_thread::yield();
      }
      --inside;
    });
    return most.load();
  };
  EXPECT_EQ(pool.members_of_call(), 8U);
  EXPECT_EQ(most_at_once(8), 8U);
  std::size_t in_background = 0;
  background_thread thread("test");
  ASSERT_TRUE(thread.start([&] {
    EXPECT_EQ(pool.members_of_call(), 7U);
    in_background = most_at_once(7);
  }));
  thread.join();
  EXPECT_EQ(in_background, 7U);
}

TEST(thread_pool, throws_the_first_failure_after_all_members_stop_and_stays_usable) {
  thread_pool pool(3);
  std::atomic<int> inside{0};
  EXPECT_THROW(pool.run(100,
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
  pool.run(10, [&](std::size_t, std::size_t) { ++done; });
  EXPECT_EQ(done, 10);
}

TEST(thread_pool, does_not_wait_for_members_without_a_task) {
  std::latch both(2);
  std::latch asked(1);
  std::latch released(1);
  thread_pool pool(2); // destroyed before the latches that its threads use
  const auto occupied = std::make_shared<const thread_pool::condition>([&] {
    asked.count_down();
    released.wait();
    return true;
  });
  pool.run(
      2, [&](std::size_t, std::size_t) { both.arrive_and_wait(); }, occupied);
  asked.wait();
  int done = 0;
  pool.run(2, [&](std::size_t member, std::size_t) {
    EXPECT_EQ(member, 0U);
    ++done;
  });
  EXPECT_EQ(done, 2);
  released.count_down();
}

TEST(thread_pool, begins_no_task_after_a_failure) {
  thread_pool pool(3);
  std::atomic<int> begun{0};
  EXPECT_THROW(pool.run(10'000,
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

TEST(thread_pool, ends_with_an_interrupt_between_two_tasks) {
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
    thread_pool pool(2);
    EXPECT_THROW(pool.run(20'000,
                          [&](std::size_t, std::size_t) {
                            ++done;
                            std::this_thread::sleep_for(std::chrono::milliseconds(1));
                          }),
                 interrupted);
  }
  EXPECT_LT(done, 10'000) << "two looks take 50 ms";
}

TEST(thread_pool, runs_a_single_task_on_the_caller) {
  thread_pool pool(4);
  pool.run(100, [](std::size_t, std::size_t) {}); // starts the worker threads
  for (int i = 0; i < 1000; ++i) {
    pool.run(1, [&, caller = std::this_thread::get_id()](std::size_t member, std::size_t task) {
      EXPECT_EQ(member, 0U);
      EXPECT_EQ(task, 0U);
      EXPECT_EQ(std::this_thread::get_id(), caller);
    });
  }
}

/// A sleep condition for the idle members of a pool, which counts how often they evaluate it.
struct watched_sleep {
  std::atomic<bool> may_sleep{false};
  std::atomic<int> asked{0};

  std::shared_ptr<const thread_pool::condition> condition() {
    return std::make_shared<const thread_pool::condition>([this] {
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

TEST(thread_pool, keeps_members_awake_until_the_condition_is_true) {
  constexpr int rounds = 20;
  watched_sleep watched;
  thread_pool pool(3);
  const auto condition = watched.condition();
  for (int round = 0; round < rounds; ++round) {
    const int before = watched.asked;
    watched.may_sleep = false;
    std::latch all(3);
    pool.run(
        3, [&](std::size_t, std::size_t) { all.arrive_and_wait(); }, condition);
    watched.await_more(before + 1); // each worker has evaluated the condition
    // One evaluates it again, unless the time limit for staying awake has passed.
    for (int i = 0; watched.asked <= before + 2 && i < 1000; ++i) {
      std::this_thread::yield();
    }
    watched.may_sleep = true;
  }
  EXPECT_GT(watched.asked, 2 * rounds) << "nobody asked again";
}

TEST(thread_pool, keeps_members_awake_for_a_limited_time) {
  watched_sleep watched;
  std::latch both(2);
  thread_pool pool(2);
  pool.run(
      2, [&](std::size_t, std::size_t) { both.arrive_and_wait(); }, watched.condition());
  int before = -1;
  while (before != watched.asked) { // the condition stays false, so only the time limit lets members sleep
    before = watched.asked;
    std::this_thread::sleep_for(10 * thread_pool::most_awake);
  }
  EXPECT_GT(before, 0);
}

TEST(thread_pool, runs_call_after_call_without_sleep_in_between) {
  watched_sleep watched;
  thread_pool pool(3);
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> done{0};
    pool.run(
        30, [&](std::size_t, std::size_t) { ++done; }, watched.condition());
    EXPECT_EQ(done, 30);
  }
} // destroys the pool while its members are awake

TEST(thread_pool, lets_members_sleep_at_once_without_a_condition) {
  watched_sleep watched;
  thread_pool pool(2);
  watched.may_sleep = true;
  std::latch both(2);
  pool.run(
      2, [&](std::size_t, std::size_t) { both.arrive_and_wait(); }, watched.condition());
  watched.await_more(0);
  pool.run(2, [](std::size_t, std::size_t) {});
  const int before = watched.asked;
  std::barrier together(2);
  pool.run(2, [&](std::size_t, std::size_t) { together.arrive_and_wait(); });
  pool.run(2, [&](std::size_t, std::size_t) { together.arrive_and_wait(); });
  EXPECT_EQ(watched.asked, before);
}

TEST(thread_pool, of_one_member_is_the_caller) {
  thread_pool pool(1);
  pool.run(100, [caller = std::this_thread::get_id()](std::size_t member, std::size_t) {
    EXPECT_EQ(member, 0U);
    EXPECT_EQ(std::this_thread::get_id(), caller);
  });
}

TEST(thread_pool, runs_tasks_on_all_members_at_once) {
  constexpr std::size_t members = 4;
  thread_pool pool(members);
  for (int round = 0; round < 10; ++round) {
    std::barrier together(members);
    std::vector<std::atomic<int>> took(members);
    pool.run(members, [&](std::size_t member, std::size_t) {
      ++took[member];
      together.arrive_and_wait(); // returns only if every member runs a task
    });
    for (const auto& tasks : took) {
      EXPECT_EQ(tasks, 1);
    }
  }
}

TEST(thread_pool, runs_another_call_during_the_last_task_of_one) {
  thread_pool pool(3);
  std::latch last_runs(1);
  std::latch other_done(1);
  std::thread first([&] {
    std::atomic<int> done{0};
    pool.run(10, [&](std::size_t, std::size_t task) {
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
  pool.run(20, [&](std::size_t, std::size_t) { ++done; });
  EXPECT_EQ(done, 20);
  other_done.count_down();
  first.join();
}

TEST(thread_pool, runs_a_single_task_while_another_caller_is_member_0) {
  thread_pool pool(2);
  std::latch runs(1);
  std::latch end(1);
  std::thread first([&] {
    pool.run(1, [&](std::size_t, std::size_t) {
      runs.count_down();
      end.wait();
    });
  });
  runs.wait();
  std::atomic<int> done{0};
  pool.run(1, [&](std::size_t member, std::size_t) {
    EXPECT_EQ(member, 1U);
    ++done;
  });
  EXPECT_EQ(done, 1);
  end.count_down();
  first.join();
}

TEST(thread_pool, has_one_caller_at_a_time_as_member_0) {
  thread_pool pool(3);
  std::array<std::atomic<int>, 3> inside{};
  const auto call = [&] {
    for (int round = 0; round < 200; ++round) {
      std::atomic<int> done{0};
      pool.run(7, [&](std::size_t member, std::size_t) {
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

/// A call with two tasks that occupies the caller and the only worker of a pool of two members until end().
class blocking_call {
public:
  explicit blocking_call(thread_pool& pool)
      : caller_([this, &pool] {
          pool.run(2, [this](std::size_t, std::size_t) {
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

TEST(thread_pool, begins_the_call_with_the_fewest_tasks_first) {
  std::mutex mutex;
  std::set<std::thread::id> waiting; // callers that wait to be member 0: these poll the interrupt hook
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
  thread_pool pool(2);
  blocking_call busy(pool);
  std::atomic<bool> few_begun{false};
  std::thread many(
      [&] { pool.run(50, [&](std::size_t member, std::size_t) { EXPECT_TRUE(member == 0 || few_begun); }); });
  await_waiting(1);
  std::barrier both(2);
  std::thread few([&] {
    pool.run(2, [&](std::size_t member, std::size_t) {
      few_begun = few_begun || member == 1;
      both.arrive_and_wait(); // returns only if caller and worker each run one task
    });
  });
  await_waiting(2);
  busy.end();
  many.join();
  few.join();
}

TEST(thread_pool, moves_a_worker_to_a_shorter_call_that_begins_meanwhile) {
  std::atomic<bool> other_waits{false}; // a caller that waits to be member 0 polls the interrupt hook
  const support::interrupts hook([&] { other_waits = true; });
  thread_pool pool(2);
  std::latch both_run(3);
  std::latch other_done(1);
  std::atomic<int> done{0}; // tasks of the longer call that the worker has done
  std::thread longer([&] {
    pool.run(3, [&](std::size_t member, std::size_t task) {
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
  pool.run(1, [&](std::size_t, std::size_t) { EXPECT_EQ(done, 1) << "it stayed in the longer call"; });
  other_done.count_down();
  longer.join();
}

TEST(thread_pool, a_caller_that_waits_for_another_can_be_interrupted) {
  struct interrupted {};
  thread_pool pool(2);
  blocking_call busy(pool);
  {
    const support::interrupts hook([] { throw interrupted(); });
    EXPECT_THROW(pool.run(5, [](std::size_t, std::size_t) { ADD_FAILURE() << "a task began"; }), interrupted);
  }
  busy.end();
  int done = 0;
  pool.run(1, [&](std::size_t, std::size_t) { ++done; });
  EXPECT_EQ(done, 1);
}

TEST(thread_pool, throws_a_failure_only_from_the_call_of_the_task) {
  thread_pool pool(3);
  std::latch both(2);
  std::thread failing([&] {
    EXPECT_THROW(pool.run(100,
                          [&](std::size_t, std::size_t task) {
                            if (task == 0) {
                              both.arrive_and_wait();
                              throw std::runtime_error("task 0");
                            }
                          }),
                 std::runtime_error);
  });
  std::atomic<int> done{0};
  EXPECT_NO_THROW(pool.run(100, [&](std::size_t, std::size_t task) {
    if (task == 0) {
      both.arrive_and_wait();
    }
    ++done;
  }));
  EXPECT_EQ(done, 100);
  failing.join();
}

TEST(thread_pool, keeps_the_member_number_in_nested_calls) {
  thread_pool pool(4);
  std::vector<std::atomic<int>> done(40);
  std::vector<std::atomic<int>> inside(4);
  pool.run(4, [&](std::size_t, std::size_t outer) {
    pool.run(10, [&](std::size_t member, std::size_t inner) {
      EXPECT_EQ(++inside.at(member), 1) << "two threads are this member";
      ++done[outer * 10 + inner];
      --inside.at(member);
    });
  });
  for (const auto& count : done) {
    EXPECT_EQ(count, 1);
  }
}

TEST(thread_pool, starts_no_more_threads_than_tasks) {
  const auto members_of = [](std::size_t tasks) {
    thread_pool pool(8);
    std::set<std::size_t> seen;
    std::mutex mutex;
    std::barrier together(static_cast<std::ptrdiff_t>(tasks));
    for (int round = 0; round < 5; ++round) {
      pool.run(tasks, [&](std::size_t member, std::size_t) {
        together.arrive_and_wait();
        const std::lock_guard lock(mutex);
        seen.insert(member);
      });
    }
    return seen;
  };
  EXPECT_EQ(members_of(1), (std::set<std::size_t>{0}));
  EXPECT_EQ(members_of(3), (std::set<std::size_t>{0, 1, 2}));
}

TEST(thread_pool, continues_with_the_threads_that_could_be_started) {
  thread_pool pool(8);
  std::latch both(2);
  pool.run(2, [&](std::size_t, std::size_t) { both.arrive_and_wait(); }); // starts one worker
  const support::without_threads none;
  std::vector<std::atomic<int>> done(100);
  pool.run(done.size(), [&](std::size_t member, std::size_t task) {
    EXPECT_LT(member, 2U);
    ++done[task];
  });
  for (const auto& count : done) {
    EXPECT_EQ(count, 1);
  }
  thread_pool alone;
  int queued = 0;
  for (int i = 0; i < 10; ++i) {
    alone.queue(thread_pool::most_queued / 4, [&] { ++queued; });
  }
  alone.wait_until([] { return false; });
  EXPECT_EQ(queued, 10);
}

TEST(thread_pool, throws_the_failure_of_a_nested_task_after_all_have_stopped) {
  thread_pool pool(4);
  std::atomic<int> inside{0};
  EXPECT_THROW(pool.run(4,
                        [&](std::size_t, std::size_t outer) {
                          pool.run(50, [&](std::size_t, std::size_t inner) {
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

} // namespace
} // namespace saeta
