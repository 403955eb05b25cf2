#include "saeta/base/checked.hpp"
#include "unit/base/raises.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace saeta {
namespace {

using unit::code_raised_by;

template <class T>
constexpr T most = std::numeric_limits<T>::max();
template <class T>
constexpr T least = std::numeric_limits<T>::min();

TEST(checked, sums_are_exact_up_to_the_last_value) {
  EXPECT_EQ(checked_add(most<std::uint64_t> - 1, std::uint64_t{1}, "bytes"), most<std::uint64_t>);
  EXPECT_EQ(checked_add(most<std::int64_t>, least<std::int64_t>, "rows"), -1);
  EXPECT_EQ(checked_add(std::int8_t{100}, std::int8_t{27}, "bits"), 127);
}

TEST(checked, the_error_of_a_sum_has_the_label_and_both_numbers) {
  std::string message;
  EXPECT_EQ(code_raised_by([] { checked_add(most<std::uint64_t>, std::uint64_t{1}, "column 'x' in bytes"); },
                           &message),
            errc::overflow);
  EXPECT_EQ(message, "column 'x' in bytes: 18446744073709551615 + 1 overflows");
  EXPECT_EQ(code_raised_by([] { checked_add(least<std::int64_t>, std::int64_t{-1}, "rows"); }),
            errc::overflow);
  EXPECT_EQ(code_raised_by([] { checked_add(std::int8_t{100}, std::int8_t{28}, "bits"); }, &message),
            errc::overflow);
  EXPECT_EQ(message, "bits: 100 + 28 overflows") << "bytes are numbers, not characters";
}

TEST(checked, products_are_exact_or_refused) {
  EXPECT_EQ(checked_mul(std::uint64_t{1} << 32, (std::uint64_t{1} << 32) - 1, "bytes"), 0xffffffff00000000u);
  EXPECT_EQ(checked_mul(std::int64_t{-1}, most<std::int64_t>, "rows"), -most<std::int64_t>);
  std::string message;
  EXPECT_EQ(
      code_raised_by([] { checked_mul(std::uint64_t{1} << 32, std::uint64_t{1} << 32, "bytes"); }, &message),
      errc::overflow);
  EXPECT_EQ(message, "bytes: 4294967296 x 4294967296 overflows");
  EXPECT_EQ(code_raised_by([] { checked_mul(std::int64_t{-1}, least<std::int64_t>, "rows"); }),
            errc::overflow);
}

TEST(checked, casts_keep_the_value_or_refuse) {
  EXPECT_EQ(checked_cast<std::int32_t>(std::int64_t{2147483647}, "offset"), 2147483647);
  EXPECT_EQ(checked_cast<std::uint64_t>(std::int32_t{0}, "length"), 0u);
  std::string message;
  EXPECT_EQ(code_raised_by([] { checked_cast<std::int32_t>(std::int64_t{2147483648}, "offset"); }, &message),
            errc::overflow);
  EXPECT_EQ(message, "offset: 2147483648 does not fit");
  EXPECT_EQ(code_raised_by([] { checked_cast<std::uint64_t>(std::int64_t{-1}, "length"); }), errc::overflow);
  EXPECT_EQ(code_raised_by([] { checked_cast<std::int64_t>(most<std::uint64_t>, "length"); }),
            errc::overflow);
}

TEST(checked, round_up_goes_to_the_next_multiple) {
  EXPECT_EQ(round_up(std::uint64_t{0}, std::uint64_t{64}), 0u);
  EXPECT_EQ(round_up(std::uint64_t{1}, std::uint64_t{64}), 64u);
  EXPECT_EQ(round_up(std::uint64_t{64}, std::uint64_t{64}), 64u);
  EXPECT_EQ(round_up(std::uint64_t{65}, std::uint64_t{64}), 128u);
  EXPECT_EQ(round_up(most<std::uint64_t> - 63, std::uint64_t{64}), most<std::uint64_t> - 63);
  EXPECT_EQ(code_raised_by([] { round_up(most<std::uint64_t> - 62, std::uint64_t{64}); }), errc::overflow);
}

} // namespace
} // namespace saeta
