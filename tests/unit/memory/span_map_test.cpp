// The map of free spans in memory regions: best fit, splitting and merging.
#include "saeta/memory/loans/span_map.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>

namespace saeta {
namespace {

constexpr std::size_t any = std::numeric_limits<std::size_t>::max();

TEST(span_map, returns_the_smallest_span_that_is_large_enough) {
  span_map spans;
  spans.add(10'000, 512);
  spans.add(20'000, 256);
  spans.add(30'000, 1024);
  EXPECT_EQ(spans.take(256, any), 20'000U);
  EXPECT_EQ(spans.take(256, any), 10'000U);
  EXPECT_EQ(spans.take(256, any), 10'256U) << "the rest of the span";
  EXPECT_EQ(spans.take(1025, any), std::nullopt);
  EXPECT_EQ(spans.take(1024, any), 30'000U);
  EXPECT_EQ(spans.take(1, any), std::nullopt);
}

TEST(span_map, does_not_split_spans_above_a_size) {
  span_map spans;
  spans.add(0, 1024);
  EXPECT_EQ(spans.take(256, 1023), std::nullopt);
  EXPECT_EQ(spans.take(256, 1024), 0U);
}

TEST(span_map, merges_free_neighbours_on_both_sides) {
  span_map spans;
  spans.add(0, 768);
  ASSERT_EQ(spans.take(256, any), 0U);
  ASSERT_EQ(spans.take(256, any), 256U);
  ASSERT_EQ(spans.take(256, any), 512U);
  spans.give_back(0);
  spans.give_back(512);
  EXPECT_EQ(spans.take(257, any), std::nullopt) << "the span between them is out";
  spans.give_back(256);
  EXPECT_EQ(spans.take(768, any), 0U);
}

TEST(span_map, does_not_merge_regions) {
  span_map spans;
  spans.add(0, 256);
  spans.add(256, 256);
  ASSERT_EQ(spans.take(256, any), 0U);
  ASSERT_EQ(spans.take(256, any), 256U);
  spans.give_back(256);
  spans.give_back(0);
  EXPECT_EQ(spans.take(512, any), std::nullopt);
}

TEST(span_map, returns_disjoint_spans_and_merges_them_when_freed) {
  constexpr std::size_t whole = 1 << 16;
  std::mt19937 random(7);
  span_map spans;
  spans.add(whole, whole);
  std::map<span_map::address, std::size_t> out;
  for (int step = 0; step < 20'000; ++step) {
    if (random() % 2 == 0) {
      const std::size_t bytes = 1 + random() % 4096;
      if (const auto begin = spans.take(bytes, any)) {
        const auto [at, added] = out.emplace(*begin, bytes);
        ASSERT_TRUE(added);
        ASSERT_GE(*begin, whole);
        ASSERT_LE(*begin + bytes, 2 * whole);
        ASSERT_TRUE(at == out.begin() || std::prev(at)->first + std::prev(at)->second <= *begin);
        ASSERT_TRUE(std::next(at) == out.end() || *begin + bytes <= std::next(at)->first);
      }
    } else if (!out.empty()) {
      const auto ended = std::next(out.begin(), static_cast<std::ptrdiff_t>(random() % out.size()));
      spans.give_back(ended->first);
      out.erase(ended);
    }
  }
  for (const auto& [begin, bytes] : out) {
    spans.give_back(begin);
  }
  EXPECT_EQ(spans.take(whole, any), whole) << "not merged into one span";
}

} // namespace
} // namespace saeta
