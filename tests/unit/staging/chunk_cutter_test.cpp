// Cutting the steps of a scatter into chunks: merged reads, copies without a kernel, and chains for one
// thread.
#include "saeta/staging/chunk_cutter.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <tuple>
#include <vector>

namespace saeta {
namespace {

constexpr std::size_t chunk_bytes = 4096;
constexpr std::uint64_t decoded = 1'000'000; // source offsets from here on are decoded

using parts = std::vector<std::tuple<std::uint64_t, std::size_t, std::size_t>>;

scatter_step copy(std::uint64_t source, std::int64_t bytes, std::uint64_t target = 0) {
  scatter_step made;
  made.source = source;
  made.count = bytes;
  made.target = target;
  return made;
}

parts parts_of(const cut_chunk& chunk) {
  parts made;
  for (const chunk_part& each : chunk.parts) {
    made.emplace_back(each.source, each.at, each.bytes);
  }
  return made;
}

std::vector<cut_chunk> all_chunks(const chunk_cutter& cutter, std::vector<bool>* begins = nullptr) {
  std::vector<cut_chunk> made;
  for (chunk_cursor at; !cutter.done(at);) {
    if (begins != nullptr) {
      begins->push_back(cutter.begins_chain(at));
    }
    at = cutter.cut(at, made.emplace_back());
  }
  return made;
}

TEST(chunk_cutter, reads_neighbours_as_one_part) {
  const std::vector<scatter_step> steps{copy(1000, 100), copy(1100, 60), copy(1300, 10), copy(20'000, 5)};
  const auto chunks = all_chunks(chunk_cutter(steps, chunk_bytes));
  ASSERT_EQ(chunks.size(), 1U);
  const cut_chunk& only = chunks.front();
  EXPECT_EQ(parts_of(only), (parts{{1000, 40, 310}, {20'000, 416, 5}})) << "as far into 64 bytes as they lie";
  EXPECT_EQ(only.read, 315U) << "with what lies between them";
  EXPECT_EQ(only.bytes, 421U);
  EXPECT_FALSE(only.direct);
  std::vector<std::uint64_t> sources;
  for (const scatter_step& each : only.steps) {
    sources.push_back(each.source);
  }
  EXPECT_EQ(sources, (std::vector<std::uint64_t>{40, 140, 340, 416}));
}

TEST(chunk_cutter, reads_a_gap_of_a_page_and_no_larger_one) {
  for (const std::uint64_t gap : {chunk_cutter::max_gap, chunk_cutter::max_gap + 1}) {
    const std::vector<scatter_step> steps{copy(0, 64), copy(64 + gap, 64)};
    const auto chunks = all_chunks(chunk_cutter(steps, 65'536));
    ASSERT_EQ(chunks.size(), 1U);
    EXPECT_EQ(chunks.front().parts.size(), gap == chunk_cutter::max_gap ? 1U : 2U);
    EXPECT_EQ(chunks.front().read, gap == chunk_cutter::max_gap ? 128 + gap : 128U);
  }
}

TEST(chunk_cutter, sends_copies_that_fill_a_chunk_without_a_kernel) {
  const std::vector<scatter_step> steps{copy(64, 10'000, 1 << 20), copy(20'000, 100)};
  const auto chunks = all_chunks(chunk_cutter(steps, chunk_bytes));
  ASSERT_EQ(chunks.size(), 3U);
  for (const std::size_t i : {0U, 1U}) {
    EXPECT_TRUE(chunks[i].direct);
    EXPECT_EQ(parts_of(chunks[i]), (parts{{64 + i * chunk_bytes, 0, chunk_bytes}}));
    EXPECT_EQ(chunks[i].steps.front().target, (1U << 20) + i * chunk_bytes);
    EXPECT_EQ(chunks[i].steps.front().count, std::int64_t{chunk_bytes});
  }
  EXPECT_FALSE(chunks[2].direct);
  ASSERT_EQ(chunks[2].steps.size(), 2U);
  EXPECT_EQ(chunks[2].steps[0].count, 10'000 - 2 * std::int64_t{chunk_bytes});
  EXPECT_EQ(chunks[2].steps[1].count, 100);
}

TEST(chunk_cutter, splits_decoded_steps_only_if_they_exceed_a_chunk) {
  constexpr std::uint64_t gap = scatter_source::ordered_gap;
  const std::vector<scatter_step> steps{copy(decoded, 1000), copy(decoded + 1000 + gap, 1000),
                                        copy(decoded + 2000 + 2 * gap, 3000),
                                        copy(decoded + 5000 + 3 * gap, 9000)};
  std::vector<bool> begins;
  const auto chunks = all_chunks(chunk_cutter(steps, chunk_bytes, decoded), &begins);
  ASSERT_EQ(chunks.size(), 5U);
  EXPECT_EQ(chunks[0].steps.size(), 2U) << "small ones travel together";
  EXPECT_EQ(chunks[1].steps.size(), 1U);
  EXPECT_EQ(chunks[1].steps.front().count, 3000) << "whole, in a chunk of its own";
  EXPECT_EQ(begins, (std::vector<bool>{true, true, true, false, false}));
  EXPECT_TRUE(chunks[2].direct && chunks[3].direct && !chunks[4].direct);
}

TEST(chunk_cutter, orders_only_chunks_of_decoded_steps) {
  const std::vector<scatter_step> steps{copy(0, 5000), copy(decoded, 5000)};
  const chunk_cutter cutter(steps, chunk_bytes, decoded);
  std::vector<bool> order;
  for (const cut_chunk& each : all_chunks(cutter)) {
    order.push_back(cutter.has_order(each));
  }
  EXPECT_EQ(order, (std::vector<bool>{false, false, true, true}));
}

TEST(chunk_cutter, can_keep_decoded_copies_whole) {
  constexpr std::size_t most = 4u << 20;
  const std::vector<scatter_step> steps{copy(decoded, (16 << 10) - 1), copy(decoded + 30'000, 16 << 10),
                                        copy(decoded + 60'000, 5 << 20)};
  const auto chunks = all_chunks(chunk_cutter(steps, 65'536, decoded, true));
  ASSERT_EQ(chunks.size(), 4U);
  EXPECT_FALSE(chunks[0].direct) << "a small one";
  EXPECT_EQ(chunks[0].steps.size(), 1U);
  EXPECT_TRUE(chunks[1].direct);
  EXPECT_EQ(chunks[2].bytes, most);
  EXPECT_EQ(chunks[3].bytes, (5U << 20) - most);
}

TEST(chunk_cutter, cuts_between_whole_bytes_and_values) {
  scatter_step bits;
  bits.kind = join_kind::bits;
  bits.source = 10;
  bits.bits.source_first = 3;
  bits.bits.target_first = 77;
  bits.count = 50'000;
  scatter_step offsets;
  offsets.kind = join_kind::add;
  offsets.width = 8;
  offsets.source = 16'000;
  offsets.target = 800;
  offsets.count = 999;
  const std::vector<scatter_step> steps{bits, offsets};
  std::int64_t seen_bits = 0;
  std::int64_t seen_offsets = 0;
  for (const cut_chunk& chunk : all_chunks(chunk_cutter(steps, chunk_cutter::least))) {
    EXPECT_LE(chunk_cutter::steps_at(chunk) + chunk.steps.size() * sizeof(join_step), chunk_cutter::least);
    for (const scatter_step& each : chunk.steps) {
      const auto behind = std::ranges::upper_bound(chunk.parts, each.source, {}, &chunk_part::at);
      const chunk_part& from = *std::prev(behind);
      const std::uint64_t source = from.source + (each.source - from.at);
      if (each.kind == join_kind::bits) {
        EXPECT_EQ(each.bits.target_first, 77 + seen_bits);
        EXPECT_EQ(static_cast<std::int64_t>(source) * 8 + each.bits.source_first, 10 * 8 + 3 + seen_bits);
        seen_bits += each.count;
      } else {
        EXPECT_EQ(each.source % 8, 0U) << "as the kernel needs them";
        EXPECT_EQ(each.target, 800U + 8U * static_cast<std::uint64_t>(seen_offsets));
        EXPECT_EQ(source, 16'000U + 8U * static_cast<std::uint64_t>(seen_offsets));
        seen_offsets += each.count;
      }
    }
  }
  EXPECT_EQ(seen_bits, 50'000);
  EXPECT_EQ(seen_offsets, 999);
}

} // namespace
} // namespace saeta
