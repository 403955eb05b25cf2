// The size classes of the cache, compared with a list that follows the rule in their header.
#include "saeta/resource/cache/classes.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

namespace saeta {
namespace {

constexpr std::size_t unit = cache_classes::unit;

struct listed {
  std::vector<std::size_t> sizes;
  std::size_t small = 0;
};

/// Returns all classes by the rule: multiples of the unit up to four units, then equal steps between powers
/// of two, four steps for small blocks and eight for large ones.
listed list_of(std::size_t largest_small, std::size_t largest_cached) {
  listed made{.sizes = {unit, 2 * unit, 3 * unit, 4 * unit}, .small = 0};
  const auto add_until = [&](std::size_t largest, std::size_t steps) {
    while (made.sizes.back() < largest) {
      const std::size_t power = std::bit_floor(made.sizes.back());
      made.sizes.push_back(made.sizes.back() + power / steps);
    }
  };
  add_until(largest_small, 4);
  made.small = made.sizes.size();
  add_until(largest_cached, 8);
  return made;
}

TEST(cache_classes, follow_the_documented_rule) {
  constexpr std::size_t kib = 1024;
  for (const std::size_t largest_small : {4 * kib, 64 * kib, 1024 * kib}) {
    for (const std::size_t largest_cached : {largest_small, 2 * largest_small, 256 * 1024 * kib}) {
      const cache_classes classes(largest_small, largest_cached);
      const listed expected = list_of(largest_small, largest_cached);
      ASSERT_EQ(classes.count(), expected.sizes.size()) << largest_small << ' ' << largest_cached;
      ASSERT_LE(classes.count(), cache_classes::most);
      EXPECT_EQ(classes.largest(), expected.sizes.back());
      for (std::size_t c = 0; c < classes.count(); ++c) {
        ASSERT_EQ(classes.bytes(c), expected.sizes[c]) << c;
        ASSERT_EQ(classes.small(c), c < expected.small) << c;
        ASSERT_EQ(classes.of(expected.sizes[c]), c);
        ASSERT_EQ(classes.of((c == 0 ? 0 : expected.sizes[c - 1]) + 1), c);
      }
    }
  }
}

TEST(cache_classes, with_any_bounds_cover_every_size_up_to_the_largest) {
  for (const std::size_t largest_small : {4096U, 5000U, 7168U, 70'000U}) {
    for (const std::size_t largest_cached : {70'000U, 98'304U, 300'000U}) {
      const cache_classes classes(largest_small, largest_cached);
      ASSERT_GE(classes.largest(), largest_cached);
      ASSERT_TRUE(classes.small(classes.of(largest_small)));
      for (std::size_t bytes = 1; bytes <= largest_cached; bytes += bytes < 8192 ? 1 : 255) {
        const std::size_t c = classes.of(bytes);
        ASSERT_LT(c, classes.count());
        ASSERT_GE(classes.bytes(c), bytes);
        ASSERT_TRUE(c == 0 || classes.bytes(c - 1) < bytes) << bytes << " fits a smaller class";
      }
    }
  }
}

TEST(cache_classes, with_the_widest_bounds_fit_their_array) {
  const cache_classes widest(cache_classes::least_small, cache_classes::most_cached);
  EXPECT_EQ(widest.count(), cache_classes::most);
}

} // namespace
} // namespace saeta
