// Chunks of a scatter that are requested by number, in any order and by several threads, equal those that are
// cut in sequence.
#include "saeta/staging/chunk_sequence.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

namespace saeta {
namespace {

constexpr std::size_t sequence_chunk = 4096;
constexpr std::uint64_t decoded_from = 1'000'000'000; // source offsets from here on are decoded

std::vector<scatter_step> some_steps(std::size_t count, std::uint64_t first = 0) {
  std::vector<scatter_step> made(count);
  std::uint64_t source = first;
  for (std::size_t i = 0; i < count; ++i) {
    made[i].source = source;
    made[i].count = static_cast<std::int64_t>(1 + i * 397 % 1500 + (i % 50 == 7 ? 3 * sequence_chunk : 0));
    source += static_cast<std::uint64_t>(made[i].count) + i % 3 * 64;
  }
  return made;
}

bool same(const cut_chunk& left, const cut_chunk& right) {
  const auto same_part = [](const chunk_part& a, const chunk_part& b) {
    return a.source == b.source && a.at == b.at && a.bytes == b.bytes;
  };
  const auto same_step = [](const scatter_step& a, const scatter_step& b) {
    return a.source == b.source && a.target == b.target && a.count == b.count;
  };
  return std::ranges::equal(left.parts, right.parts, same_part) &&
         std::ranges::equal(left.steps, right.steps, same_step) && left.bytes == right.bytes &&
         left.direct == right.direct;
}

std::vector<cut_chunk> one_after_the_other(const chunk_cutter& cutter) {
  std::vector<cut_chunk> made;
  for (chunk_cursor at; !cutter.done(at);) {
    at = cutter.cut(at, made.emplace_back());
  }
  return made;
}

TEST(chunk_sequence, is_the_same_in_any_order) {
  const std::vector<scatter_step> steps = some_steps(300);
  const chunk_cutter cutter(steps, sequence_chunk);
  const std::vector<cut_chunk> expected = one_after_the_other(cutter);
  std::vector<std::size_t> order(expected.size());
  std::iota(order.begin(), order.end(), 0U);
  for (unsigned seed = 0; seed < 20; ++seed) {
    chunk_sequence chunks(cutter);
    for (const std::size_t number : order) { // begins in ascending order
      cut_chunk chunk;
      ASSERT_TRUE(chunks.cut(number, chunk));
      EXPECT_TRUE(same(chunk, expected[number])) << number;
    }
    cut_chunk none;
    EXPECT_FALSE(chunks.cut(expected.size(), none));
    EXPECT_FALSE(chunks.cut(expected.size() + 7, none));
    EXPECT_EQ(chunks.end().step, steps.size());
    std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  }
}

TEST(chunk_sequence, is_the_same_for_several_threads) {
  const std::vector<scatter_step> steps = some_steps(300);
  const chunk_cutter cutter(steps, sequence_chunk);
  const std::vector<cut_chunk> expected = one_after_the_other(cutter);
  chunk_sequence chunks(cutter);
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> right{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      cut_chunk chunk; // reused, as the ring does
      for (std::size_t number = next++; chunks.cut(number, chunk); number = next++) {
        right += same(chunk, expected[number]) ? 1 : 0;
      }
    });
  }
  for (std::thread& each : threads) {
    each.join();
  }
  EXPECT_EQ(right, expected.size());
}

TEST(chunk_sequence, returns_at_most_the_requested_number) {
  const std::vector<scatter_step> steps = some_steps(30);
  const chunk_cutter cutter(steps, sequence_chunk);
  const std::size_t count = one_after_the_other(cutter).size();
  chunk_sequence chunks(cutter);
  EXPECT_EQ(chunks.find(1), 1U);
  EXPECT_EQ(chunks.find(3), 3U);
  EXPECT_EQ(chunks.find(2), 2U);
  EXPECT_EQ(chunks.find(count + 1), count);
  const chunk_cutter nothing({}, sequence_chunk);
  EXPECT_EQ(chunk_sequence(nothing).find(1), 0U);
}

TEST(chunk_sequence, ends_before_decoded_steps) {
  std::vector<scatter_step> steps = some_steps(20);
  const std::size_t plain = one_after_the_other(chunk_cutter(steps, sequence_chunk)).size();
  const std::vector<scatter_step> behind = some_steps(20, decoded_from);
  steps.insert(steps.end(), behind.begin(), behind.end());
  const chunk_cutter cutter(steps, sequence_chunk, decoded_from);
  chunk_sequence chunks(cutter);
  const std::size_t found = chunks.find(steps.size());
  EXPECT_GE(found, plain - 1) << "the last one may have both, and is not of any order then";
  EXPECT_LE(found, plain);
  cut_chunk chunk;
  ASSERT_TRUE(chunks.cut(found - 1, chunk));
  EXPECT_FALSE(cutter.has_order(chunk));
  EXPECT_FALSE(chunks.cut(found, chunk));
  const chunk_cursor next = cutter.cut(chunks.end(), chunk);
  EXPECT_TRUE(cutter.has_order(chunk));
  EXPECT_GT(next.step, chunks.end().step);
  const chunk_cutter decoded_alone(behind, sequence_chunk, decoded_from);
  chunk_sequence none(decoded_alone);
  EXPECT_EQ(none.find(1), 0U);
  EXPECT_EQ(none.end().step, 0U);
}

} // namespace
} // namespace saeta
