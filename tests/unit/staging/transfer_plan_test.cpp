#include "saeta/staging/transfer_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace saeta {
namespace {

class plans : public ::testing::Test {
protected:
  alignas(64) std::byte memory_[16384] = {};
  [[nodiscard]] std::span<const std::byte> at(std::size_t offset, std::size_t bytes) const {
    return {memory_ + offset, bytes};
  }
};

TEST_F(plans, join_ranges_of_a_body_into_one_segment) {
  transfer_plan plan(at(0, sizeof memory_));
  const auto b = plan.add(at(256, 100));
  const auto a = plan.add(at(64, 128));
  const auto c = plan.add(at(1024, 8));
  plan.finish();
  ASSERT_EQ(plan.segments().size(), 1U);
  EXPECT_EQ(plan.segments()[0].source, memory_ + 64);
  EXPECT_EQ(plan.segments()[0].bytes, 1024 + 8 - 64U);
  EXPECT_EQ(plan.target_of(b) - plan.target_of(a), 192U);
  EXPECT_EQ(plan.target_of(c) - plan.target_of(a), 960U);
}

TEST_F(plans, place_a_single_range_at_the_start) {
  transfer_plan plan(at(0, sizeof memory_));
  const auto only = plan.add(at(100, 10));
  plan.finish();
  ASSERT_EQ(plan.segments().size(), 1U);
  EXPECT_EQ(plan.segments()[0].source, memory_ + 100);
  EXPECT_EQ(plan.segments()[0].bytes, 10U);
  EXPECT_EQ(plan.segments()[0].target, 0U);
  EXPECT_EQ(plan.target_of(only), 0U);
  EXPECT_EQ(plan.bytes_of(only), 10U);
  EXPECT_EQ(plan.slab_bytes(), 64U);

  transfer_plan without_bytes;
  const auto nothing = without_bytes.add(at(100, 0));
  without_bytes.finish();
  EXPECT_EQ(without_bytes.segments().size(), 0U);
  EXPECT_EQ(without_bytes.target_of(nothing), 0U);
  EXPECT_EQ(without_bytes.slab_bytes(), 0U);
}

TEST_F(plans, read_gaps_only_if_allowed) {
  transfer_plan plan;
  plan.add(at(0, 10));
  plan.add(at(11, 10));
  plan.finish();
  EXPECT_EQ(plan.segments().size(), 2U);

  transfer_plan partly(at(0, 64));
  partly.add(at(0, 60));
  partly.add(at(128, 10)); // the gap ends outside of the readable region
  partly.finish();
  EXPECT_EQ(partly.segments().size(), 2U);
}

TEST_F(plans, do_not_copy_wide_gaps) {
  transfer_plan plan(at(0, sizeof memory_));
  plan.add(at(0, 64));
  plan.add(at(64 + transfer_plan::max_gap + 1, 64));
  plan.finish();
  EXPECT_EQ(plan.segments().size(), 2U);
  EXPECT_EQ(plan.slab_bytes(), 128U);
}

TEST_F(plans, read_gaps_up_to_the_allowed_size_inside_the_readable_bytes) {
  constexpr std::size_t gap = transfer_plan::max_gap;
  transfer_plan widest(at(64, gap));
  widest.add(at(0, 64));
  widest.add(at(64 + gap, 8));
  widest.finish();
  ASSERT_EQ(widest.segments().size(), 1U);
  EXPECT_EQ(widest.segments()[0].bytes, 64 + gap + 8);
  for (const auto& readable : {at(65, gap), at(64, gap - 1)}) { // one byte of the gap is not readable
    transfer_plan plan(readable);
    plan.add(at(0, 64));
    plan.add(at(64 + gap, 8));
    plan.finish();
    EXPECT_EQ(plan.segments().size(), 2U);
  }
}

TEST_F(plans, copy_overlapping_and_repeated_ranges_once) {
  transfer_plan plan;
  const auto whole = plan.add(at(0, 512));
  const auto inside = plan.add(at(100, 50));
  const auto again = plan.add(at(0, 512));
  const auto tail = plan.add(at(500, 100));
  plan.finish();
  ASSERT_EQ(plan.segments().size(), 1U);
  EXPECT_EQ(plan.segments()[0].bytes, 600U);
  EXPECT_EQ(plan.target_of(whole), plan.target_of(again));
  EXPECT_EQ(plan.target_of(inside), plan.target_of(whole) + 100);
  EXPECT_EQ(plan.target_of(tail), plan.target_of(whole) + 500);
}

TEST_F(plans, keep_the_alignment_of_joined_ranges_and_align_single_ones) {
  transfer_plan plan;
  const auto first = plan.add(at(8, 16));
  const auto next = plan.add(at(24, 8)); // adjacent: same segment, stays aligned to 8
  const auto lone = plan.add(at(1001, 3));
  plan.finish();
  EXPECT_EQ(plan.target_of(first), 8U) << "as far behind a boundary as on the host";
  EXPECT_EQ(plan.target_of(next), 24U);
  EXPECT_EQ(plan.target_of(lone), 64U) << "the next boundary";
  EXPECT_EQ(plan.slab_bytes(), 128U);
}

TEST_F(plans, ranges_to_be_modified_have_their_own_copy) {
  transfer_plan plan(at(0, sizeof memory_));
  const auto first = plan.add_own(at(64, 128));
  const auto second = plan.add_own(at(128, 128)); // overlaps with the first
  const auto third = plan.add_own(at(64, 128));   // equals the first
  const auto inside = plan.add(at(70, 8));
  const auto beside = plan.add_own(at(300, 10)); // overlaps with none
  const auto neighbour = plan.add(at(320, 10));
  plan.finish();
  const auto apart = [&](std::size_t a, std::size_t a_bytes, std::size_t b, std::size_t b_bytes) {
    return plan.target_of(a) + a_bytes <= plan.target_of(b) ||
           plan.target_of(b) + b_bytes <= plan.target_of(a);
  };
  EXPECT_TRUE(apart(first, 128, second, 128));
  EXPECT_TRUE(apart(first, 128, third, 128));
  EXPECT_TRUE(apart(second, 128, third, 128));
  EXPECT_TRUE(apart(first, 128, inside, 8));
  EXPECT_TRUE(apart(third, 128, inside, 8));
  EXPECT_EQ(plan.target_of(neighbour) - plan.target_of(beside), 20U) << "they travel together";
  EXPECT_EQ(plan.target_of(first) % 64, 0U);
  for (const segment& each : plan.segments()) {
    EXPECT_LE(each.target + each.bytes, plan.slab_bytes());
  }
  transfer_plan touching(at(0, sizeof memory_));
  touching.add_own(at(0, 64));
  touching.add_own(at(64, 64));
  touching.finish();
  EXPECT_EQ(touching.segments().size(), 1U) << "one ends where the other begins";
}

TEST_F(plans, a_range_to_be_modified_inside_a_longer_one_has_its_own_copy) {
  transfer_plan plan(at(0, sizeof memory_));
  const auto around = plan.add(at(0, 512));
  plan.add(at(64, 8));
  const auto changed = plan.add_own(at(100, 64));
  plan.finish();
  EXPECT_TRUE(plan.target_of(changed) >= plan.target_of(around) + 512 ||
              plan.target_of(changed) + 64 <= plan.target_of(around));
}

TEST_F(plans, copy_random_ranges_correctly) {
  std::mt19937 random(1);
  for (std::size_t i = 0; i < sizeof memory_; ++i) {
    memory_[i] = static_cast<std::byte>(random());
  }
  for (int round = 0; round < 500; ++round) {
    SCOPED_TRACE(round);
    const bool gaps_are_readable = random() % 2 == 0;
    transfer_plan plan = gaps_are_readable ? transfer_plan(at(0, sizeof memory_)) : transfer_plan();
    struct added {
      std::size_t number;
      std::span<const std::byte> range;
      bool own;
    };
    std::vector<added> ranges;
    for (std::size_t i = 0; i < 2 + random() % 7; ++i) {
      const std::size_t bytes = random() % 4 == 0 ? 300 : random() % 40;
      const auto range = at(random() % 600, bytes);
      const bool own = random() % 3 == 0;
      ranges.push_back({own ? plan.add_own(range) : plan.add(range), range, own});
    }
    plan.finish();
    std::vector<std::byte> slab(plan.slab_bytes());
    for (const segment& each : plan.segments()) {
      ASSERT_LE(each.target + each.bytes, slab.size());
      std::copy_n(each.source, each.bytes, slab.begin() + static_cast<std::ptrdiff_t>(each.target));
    }
    const auto arrived = [&](const added& each) {
      return std::equal(each.range.begin(), each.range.end(),
                        slab.begin() + static_cast<std::ptrdiff_t>(plan.target_of(each.number)));
    };
    for (const added& each : ranges) {
      EXPECT_TRUE(arrived(each)) << each.number;
      EXPECT_EQ(plan.bytes_of(each.number), each.range.size());
    }
    for (const added& each : ranges) {
      if (each.own) {
        const auto first = slab.begin() + static_cast<std::ptrdiff_t>(plan.target_of(each.number));
        std::transform(first, first + static_cast<std::ptrdiff_t>(each.range.size()), first,
                       [](std::byte value) { return ~value; });
      }
    }
    for (const added& each : ranges) {
      EXPECT_TRUE(each.own || arrived(each)) << each.number << " was changed with another one";
    }
  }
}

TEST_F(plans, align_ranges_that_are_unaligned_on_the_host) {
  transfer_plan plan;
  const auto odd = plan.add(at(1, 80));
  const auto beside = plan.add(at(81, 80)); // same segment
  const auto bits = plan.add(at(1000, 5));
  const auto behind_bits = plan.add(at(1005, 16)); // would be at an odd address
  plan.finish();
  for (const auto each : {odd, beside, bits, behind_bits}) {
    EXPECT_EQ(plan.target_of(each) % 8, 0U) << each;
  }
  EXPECT_EQ(plan.target_of(beside), plan.target_of(odd) + 80);
  EXPECT_EQ(plan.segments().size(), 3U);
}

TEST_F(plans, copy_nothing_for_empty_ranges) {
  transfer_plan plan;
  const auto nothing = plan.add({});
  plan.finish();
  EXPECT_EQ(plan.slab_bytes(), 0U);
  EXPECT_EQ(plan.target_of(nothing), 0U);
  EXPECT_TRUE(plan.segments().empty());
}

} // namespace
} // namespace saeta
