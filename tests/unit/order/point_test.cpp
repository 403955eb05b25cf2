#include "saeta/order/point.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace saeta {
namespace {

constexpr point at(std::uint64_t timeline, std::uint64_t epoch) { return {timeline_id{timeline}, epoch}; }

TEST(point_set, keeps_the_latest_point_of_each_timeline) {
  point_set points;
  points.add(at(1, 5));
  points.add(at(2, 1));
  points.add(at(1, 3));
  points.add(at(2, 7));
  ASSERT_EQ(points.size(), 2U);
  EXPECT_EQ(points.all()[0], at(1, 5));
  EXPECT_EQ(points.all()[1], at(2, 7));
}

TEST(point_set, ignores_empty_points) {
  point_set points;
  points.add(point{});
  EXPECT_TRUE(points.empty());
}

TEST(point_set, grows_in_order_and_drops_the_oldest) {
  point_set points;
  for (std::uint64_t i = 1; i <= 20; ++i) {
    points.add(at(i, i));
  }
  ASSERT_EQ(points.size(), 20U);
  for (std::uint64_t i = 1; i <= 20; ++i) {
    EXPECT_EQ(points.all()[i - 1], at(i, i));
  }
  points.pop_front();
  EXPECT_EQ(points.size(), 19U);
  EXPECT_EQ(points.all().front(), at(2, 2));
  points.remove_if([](const point& each) { return each.epoch % 2 == 0; });
  EXPECT_EQ(points.size(), 9U);
  EXPECT_EQ(points.all().front(), at(3, 3));
}

TEST(point_set, can_be_copied_and_moved_at_any_size) {
  for (const std::uint64_t count : {1U, 2U, 3U, 9U}) {
    point_set original;
    for (std::uint64_t i = 1; i <= count; ++i) {
      original.add(at(i, i));
    }
    point_set copy = original;
    copy.add(at(100, 1));
    EXPECT_EQ(original.size(), count);
    EXPECT_EQ(copy.size(), count + 1);
    const point_set moved = std::move(copy);
    EXPECT_EQ(moved.size(), count + 1);
    EXPECT_EQ(moved.all().back(), at(100, 1));
    EXPECT_TRUE(copy.empty()); // NOLINT(bugprone-use-after-move): a moved-from set is empty
    original = moved;
    EXPECT_EQ(original.size(), count + 1);
    original = point_set();
    EXPECT_TRUE(original.empty());
  }
}

} // namespace
} // namespace saeta
