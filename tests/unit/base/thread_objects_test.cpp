#include "saeta/base/thread_number.hpp"
#include "saeta/base/thread_objects.hpp"

#include <gtest/gtest.h>

#include <barrier>
#include <functional>
#include <set>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace saeta {
namespace {

constexpr thread_object kept = thread_object::generation;

/// In a thread of its own: what the library keeps for the thread of the test stays as it is.
void in_a_thread(const std::function<void()>& body) { std::thread(body).join(); }

TEST(thread_objects, are_found_by_the_thread_that_keeps_them_alone) {
  in_a_thread([] {
    int mine = 0;
    int other = 0;
    EXPECT_EQ(find_own(kept), nullptr);
    keep_own(kept, &mine);
    EXPECT_EQ(find_own(kept), &mine);
    EXPECT_EQ(find_own(thread_object::cache), nullptr);
    keep_own(thread_object::cache, &other);
    EXPECT_EQ(find_own(kept), &mine);
    in_a_thread([] { EXPECT_EQ(find_own(kept), nullptr); });
    keep_own(kept, nullptr);
    EXPECT_EQ(find_own(kept), nullptr);
    EXPECT_EQ(find_own(thread_object::cache), &other);
  });
}

/// A thread often gets the control block of one that has ended.
TEST(thread_objects, of_a_thread_that_has_ended_are_not_found) {
  for (int i = 0; i < 100; ++i) {
    in_a_thread([] {
      int mine = 0;
      EXPECT_EQ(find_own(kept), nullptr);
      keep_own(kept, &mine);
      EXPECT_EQ(find_own(thread_object::storages), nullptr);
      keep_own(thread_object::storages, &mine);
    });
  }
}

/// Asks while its thread ends, after the place was given back.
struct asks_at_the_end {
  int mine = 0;
  bool* failed = nullptr;
  ~asks_at_the_end() {
    keep_own(kept, &mine);
    *failed = find_own(kept) != nullptr;
  }
};

TEST(thread_objects, a_thread_that_is_ending_keeps_none) {
  bool failed = true;
  in_a_thread([&] {
    thread_local asks_at_the_end last; // destroyed after what `keep_own` makes below
    last.failed = &failed;
    keep_own(kept, &last.mine);
    EXPECT_EQ(find_own(kept), &last.mine);
  });
  EXPECT_FALSE(failed);
}

TEST(thread_objects, two_threads_with_one_place_do_not_take_it_from_each_other) {
  // More threads than places, so that some have to share.
  constexpr std::size_t count = (std::size_t{1} << detail::place_bits) + 100;
  std::vector<int> objects(count);
  std::vector<char> right(count);
  std::barrier all_have_kept(static_cast<std::ptrdiff_t>(count));
  std::atomic<std::size_t> without{0};
  std::vector<std::thread> running;
  running.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    running.emplace_back([&, i] {
      keep_own(kept, &objects[i]);
      all_have_kept.arrive_and_wait();
      void* const found = find_own(kept);
      without += static_cast<std::size_t>(found == nullptr);
      right[i] = static_cast<char>(found == nullptr || found == &objects[i]);
      all_have_kept.arrive_and_wait();
    });
  }
  for (std::thread& each : running) {
    each.join();
  }
  EXPECT_GE(without, 100U);
  EXPECT_EQ(std::set(right.begin(), right.end()), std::set<char>{1});
}

TEST(thread_objects, a_child_of_fork_begins_without_any) {
  int mine = 0;
  bool found = true;
  int status = 0;
  in_a_thread([&] {
    keep_own(kept, &mine);
    const pid_t child = fork();
    if (child == 0) {
      const bool forgotten = find_own(kept) == nullptr;
      keep_own(kept, &mine);
      _exit(forgotten && find_own(kept) == &mine ? 0 : 1);
    }
    waitpid(child, &status, 0);
    found = find_own(kept) == &mine;
  });
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(found) << "the parent's stays";
}

TEST(thread_number, is_one_of_its_own_for_every_thread) {
  std::set<std::size_t> numbers{thread_number()};
  for (int i = 0; i < 10; ++i) {
    in_a_thread([&] {
      const std::size_t own = thread_number();
      EXPECT_TRUE(numbers.insert(own).second) << own;
      EXPECT_EQ(thread_number(), own);
    });
  }
}

} // namespace
} // namespace saeta
