#include "saeta/base/error.hpp"
#include "saeta/base/text.hpp"

#include <gtest/gtest.h>

#include <string>

namespace saeta {
namespace {

TEST(printable, does_not_change_printable_text) {
  for (const std::string text :
       {"", "plain ~", "a\xC3\xB1o", "\xE4\xBE\xA1\xE6\xA0\xBC", "\xF0\x9F\x98\x80", "back\\slash"}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(printable, escapes_control_characters) {
  EXPECT_EQ(printable("a\x1B[31m\x07\r\n\t"), "a\\x1b[31m\\x07\\r\\n\\t");
  EXPECT_EQ(printable(std::string("\0b", 2)), "\\x00b");
  EXPECT_EQ(printable("\x7F\xC2\x80\xC2\x9B\xC2\x9F\xC2\xA0"), "\\x7f\\x80\\x9b\\x9f\xC2\xA0")
      << "C1, and what follows it";
}

TEST(printable, escapes_bidirectional_marks_and_line_separators) {
  EXPECT_EQ(printable("\xE2\x80\xAA\xE2\x80\xAE\xE2\x81\xA6\xE2\x81\xA9"), "\\u202a\\u202e\\u2066\\u2069");
  EXPECT_EQ(printable("\xD8\x9C\xE2\x80\x8E\xE2\x80\x8F\xE2\x80\xA8\xE2\x80\xA9"),
            "\\u061c\\u200e\\u200f\\u2028\\u2029");
  const std::string neighbours = "\xE2\x80\xA7\xE2\x80\xAF\xE2\x81\xA5\xE2\x81\xAA\xE2\x80\x8D";
  EXPECT_EQ(printable(neighbours), neighbours);
}

TEST(printable, escapes_bytes_that_are_not_utf8) {
  EXPECT_EQ(printable("a\xFF\xC3"), "a\\xff\\xc3");
  EXPECT_EQ(printable("\xED\xA0\x80z"), "\\xed\\xa0\\x80z") << "a surrogate";
}

TEST(printable, is_applied_to_error_messages) {
  EXPECT_EQ(error(errc::format, "column '\x1B]0;x\x07'").message(), "column '\\x1b]0;x\\x07'");
  budget_refusal refusal;
  refusal.owners = {{"tag\n", 3}};
  EXPECT_TRUE(error(refusal).message().ends_with("live: tag\\n 3"));
}

} // namespace
} // namespace saeta
