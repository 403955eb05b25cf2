#include "saeta/device/permutation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

namespace saeta {
namespace {

TEST(permutation, of_few_numbers_are_uniformly_distributed) {
  constexpr int keys = 24'000;
  constexpr std::uint64_t count = 5;
  constexpr double expected = keys / 120.0;
  std::map<std::vector<std::uint64_t>, int> seen;
  for (std::uint64_t key = 0; key < keys; ++key) {
    const permutation order = make_permutation(count, key);
    std::vector<std::uint64_t> places;
    for (std::uint64_t number = 0; number < count; ++number) {
      places.push_back(permute(order, number));
    }
    ++seen[places];
  }
  EXPECT_EQ(seen.size(), 120U);
  double chi_square = 0;
  for (const auto& [places, times] : seen) {
    chi_square += (times - expected) * (times - expected) / expected;
  }
  EXPECT_LT(chi_square, 119 + 4 * 15.4); // four standard deviations above the mean
}

TEST(permutation, of_the_largest_count_stays_in_range) {
  constexpr std::uint64_t count = std::uint64_t{1} << 62;
  const permutation order = make_permutation(count, 1);
  EXPECT_LT(permute(order, count - 1), count);
  EXPECT_NE(permute(order, 0), permute(order, 1));
}

TEST(number_groups, skip_the_first_members) {
  const number_groups numbers{.first = -2, .skipped = 2, .group = 3, .stride = 10, .count = 4};
  EXPECT_EQ(number_at(numbers, 0), 0);
  EXPECT_EQ(number_at(numbers, 1), 8);
  EXPECT_EQ(number_at(numbers, 3), 10);
  EXPECT_EQ(number_at({.first = 5}, 2), 7);
}

} // namespace
} // namespace saeta
