// `background_thread`: joining and detaching, exceptions of its work, and child processes after fork().
#include "saeta/base/report.hpp"
#include "saeta/executor/background_thread.hpp"
#include "support/child_process.hpp"
#include "support/without_threads.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <latch>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include <pthread.h>

namespace saeta {
namespace {

TEST(background_thread, is_joined_by_the_destructor) {
  std::atomic<bool> done{false};
  {
    std::latch open(1);
    background_thread owned("saeta-test");
    ASSERT_TRUE(owned.start([&] {
      open.wait();
      done = true;
    }));
    EXPECT_TRUE(owned.joinable());
    EXPECT_FALSE(owned.is_current());
    open.count_down();
  }
  EXPECT_TRUE(done);
}

TEST(background_thread, has_a_name) {
  std::array<char, 16> name{};
  background_thread owned("saeta-test");
  ASSERT_TRUE(owned.start([&] { ::pthread_getname_np(::pthread_self(), name.data(), name.size()); }));
  owned.join();
  EXPECT_STREQ(name.data(), "saeta-test");
  EXPECT_FALSE(owned.joinable());
}

TEST(background_thread, runs_its_work_items_one_after_the_other) {
  std::atomic<int> inside{0};
  std::atomic<int> done{0};
  background_thread owned("saeta-test");
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(owned.start([&] {
      EXPECT_EQ(++inside, 1);
      ++done;
      --inside;
    }));
  }
  owned.join();
  EXPECT_EQ(done, 20);
}

TEST(background_thread, may_destroy_itself_from_its_own_work) {
  std::latch ended(1);
  auto owner = std::make_shared<background_thread>("saeta-test");
  std::latch mine_is_gone(1);
  ASSERT_TRUE(owner->start([&, kept = owner]() mutable {
    mine_is_gone.wait();
    EXPECT_TRUE(kept->is_current());
    kept.reset();
    ended.count_down();
  }));
  owner.reset();
  mine_is_gone.count_down();
  ended.wait();
}

TEST(background_thread, may_be_joined_by_its_own_work_and_by_its_owner) {
  std::latch open(1);
  background_thread owned("saeta-test");
  ASSERT_TRUE(owned.start([&] {
    open.wait();
    owned.join();
  }));
  std::thread opener([&] { open.count_down(); });
  owned.join();
  opener.join();
}

TEST(background_thread, is_not_joined_after_detach) {
  std::latch open(1);
  std::latch ended(1);
  {
    background_thread owned("saeta-test");
    ASSERT_TRUE(owned.start([&] {
      open.wait();
      ended.count_down();
    }));
    owned.detach();
    EXPECT_FALSE(owned.joinable());
  }
  open.count_down();
  ended.wait();
}

TEST(background_thread, reports_an_exception_of_its_work) {
  static std::string heard;
  heard.clear();
  const report_sink before = set_report_sink([](std::string_view where, std::string_view message) noexcept {
    heard = std::string(where) + ": " + std::string(message);
  });
  {
    background_thread owned("saeta-test");
    EXPECT_TRUE(owned.start([] { throw std::runtime_error("no reason"); }));
  }
  set_report_sink(before);
  EXPECT_EQ(heard, "saeta-test: no reason");
}

TEST(background_thread, is_not_joined_in_a_child_of_fork) {
  std::latch open(1);
  auto owned = std::make_unique<background_thread>("saeta-test");
  ASSERT_TRUE(owned->start([&] { open.wait(); }));
  support::expect_in_a_child([&] {
    owned->join();
    owned->detach();
    EXPECT_FALSE(owned->start([] {})) << "it belongs to the parent";
    owned = nullptr;
  });
  open.count_down();
}

TEST(background_thread, start_returns_false_if_the_system_cannot_start_a_thread) {
  background_thread owned("saeta-test");
  {
    const support::without_threads none;
    EXPECT_FALSE(owned.start([] { ADD_FAILURE() << "it has started"; }));
  }
  std::atomic<bool> done{false};
  EXPECT_TRUE(owned.start([&] { done = true; }));
  owned.join();
  EXPECT_TRUE(done);
}

} // namespace
} // namespace saeta
