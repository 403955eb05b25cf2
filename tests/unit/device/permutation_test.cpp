#include "saeta/device/permutation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
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

TEST(permutation, of_the_first_window_is_that_of_the_key) {
  const permutation order = make_permutation(1000, 3);
  EXPECT_EQ(permute(of_window(order, 1000, 0), 17), permute(order, 17));
}

TEST(permutation, of_windows_differ) {
  constexpr std::uint64_t count = 500;
  const permutation order = make_permutation(count, 3);
  for (const std::uint64_t window : {1U, 2U, 48U}) {
    int equal = 0;
    std::set<std::uint64_t> places;
    for (std::uint64_t number = 0; number < count; ++number) {
      const std::uint64_t place = permute(of_window(order, count, window), number);
      equal += place == permute(order, number) ? 1 : 0;
      places.insert(place);
    }
    EXPECT_EQ(places.size(), count);
    EXPECT_EQ(*places.rbegin(), count - 1);
    EXPECT_LT(equal, 10) << "one is expected by chance";
  }
}

TEST(permutation, of_windows_of_few_numbers_are_uniformly_distributed) {
  constexpr std::uint64_t windows = 24'000;
  const permutation order = make_permutation(5, 9);
  std::map<std::vector<std::uint64_t>, int> seen;
  for (std::uint64_t window = 0; window < windows; ++window) {
    std::vector<std::uint64_t> places;
    for (std::uint64_t number = 0; number < 5; ++number) {
      places.push_back(permute(of_window(order, 5, window), number));
    }
    ++seen[places];
  }
  EXPECT_EQ(seen.size(), 120U);
  double chi_square = 0;
  for (const auto& [places, times] : seen) {
    chi_square += (times - 200.0) * (times - 200.0) / 200.0;
  }
  EXPECT_LT(chi_square, 119 + 4 * 15.4);
}

TEST(lane_batches, take_turns_through_the_lanes_of_a_table) {
  // 6 lanes, of which the table has 1, 3 and 5, with windows of 2 batches of 10 rows
  const lane_batches of{
      .first = 1, .step = 2, .batch_rows = 10, .lanes = 6, .lane_step = 2, .window_batches = 2, .round = 4};
  const std::vector<std::vector<std::int64_t>> expected{
      {0, 0, 25},  {20, 0, 27},  {40, 0, 29}, // batches 1, 3 and 5
      {0, 10, 25}, {20, 10, 27}, {40, 10, 29}, {60, 0, 31}};
  for (std::size_t turn = 0; turn < expected.size(); ++turn) {
    const batch_place at = place_of(of, static_cast<std::int64_t>(turn));
    EXPECT_EQ((std::vector{at.first_row, at.number, at.window}), expected[turn]) << turn;
  }
}

} // namespace
} // namespace saeta
