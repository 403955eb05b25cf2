#include "saeta/base/error.hpp"
#include "saeta/base/os_error.hpp"
#include "saeta/base/source_location.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <limits>
#include <set>
#include <type_traits>

namespace saeta {
namespace {

TEST(error, has_its_code_its_message_and_its_source_location) {
  const auto line = source_location::current().line() + 1;
  const error raised(errc::format, "field 'x' has 3 buffers, expected 2");

  EXPECT_EQ(raised.code(), errc::format);
  EXPECT_EQ(raised.message(), "field 'x' has 3 buffers, expected 2");
  EXPECT_STREQ(raised.what(), raised.message().c_str());
  EXPECT_EQ(raised.where().line(), line);
  EXPECT_STREQ(raised.where().file_name(), "tests/unit/base/error_test.cpp"); // without the machine's folders
  EXPECT_STREQ(raised.where().function_name(), "TestBody");
  EXPECT_EQ(raised.refusal(), nullptr);
}

TEST(error, of_the_operating_system_has_its_errno) {
  const auto line = source_location::current().line() + 1;
  const error raised = os_error("reading 8 bytes", EIO);

  EXPECT_EQ(raised.code(), errc::io);
  EXPECT_EQ(raised.error_number(), EIO);
  EXPECT_EQ(raised.message(), "reading 8 bytes: Input/output error (errno 5)");
  EXPECT_EQ(raised.where().line(), line);
  EXPECT_EQ(os_error("open", "/a/b", ENOENT).message(),
            "can't open '/a/b': No such file or directory (errno 2)");
  EXPECT_EQ(error(errc::io, "the file was truncated").error_number(), 0);
}

TEST(error, distinguishes_lack_of_memory_from_other_codes) {
  EXPECT_TRUE(is_lack_of_room(errc::budget_exceeded));
  EXPECT_TRUE(is_lack_of_room(errc::out_of_memory));
  for (const errc other :
       {errc::invalid_argument, errc::overflow, errc::device, errc::device_lost, errc::io}) {
    EXPECT_FALSE(is_lack_of_room(other)) << name_of(other);
  }
}

TEST(error, is_a_standard_exception) {
  EXPECT_TRUE((std::is_base_of_v<std::exception, error>));
  EXPECT_TRUE(std::is_nothrow_move_constructible_v<error>);
}

budget_refusal example() {
  budget_refusal refusal;
  refusal.layer = "cuda:0";
  refusal.requested = 1 << 20;
  refusal.current = 7 << 20;
  refusal.required = 8 << 20;
  refusal.limit = 15 << 19;
  refusal.remaining = 1 << 19;
  refusal.peak = 7 << 20;
  refusal.owners = {{"table", 5 << 20}, {"", 2 << 20}};
  return refusal;
}

TEST(error, of_a_refused_budget_has_all_numbers) {
  const error refused(example());

  EXPECT_EQ(refused.code(), errc::budget_exceeded);
  EXPECT_EQ(refused.message(),
            "budget of cuda:0 refused 1048576 bytes (1 MiB): current 7340032 + requested = 8388608, "
            "limit 7864320 (7.5 MiB), remaining 524288, peak 7340032; live: table 5242880, "
            "(untagged) 2097152");
  ASSERT_NE(refused.refusal(), nullptr);
  EXPECT_EQ(refused.refusal()->limit, 7864320u);
  EXPECT_EQ(refused.refusal()->owners.size(), 2u);
}

TEST(error, of_a_refused_budget_lists_its_own_holders_before_those_of_sibling_budgets) {
  budget_refusal refusal = example();
  refusal.levels_above = 1;
  refusal.owners = {{"mine", 2 << 20}};
  refusal.others = {{"theirs", 4 << 20}, {"more", 1 << 20}};
  EXPECT_TRUE(error(refusal).message().ends_with(
      "; live: mine 2097152; held by others: theirs 4194304, more 1048576"))
      << error(refusal).message();
}

TEST(error, of_a_refused_budget_tells_the_bytes_kept_for_waiting_requests) {
  budget_refusal refusal = example();
  refusal.reserved = 20;
  refusal.kept = 15;
  const std::string message = error(refusal).message();
  EXPECT_NE(message.find("+ reserved 20 (15 of them kept for requests that wait in line) + requested"),
            std::string::npos)
      << message;
}

TEST(error, of_a_refused_budget_names_the_largest_of_many_tags_and_counts_the_rest) {
  budget_refusal refusal;
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    refusal.owners.emplace_back("tag " + std::to_string(i), 10'000 - i);
  }
  const error refused(refusal);
  EXPECT_NE(refused.message().find("live: tag 0 10000, tag 1 9999"), std::string::npos);
  EXPECT_TRUE(refused.message().ends_with("tag 15 9985 and 9984 more")) << refused.message();
  EXPECT_EQ(refused.refusal()->owners.size(), 10'000U);
}

TEST(error, of_a_refused_budget_is_exact_past_64_bits) {
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  budget_refusal refusal;
  refusal.requested = most;
  refusal.current = most;
  refusal.required = uint128{most} + most;

  const error refused(std::move(refusal));

  EXPECT_NE(refused.message().find("current 18446744073709551615 + requested = 36893488147419103230"),
            std::string::npos)
      << refused.message();
}

TEST(error, copies_share_the_refusal) {
  const error refused(example());
  const error copy(
      refused); // NOLINT(performance-unnecessary-copy-initialization): the copy is what is tested

  EXPECT_EQ(copy.refusal(), refused.refusal());
  EXPECT_EQ(copy.message(), refused.message());
}

TEST(error, codes_have_unique_names) {
  std::set<std::string_view> names;
  for (int code = 0; code <= static_cast<int>(errc::column_name); ++code) {
    EXPECT_TRUE(names.insert(name_of(static_cast<errc>(code))).second) << code;
  }
  EXPECT_FALSE(names.contains("unknown"));
  EXPECT_EQ(name_of(errc::out_of_memory), "out_of_memory");
  EXPECT_EQ(name_of(static_cast<errc>(1000)), "unknown");
}

} // namespace
} // namespace saeta
