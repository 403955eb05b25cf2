#include "saeta/observe/read_clock.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace saeta {
namespace {

void pass(std::chrono::milliseconds time) { std::this_thread::sleep_for(time); }

constexpr std::chrono::milliseconds some{2};

TEST(read_clock, counts_the_time_and_the_bytes_of_each_part) {
  read_clock::start(1);
  {
    const timed_part timed(read_part::file, 100);
    pass(some);
  }
  { const timed_part timed(read_part::file, 20); }
  {
    const timed_part timed(read_part::decode);
    pass(some);
  }
  const part_times times = read_clock::stop();
  EXPECT_GE(times.of(read_part::file).seconds, 0.002);
  EXPECT_EQ(times.of(read_part::file).bytes, 120);
  EXPECT_GE(times.of(read_part::decode).seconds, 0.002);
  EXPECT_EQ(times.of(read_part::copy).seconds, 0);
}

TEST(read_clock, counts_no_moment_of_a_thread_twice) {
  const auto begin = std::chrono::steady_clock::now();
  read_clock::start(1);
  {
    const timed_part outer(read_part::copy);
    pass(some);
    {
      const timed_part inner(read_part::file);
      pass(some);
      { const timed_part innermost(read_part::copy); }
      pass(some);
    }
    pass(some);
  }
  const part_times times = read_clock::stop();
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
  const double copy = times.of(read_part::copy).seconds;
  const double file = times.of(read_part::file).seconds;
  EXPECT_GE(copy, 0.004);
  EXPECT_GE(file, 0.004);
  EXPECT_LE(copy + file, passed.count());
}

TEST(read_clock, adds_up_the_time_of_all_threads) {
  read_clock::start(1);
  const auto work = [] {
    const timed_part timed(read_part::link, 1);
    pass(some);
  };
  {
    const std::jthread first(work);
    const std::jthread second(work);
  }
  const part_time link = read_clock::stop().of(read_part::link);
  EXPECT_GE(link.seconds, 0.004);
  EXPECT_EQ(link.bytes, 2);
}

TEST(read_clock, counts_what_is_outside_of_tasks_for_all_threads) {
  read_clock::start(100);
  {
    const timed_part timed(read_part::file);
    pass(some);
  }
  {
    const timed_part task(read_part::task);
    const timed_part timed(read_part::copy);
    pass(some);
  }
  const part_times times = read_clock::stop();
  EXPECT_GE(times.of(read_part::file).seconds, 0.2);
  EXPECT_GE(times.of(read_part::copy).seconds, 0.002);
  EXPECT_LT(times.of(read_part::copy).seconds, times.of(read_part::file).seconds / 2);
}

TEST(read_clock, does_not_count_a_scope_of_an_earlier_recording) {
  read_clock::start(1);
  {
    const timed_part early(read_part::file, 7);
    pass(some);
    read_clock::stop();
    read_clock::start(1);
  }
  const part_time file = read_clock::stop().of(read_part::file);
  EXPECT_EQ(file.seconds, 0);
  EXPECT_EQ(file.bytes, 0);
}

TEST(read_clock, counts_nothing_while_it_does_not_run) {
  { const timed_part timed(read_part::file, 7); }
  EXPECT_EQ(read_clock::stop().of(read_part::file).bytes, 0);
}

} // namespace
} // namespace saeta
