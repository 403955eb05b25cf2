#include "saeta/memory/use_clock.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace saeta {
namespace {

TEST(use_clock, moves_once_in_so_many_uses_of_one_object) {
  last_use used(0);
  const std::uint64_t before = use_clock::now();
  for (std::uint32_t i = 0; i < 3 * use_clock::uses_per_tick; ++i) {
    used.note();
  }
  EXPECT_EQ(use_clock::now(), before + 3);
  EXPECT_EQ(used.tick(), use_clock::now());
}

TEST(use_clock, moves_with_many_objects_that_are_used_once_each) {
  const std::uint64_t before = use_clock::now();
  for (std::uint32_t phase = 0; phase < use_clock::uses_per_tick; ++phase) {
    last_use used(phase);
    used.note();
  }
  EXPECT_EQ(use_clock::now(), before + 1);
}

TEST(use_clock, a_new_object_counts_as_used_and_others_grow_old) {
  last_use used(0);
  const last_use old(1);
  EXPECT_EQ(old.tick(), use_clock::now());
  for (std::uint32_t i = 0; i < use_clock::uses_per_tick; ++i) {
    used.note();
  }
  EXPECT_LT(old.tick(), used.tick());
}

} // namespace
} // namespace saeta
