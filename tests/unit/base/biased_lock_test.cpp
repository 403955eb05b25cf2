#include "saeta/base/biased_lock.hpp"
#include "saeta/base/report.hpp"
#include "saeta/base/thread_number.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <latch>
#include <mutex>
#include <thread>
#include <vector>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace saeta {
namespace {

void in_a_thread(const std::function<void()>& body) { std::thread(body).join(); }

void take(biased_lock& lock, std::uint32_t times) {
  static_cast<void>(thread_number()); // whoever has a number has a place
  for (std::uint32_t i = 0; i < times; ++i) {
    const biased_lock::own hold(lock);
  }
}

TEST(biased_lock, is_biased_to_a_thread_that_takes_it_often_in_a_row) {
  biased_lock lock;
  take(lock, biased_lock::enough);
  EXPECT_FALSE(lock.biased());
  take(lock, 1);
  EXPECT_TRUE(lock.biased());
  take(lock, 1);
  EXPECT_TRUE(lock.biased());
}

TEST(biased_lock, is_not_biased_while_threads_take_it_in_turn) {
  biased_lock lock;
  take(lock, biased_lock::enough);
  in_a_thread([&] { take(lock, 1); });
  take(lock, biased_lock::enough);
  EXPECT_FALSE(lock.biased());
}

TEST(biased_lock, is_not_biased_to_a_thread_without_a_place) {
  biased_lock lock;
  in_a_thread([&] {
    for (std::uint32_t i = 0; i < 2 * biased_lock::enough; ++i) {
      const biased_lock::own hold(lock);
    }
    EXPECT_FALSE(lock.biased());
  });
}

TEST(biased_lock, is_an_ordinary_one_after_somebody_else_took_it) {
  biased_lock lock;
  take(lock, biased_lock::enough + 1);
  in_a_thread([&] {
    const std::lock_guard hold(lock);
    EXPECT_FALSE(lock.biased());
  });
  take(lock, 1);
  EXPECT_FALSE(lock.biased());
  take(lock, biased_lock::enough);
  EXPECT_TRUE(lock.biased()) << "and biased again later";
}

TEST(biased_lock, is_locked_by_the_thread_that_it_is_biased_to) {
  biased_lock lock;
  take(lock, biased_lock::enough + 1);
  EXPECT_FALSE(lock.begin_lock()) << "nobody else can be inside";
  lock.finish_lock();
  EXPECT_FALSE(lock.try_lock());
  lock.unlock();
  EXPECT_TRUE(lock.try_lock());
  lock.unlock();
}

TEST(biased_lock, is_tried_while_it_is_free_or_biased) {
  biased_lock lock;
  take(lock, biased_lock::enough + 1);
  in_a_thread([&] {
    EXPECT_TRUE(lock.try_lock());
    in_a_thread([&] { EXPECT_FALSE(lock.try_lock()); });
    lock.unlock();
    EXPECT_TRUE(lock.try_lock());
    lock.unlock();
  });
}

/// Of a thread that has ended: the next one may get its place.
TEST(biased_lock, can_be_taken_after_its_owner_ended) {
  biased_lock lock;
  std::uint64_t taken = 0;
  for (int i = 0; i < 20; ++i) {
    in_a_thread([&] {
      take(lock, biased_lock::enough + 1);
      EXPECT_TRUE(lock.biased());
      const biased_lock::own hold(lock);
      ++taken;
    });
    const std::lock_guard hold(lock);
    ++taken;
  }
  EXPECT_EQ(taken, 40U);
}

void expect_to_wait_for_the_owner(const std::function<void(biased_lock&)>& take_from_owner) {
  biased_lock lock;
  std::latch inside(1);
  std::atomic<bool> left = false;
  std::thread owner([&] {
    take(lock, biased_lock::enough + 1);
    const biased_lock::own hold(lock);
    inside.count_down();
    while (lock.biased()) { // until somebody takes the bias away, who then has to wait
      std::this_thread::yield();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    left = true;
  });
  inside.wait();
  take_from_owner(lock);
  EXPECT_TRUE(left);
  lock.unlock();
  owner.join();
}

TEST(biased_lock, waits_for_an_owner_who_is_inside) {
  expect_to_wait_for_the_owner([](biased_lock& lock) {
    EXPECT_TRUE(lock.begin_lock());
    biased_lock::pass_barrier();
    lock.finish_lock();
  });
}

TEST(biased_lock, waits_for_an_owner_who_is_inside_when_it_is_tried) {
  expect_to_wait_for_the_owner([](biased_lock& lock) { EXPECT_TRUE(lock.try_lock()); });
}

/// The counts are plain: two threads inside at once lose some, and are a race for the thread sanitizer.
TEST(biased_lock, excludes_others_while_its_bias_comes_and_goes) {
  constexpr std::uint64_t rounds = 2000;
  std::array<biased_lock, 2> locks;
  std::array<std::uint64_t, 2> counts{};
  std::uint64_t own = 0;
  std::atomic<bool> done = false;
  std::thread owner([&] {
    static_cast<void>(thread_number());
    for (; !done; ++own) {
      for (std::size_t i = 0; i < locks.size(); ++i) {
        const biased_lock::own hold(locks[i]);
        ++counts[i];
      }
    }
  });
  for (std::uint64_t round = 0; round < rounds; ++round) {
    while (!locks[0].biased() || !locks[1].biased()) {
      std::this_thread::yield();
    }
    bool from_owners = false;
    for (biased_lock& each : locks) {
      from_owners |= each.begin_lock();
    }
    EXPECT_TRUE(from_owners);
    biased_lock::pass_barrier();
    for (std::size_t i = 0; i < locks.size(); ++i) {
      locks[i].finish_lock();
      for (int more = 0; more < 50; ++more) {
        ++counts[i];
      }
      locks[i].unlock();
    }
  }
  done = true;
  owner.join();
  EXPECT_EQ(counts[0], own + 50 * rounds);
  EXPECT_EQ(counts[1], own + 50 * rounds);
}

/// Run by the test below, in a process that may not call membarrier.
TEST(biased_lock, DISABLED_is_never_biased_without_membarrier) {
  biased_lock lock;
  take(lock, 2 * biased_lock::enough);
  EXPECT_FALSE(lock.biased());
  in_a_thread([&] { const std::lock_guard hold(lock); });
  take(lock, 1);
}

void forbid_membarrier() {
  std::array<sock_filter, 4> rules = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{.len = rules.size(), .filter = rules.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    ::_exit(77);
  }
}

/// A sandbox that begins after the library was loaded: better no process than one whose threads are in each other's way.
TEST(biased_lock, ends_the_process_when_the_system_takes_membarrier_away) {
  const pid_t child = ::fork();
  if (child == 0) {
    set_report_sink([](std::string_view, std::string_view) noexcept {});
    biased_lock lock;
    take(lock, biased_lock::enough + 1);
    const bool biased = lock.biased();
    forbid_membarrier();
    in_a_thread([&] { lock.lock(); });
    ::_exit(biased ? 0 : 77);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
    GTEST_SKIP() << "the system takes no seccomp filter, or has no membarrier";
  }
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGABRT);
}

TEST(biased_lock, works_where_the_system_forbids_membarrier) {
  const pid_t child = ::fork();
  if (child == 0) {
    forbid_membarrier();
    for (const char* const each : {"GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX"}) { // it is a part by itself
      ::unsetenv(each);
    }
    ::execl("/proc/self/exe", "saeta_unit_tests", "--gtest_also_run_disabled_tests", "--gtest_brief=1",
            "--gtest_filter=biased_lock.DISABLED_*", nullptr);
    ::_exit(78);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) {
    GTEST_SKIP() << "the system takes no seccomp filter";
  }
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

} // namespace
} // namespace saeta
