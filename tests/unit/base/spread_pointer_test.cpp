#include "saeta/base/spread_pointer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <thread>
#include <vector>

namespace saeta {
namespace {

struct counted {
  explicit counted(std::atomic<int>& alive) : alive_(alive) { ++alive_; }
  counted(const counted&) = delete;
  counted& operator=(const counted&) = delete;
  ~counted() { --alive_; }

private:
  std::atomic<int>& alive_;
};

TEST(spread_pointer, a_copy_keeps_the_object_alive) {
  std::atomic<int> alive{0};
  spread_pointer<counted> spread;
  auto whole = std::make_shared<counted>(alive);
  spread.open(whole);
  auto copy = spread.copy();
  EXPECT_EQ(copy, whole);
  spread.close();
  whole.reset();
  EXPECT_EQ(alive, 1);
  copy.reset();
  EXPECT_EQ(alive, 0);
}

TEST(spread_pointer, keeps_the_object_itself_until_it_is_closed) {
  std::atomic<int> alive{0};
  spread_pointer<counted> spread;
  spread.open(std::make_shared<counted>(alive));
  EXPECT_EQ(alive, 1);
  spread.close();
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(spread.copy(), nullptr);
}

TEST(spread_pointer, copies_do_not_change_the_shared_reference_count) {
  std::atomic<int> alive{0};
  const auto whole = std::make_shared<counted>(alive);
  spread_pointer<counted> spread;
  spread.open(whole);
  const auto uses = whole.use_count();
  const auto first = spread.copy();
  const auto second = spread.copy();
  EXPECT_EQ(whole.use_count(), uses);
  EXPECT_EQ(first.use_count(), 3) << "two copies and the one that they are made from";
}

TEST(spread_pointer, threads_use_separate_reference_counts) {
  std::atomic<int> alive{0};
  spread_pointer<counted> spread;
  spread.open(std::make_shared<counted>(alive));
  const auto mine = spread.copy();
  std::array<long, 2> uses{};
  for (long& each : uses) {
    std::thread([&] { each = spread.copy().use_count(); }).join();
  }
  EXPECT_EQ(*std::ranges::min_element(uses), 2)
      << "of one of the two: its copy and the one that it is made from";
}

TEST(spread_pointer, the_object_is_destroyed_once_by_the_last_thread) {
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> alive{0};
    std::optional<spread_pointer<counted>> spread(std::in_place);
    spread->open(std::make_shared<counted>(alive));
    {
      std::vector<std::jthread> threads;
      for (int t = 0; t < 4; ++t) {
        threads.emplace_back([mine = spread->copy()]() mutable {
          for (int i = 0; i < 20; ++i) {
            const auto copy = mine;
            EXPECT_NE(copy, nullptr);
          }
          mine.reset();
        });
      }
      spread.reset();
    }
    ASSERT_EQ(alive, 0);
  }
}

} // namespace
} // namespace saeta
