// Decides which bytes of a chunk are copied to their target directly, and which are scattered by a kernel.
#include "saeta/staging/chunk_route.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

namespace saeta {
namespace {

constexpr auto large = static_cast<std::int64_t>(chunk_route::least_placed);

scatter_step copy_of(std::uint64_t source, std::int64_t bytes) {
  return {.source = source, .target = source + 7, .count = bytes, .bits = {}};
}
scatter_step bits_of(std::uint64_t source, std::int64_t count) {
  return {.kind = join_kind::bits,
          .source = source,
          .count = count,
          .bits = {.source_first = 3, .target_first = 0, .counter = 0}};
}
scatter_step offsets_of(std::uint64_t source, std::int64_t count) {
  return {.kind = join_kind::add, .width = 4, .source = source, .count = count, .add = {}};
}

/// Makes the route of a chunk that ends with the bytes of the last step.
chunk_route route_of(std::vector<scatter_step> steps) {
  cut_chunk chunk;
  chunk.bytes = static_cast<std::size_t>(steps.back().source) + source_bytes(steps.back());
  chunk.steps = std::move(steps);
  chunk_route route;
  route.find(chunk);
  return route;
}

std::vector<std::uint64_t> sources(const std::vector<scatter_step>& of) {
  std::vector<std::uint64_t> offsets;
  for (const scatter_step& each : of) {
    offsets.push_back(each.source);
  }
  return offsets;
}

std::vector<std::tuple<std::size_t, std::size_t>> ranges(const chunk_route& of) {
  std::vector<std::tuple<std::size_t, std::size_t>> bounds;
  for (const chunk_range& each : of.landed) {
    bounds.emplace_back(each.begin, each.end);
  }
  return bounds;
}

using numbers = std::vector<std::uint64_t>;
using landed = std::vector<std::tuple<std::size_t, std::size_t>>;

TEST(chunk_route, copies_large_steps_directly) {
  const chunk_route of_two = route_of({copy_of(0, 100), copy_of(128, 2 * large)});
  EXPECT_EQ(sources(of_two.placed), (numbers{0, 128})) << "a small rest is not worth a kernel";
  EXPECT_TRUE(of_two.joined.empty());
  EXPECT_TRUE(of_two.landed.empty());
  EXPECT_EQ(sources(route_of({copy_of(0, 5)}).placed), numbers{0}) << "one copy is one call";
}

TEST(chunk_route, sends_small_copies_to_landing_memory_for_a_kernel) {
  const chunk_route route = route_of({copy_of(0, 100), copy_of(128, 200), copy_of(20'000, 50)});
  EXPECT_TRUE(route.placed.empty());
  EXPECT_EQ(sources(route.joined), (numbers{0, 128, 20'000}));
  EXPECT_EQ(ranges(route), (landed{{0, 328}, {20'000, 20'050}})) << "close ranges are merged";
}

TEST(chunk_route, separates_large_copies_from_steps_of_a_kernel) {
  const auto end = static_cast<std::uint64_t>(large) + 1000;
  chunk_route route =
      route_of({bits_of(10, 80), copy_of(1000, large), offsets_of(end, 25), copy_of(end + 200, large - 1)});
  EXPECT_EQ(sources(route.placed), numbers{1000});
  EXPECT_EQ(sources(route.joined), (numbers{10, end, end + 200}));
  EXPECT_EQ(ranges(route), (landed{{10, 21}, {end, end + 200 + static_cast<std::size_t>(large) - 1}}))
      << "bits from the byte of the first one to that of the last one";
  route.land(end + static_cast<std::size_t>(large) + 300, end + static_cast<std::size_t>(large) + 400);
  EXPECT_EQ(route.landed.size(), 2U) << "adjacent copies are joined";
  route.land(end + 100'000, end + 100'001);
  EXPECT_EQ(route.landed.size(), 3U);
}

TEST(chunk_route, sends_shared_bytes_once_to_landing_memory) {
  EXPECT_EQ(ranges(route_of({offsets_of(100, 50), offsets_of(100, 10), bits_of(120, 8)})),
            (landed{{100, 300}}));
}

TEST(chunk_route, is_reset_for_each_chunk) {
  chunk_route route = route_of({bits_of(0, 8), copy_of(64, large)});
  cut_chunk next;
  next.bytes = 10;
  next.steps = {offsets_of(0, 2)};
  route.find(next);
  EXPECT_TRUE(route.placed.empty());
  EXPECT_EQ(route.joined.size(), 1U);
  EXPECT_EQ(ranges(route), (landed{{0, 8}}));
}

} // namespace
} // namespace saeta
