#include "saeta/base/short_list.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <span>

namespace saeta {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

using list = short_list<int, 3>;

/// Returns the numbers 0, 1, ..., count - 1.
std::vector<int> numbers(std::size_t count) {
  std::vector<int> made(count);
  for (std::size_t i = 0; i < count; ++i) {
    made[i] = static_cast<int>(i);
  }
  return made;
}

list list_of(std::size_t count) {
  list made;
  const std::vector<int> values = numbers(count);
  made.assign(values.begin(), values.end());
  return made;
}

TEST(short_lists, have_any_number_of_values_in_their_order) {
  for (std::size_t count = 0; count < 9; ++count) {
    const list made = list_of(count);
    EXPECT_EQ(made.size(), count);
    EXPECT_EQ(made.empty(), count == 0);
    EXPECT_THAT(made, ElementsAreArray(numbers(count)));
    EXPECT_THAT(std::span<const int>(made), ElementsAreArray(numbers(count)));
  }
  EXPECT_THAT((list{7, 8}), ElementsAre(7, 8));
  EXPECT_THAT((list{7, 8, 9, 10}), ElementsAre(7, 8, 9, 10));
}

TEST(short_lists, are_copied_and_moved) {
  for (const std::size_t count : {0U, 2U, 3U, 4U, 8U}) {
    list first = list_of(count);
    list copy = first;
    EXPECT_THAT(copy, ElementsAreArray(numbers(count)));
    const list moved = std::move(first);
    EXPECT_THAT(moved, ElementsAreArray(numbers(count)));
    EXPECT_THAT(first, IsEmpty()); // NOLINT(bugprone-use-after-move)
    first.push_back(5);
    EXPECT_THAT(first, ElementsAre(5));
    copy = std::move(first);
    EXPECT_THAT(copy, ElementsAre(5));
    copy = moved;
    EXPECT_THAT(copy, ElementsAreArray(numbers(count)));
  }
}

TEST(short_lists, change_their_size) {
  for (std::size_t from = 0; from < 7; ++from) {
    for (std::size_t to = 0; to < 7; ++to) {
      list made = list_of(from);
      made.resize(to);
      std::vector<int> expected = numbers(from);
      expected.resize(to);
      EXPECT_THAT(made, ElementsAreArray(expected)) << from << " to " << to;
      made.push_back(9);
      expected.push_back(9);
      EXPECT_THAT(made, ElementsAreArray(expected)) << from << " to " << to;
    }
  }
}

TEST(short_lists, reserve_memory) {
  list made;
  made.reserve(5);
  EXPECT_THAT(made, IsEmpty());
  for (const int each : numbers(5)) {
    EXPECT_EQ(made.emplace_back(each), each);
  }
  EXPECT_THAT(made, ElementsAreArray(numbers(5)));
  made.append(made.begin() + 3, made.begin() + 3);
  EXPECT_EQ(made.size(), 5U);
}

TEST(short_lists, destroy_removed_values) {
  const auto watched = std::make_shared<int>(1);
  for (const long count : {2L, 5L}) {
    short_list<std::shared_ptr<int>, 3> made;
    for (long i = 0; i < count; ++i) {
      made.push_back(watched);
    }
    EXPECT_EQ(watched.use_count(), 1 + count);
    made.resize(1);
    EXPECT_EQ(watched.use_count(), 2);
    made.resize(0);
    EXPECT_EQ(watched.use_count(), 1);
    made.emplace_back(watched);
    const auto moved = std::move(made);
    EXPECT_EQ(watched.use_count(), 2);
  }
  EXPECT_EQ(watched.use_count(), 1);
}

} // namespace
} // namespace saeta
