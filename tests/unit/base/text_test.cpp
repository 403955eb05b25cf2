#include "saeta/base/text.hpp"
#include "unit/base/raises.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace saeta {
namespace {

using unit::code_raised_by;

constexpr auto most_number = std::numeric_limits<std::uint64_t>::max();

TEST(text, concat_joins_values_as_streams_print_them) {
  const std::string_view view = "view";
  const char* const pointed = "pointed";
  EXPECT_EQ(concat("literal ", view, ' ', pointed, std::string(" string")), "literal view pointed string");
  EXPECT_EQ(concat(std::numeric_limits<std::int64_t>::min(), " ", most_number),
            "-9223372036854775808 18446744073709551615");
  EXPECT_EQ(concat(true, false, std::int8_t{'a'}, std::uint8_t{'b'}), "10ab");
  EXPECT_EQ(concat(0.5, " ", 1e20), "0.5 1e+20");
  EXPECT_EQ(concat(), "");
}

TEST(text, hexadecimal_has_no_prefix) {
  EXPECT_EQ(hexadecimal(0), "0");
  EXPECT_EQ(hexadecimal(most_number), "ffffffffffffffff");
}

TEST(text, with_article_chooses_a_or_an) {
  EXPECT_EQ(with_article("int8"), "an int8");
  EXPECT_EQ(with_article("uint8"), "a uint8");
  EXPECT_EQ(with_article("Event"), "an Event");
  EXPECT_EQ(with_article("list<int8>"), "a list<int8>");
  EXPECT_EQ(with_article(""), "a ");
}

TEST(text, decimal_prints_all_128_bits) {
  EXPECT_EQ(decimal(0), "0");
  EXPECT_EQ(decimal(10), "10");
  EXPECT_EQ(decimal(uint128{most_number} + 1), "18446744073709551616");
  EXPECT_EQ(decimal(~uint128{0}), "340282366920938463463374607431768211455");
}

TEST(text, human_bytes_has_a_binary_unit_and_two_decimals_at_most) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1), "1 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1024), "1 KiB");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(1234567), "1.18 MiB");
  EXPECT_EQ(human_bytes(std::uint64_t{8} << 30), "8 GiB");
  EXPECT_EQ(human_bytes(std::uint64_t{3} << 40), "3 TiB");
  EXPECT_EQ(human_bytes(std::uint64_t{1} << 50), "1 PiB");
  EXPECT_EQ(human_bytes(std::uint64_t{123456} << 13), "964.5 MiB");
  EXPECT_EQ(human_bytes((std::uint64_t{1} << 20) - 1), "1 MiB") << "rounded to 1024 KiB";
  EXPECT_EQ(human_bytes((std::uint64_t{1000} << 20) + (123 << 10)), "1000.12 MiB");
  EXPECT_EQ(human_bytes(most_number), "16 EiB");
}

TEST(text, parse_bytes_reads_plain_counts_exactly) {
  EXPECT_EQ(parse_bytes("0"), 0u);
  EXPECT_EQ(parse_bytes("4096"), 4096u);
  EXPECT_EQ(parse_bytes("9007199254740993"), 9007199254740993u) << "one more than a double holds";
  EXPECT_EQ(parse_bytes("18446744073709551615"), most_number);
}

TEST(text, parse_bytes_knows_binary_and_decimal_units_in_any_case) {
  EXPECT_EQ(parse_bytes("512B"), 512u);
  EXPECT_EQ(parse_bytes("1K"), 1024u);
  EXPECT_EQ(parse_bytes("1KiB"), 1024u);
  EXPECT_EQ(parse_bytes("1kb"), 1000u);
  EXPECT_EQ(parse_bytes("1.5 MiB"), 1572864u);
  EXPECT_EQ(parse_bytes("10MB"), 10000000u);
  EXPECT_EQ(parse_bytes("8GiB"), std::uint64_t{8} << 30);
  EXPECT_EQ(parse_bytes("8gib"), std::uint64_t{8} << 30);
  EXPECT_EQ(parse_bytes("2G"), std::uint64_t{2} << 30);
  EXPECT_EQ(parse_bytes("1TB"), 1000000000000u);
  EXPECT_EQ(parse_bytes("2TiB"), std::uint64_t{2} << 40);
  EXPECT_EQ(parse_bytes("1PiB"), std::uint64_t{1} << 50);
  EXPECT_EQ(parse_bytes("1e3"), 1000u);
  EXPECT_EQ(parse_bytes("0.5"), 0u) << "no half bytes";
}

TEST(text, parse_bytes_reads_what_human_bytes_writes) {
  for (const std::uint64_t bytes :
       {std::uint64_t{0}, std::uint64_t{999}, std::uint64_t{1536}, std::uint64_t{7} << 20,
        std::uint64_t{5} << 29, std::uint64_t{3} << 40, std::uint64_t{9} << 50, std::uint64_t{3} << 60}) {
    EXPECT_EQ(parse_bytes(human_bytes(bytes)), bytes);
  }
}

TEST(text, parse_bytes_reads_percent_of_a_total) {
  EXPECT_EQ(parse_bytes("50%", 1000), 500u);
  EXPECT_EQ(parse_bytes("12.5 %", 1 << 20), 131072u);
  EXPECT_EQ(parse_bytes("0%", 1000), 0u);
  EXPECT_EQ(parse_bytes("100%", 999), 999u);
}

TEST(text, parse_bytes_quotes_the_text_that_it_refuses) {
  for (const char* const text : {"", " ", "GiB", "-1", "+1", "-0.5GiB", "ten", "8 gigs", "1.2.3", "0x10",
                                 "nan", "1,5G", "%", "5 5", "4096;"}) {
    std::string message;
    EXPECT_EQ(code_raised_by([&] { parse_bytes(text, 1000); }, &message), errc::invalid_argument) << text;
    EXPECT_EQ(message.rfind("'" + std::string(text) + "' is not a byte count", 0), 0u) << message;
  }
}

TEST(text, parse_bytes_refuses_a_percentage_without_a_total_or_above_100) {
  EXPECT_EQ(code_raised_by([] { parse_bytes("50%"); }), errc::invalid_argument);
  EXPECT_EQ(code_raised_by([] { parse_bytes("101%", 1000); }), errc::invalid_argument);
  EXPECT_EQ(code_raised_by([] { parse_bytes("inf%", 1000); }), errc::invalid_argument);
}

TEST(text, parse_bytes_refuses_counts_beyond_64_bits) {
  for (const char* const text : {"18446744073709551616", "16384PiB", "1e20", "99999999TiB", "inf"}) {
    EXPECT_EQ(code_raised_by([&] { parse_bytes(text); }), errc::overflow) << text;
  }
}

TEST(text, is_utf8_checks_every_character) {
  for (const std::string_view text :
       {"", "plain", "\xc3\xa9t\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80 end"}) {
    EXPECT_TRUE(is_utf8(text)) << text;
  }
  for (const std::string_view text : {"\xff", "a\xff", "\xc3", "ab\xe2\x82", "\xc0\x80", "\xed\xa0\x80 x"}) {
    EXPECT_FALSE(is_utf8(text)) << text;
  }
  EXPECT_TRUE(is_utf8(std::string_view("zero\0byte", 9)));
}

} // namespace
} // namespace saeta
