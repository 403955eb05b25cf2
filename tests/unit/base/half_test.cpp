#include "saeta/base/half.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace saeta {
namespace {

TEST(half, every_number_keeps_its_bits) {
  for (unsigned bits = 0; bits <= 0xffff; ++bits) {
    const float value = half_value(static_cast<std::uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_EQ(half_bits(value) & 0x7fffU, 0x7e00U) << bits;
      EXPECT_GT(bits & 0x7fffU, 0x7c00U);
    } else {
      ASSERT_EQ(half_bits(value), bits) << value;
    }
  }
}

TEST(half, rounds_to_the_nearest_and_ties_to_even) {
  EXPECT_EQ(half_bits(1 + 1.0 / 2048), 0x3c00U) << "a tie";
  EXPECT_EQ(half_bits(1 + 3.0 / 2048), 0x3c02U) << "a tie";
  EXPECT_EQ(half_bits(std::ldexp(1, -25)), 0U) << "a tie with zero";
  EXPECT_EQ(half_bits(std::ldexp(1.5, -25)), 1U);
  EXPECT_EQ(half_bits(-0.0), 0x8000U);
}

TEST(half, is_infinite_past_its_range) {
  EXPECT_EQ(half_bits(greatest_half), 0x7bffU);
  EXPECT_EQ(half_bits(65519.9), 0x7bffU);
  EXPECT_EQ(half_bits(65520), 0x7c00U);
  EXPECT_EQ(half_bits(-1e300), 0xfc00U);
  EXPECT_EQ(half_bits(std::numeric_limits<double>::infinity()), 0x7c00U);
  EXPECT_FLOAT_EQ(half_value(0x0001), std::ldexp(1.0F, -24));
}

} // namespace
} // namespace saeta
