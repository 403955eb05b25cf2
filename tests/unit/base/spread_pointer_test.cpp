#include "saeta/base/spread_pointer.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace saeta {
namespace {

struct counted {
  explicit counted(std::atomic<int>& alive) : alive_(alive) { ++alive_; }
  counted(const counted&) = delete;
  counted& operator=(const counted&) = delete;
  ~counted() { --alive_; }
  spread_pointer<counted> copies;

private:
  std::atomic<int>& alive_;
};

TEST(spread_pointer, a_copy_keeps_the_object_after_everybody_else_has_gone) {
  std::atomic<int> alive{0};
  auto whole = std::make_shared<counted>(alive);
  auto copy = whole->copies.copy([&] { return whole; });
  EXPECT_EQ(copy.get(), whole.get());
  whole->copies.close();
  whole.reset();
  EXPECT_EQ(alive, 1);
  copy.reset();
  EXPECT_EQ(alive, 0);
}

TEST(spread_pointer, keeps_the_object_itself_until_it_is_closed) {
  std::atomic<int> alive{0};
  spread_pointer<counted> copies;
  static_cast<void>(copies.copy([&] { return std::make_shared<counted>(alive); }));
  EXPECT_EQ(alive, 1);
  copies.close();
  EXPECT_EQ(alive, 0);
}

TEST(spread_pointer, once_closed_a_copy_is_what_the_owner_returns) {
  std::atomic<int> alive{0};
  auto whole = std::make_shared<counted>(alive);
  whole->copies.close();
  const auto copy = whole->copies.copy([&] { return whole; });
  EXPECT_EQ(whole.use_count(), 2);
  EXPECT_EQ(copy, whole);
}

TEST(spread_pointer, copies_of_one_thread_are_not_counted_on_the_whole) {
  std::atomic<int> alive{0};
  auto whole = std::make_shared<counted>(alive);
  const auto first = whole->copies.copy([&] { return whole; });
  const auto uses = whole.use_count();
  const auto second = whole->copies.copy([&] { return whole; });
  EXPECT_EQ(whole.use_count(), uses);
  EXPECT_EQ(first.use_count(), 3) << "two copies and the one that they are made from";
  whole->copies.close();
}

TEST(spread_pointer, the_object_goes_once_whichever_thread_is_last) {
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> alive{0};
    {
      auto whole = std::make_shared<counted>(alive);
      std::vector<std::jthread> threads;
      for (int t = 0; t < 4; ++t) {
        threads.emplace_back([mine = whole]() mutable {
          for (int i = 0; i < 20; ++i) {
            const auto copy = mine->copies.copy([&] { return mine; });
            EXPECT_EQ(copy.get(), mine.get());
          }
          auto last = mine->copies.copy([&] { return mine; });
          mine.reset();
        });
      }
      whole->copies.close();
    }
    ASSERT_EQ(alive, 0);
  }
}

} // namespace
} // namespace saeta
