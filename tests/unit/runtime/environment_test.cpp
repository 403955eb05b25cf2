#include "saeta/base/error.hpp"
#include "saeta/runtime/environment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>

namespace saeta {
namespace {

using ::testing::HasSubstr;

/// The environment variables that the lookup below returns.
std::map<std::string, std::string>& variables() {
  static std::map<std::string, std::string> all;
  return all;
}

const char* find(const char* name) {
  const auto found = variables().find(name);
  return found == variables().end() ? nullptr : found->second.c_str();
}

class environment_test : public ::testing::Test {
protected:
  static constexpr std::uint64_t device_bytes = 80ULL << 30;

  void TearDown() override { variables().clear(); }

  static environment_options with(const std::string& name, const std::string& text) {
    variables() = {{name, text}};
    return read_environment(device_bytes, find);
  }
  static void expect_refused(const std::string& name, const std::string& text, const std::string& expected) {
    try {
      static_cast<void>(with(name, text));
      ADD_FAILURE() << name << "=" << text << " was accepted";
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::invalid_argument);
      EXPECT_THAT(e.message(), HasSubstr(name + "='" + text + "'"));
      EXPECT_THAT(e.message(), HasSubstr(expected));
    }
  }
};

TEST_F(environment_test, without_variables_the_defaults_apply) {
  const environment_options options = read_environment(device_bytes, find);
  EXPECT_EQ(options.budget, budget::unlimited);
  EXPECT_EQ(options.memory.base, resource_kind::caching);
  EXPECT_EQ(options.wait.count(), 0);
  EXPECT_TRUE(options.log.empty());
  EXPECT_EQ(options.staging.threads, 0U);
  EXPECT_EQ(options.staging.pinned_bytes, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(options.host_cache, std::nullopt);
}

TEST_F(environment_test, a_budget_is_bytes_or_a_share_of_the_device) {
  EXPECT_EQ(with("SAETA_BUDGET", "8GiB").budget, 8ULL << 30);
  EXPECT_EQ(with("SAETA_BUDGET", "50%").budget, 40ULL << 30);
  EXPECT_EQ(with("SAETA_BUDGET", "0").budget, 0U);
}

TEST_F(environment_test, the_resource_is_chosen_by_name) {
  EXPECT_EQ(with("SAETA_RESOURCE", "direct").memory.base, resource_kind::direct);
  EXPECT_EQ(with("SAETA_RESOURCE", "async").memory.base, resource_kind::async);
  EXPECT_EQ(with("SAETA_RESOURCE", "caching").memory.base, resource_kind::caching);
}

TEST_F(environment_test, the_stack_is_a_list_of_words) {
  const stack_options stack = with("SAETA_STACK", "statistics, budget, guard, direct").memory;
  const std::vector<decorator_kind> expected{decorator_kind::statistics, decorator_kind::budget,
                                             decorator_kind::guard};
  EXPECT_EQ(stack.layers, expected);
  EXPECT_EQ(stack.base, resource_kind::direct);
}

TEST_F(environment_test, a_quarantine_size_enables_the_guard) {
  const stack_options stack = with("SAETA_GUARD", "1MiB").memory;
  EXPECT_EQ(stack.guard.quarantine, 1U << 20);
  EXPECT_EQ(stack.layers.back(), decorator_kind::guard);
}

TEST_F(environment_test, the_release_threshold_of_the_drivers_pool_can_be_set) {
  EXPECT_EQ(with("SAETA_POOL_THRESHOLD", "1GiB").memory.pool_threshold, 1U << 30);
}

TEST_F(environment_test, a_request_may_wait_and_events_may_be_logged) {
  EXPECT_EQ(with("SAETA_BUDGET_WAIT", "1500").wait.count(), 1500);
  const std::vector<std::string> expected{"csv:a.csv", "trace:b.json"};
  EXPECT_EQ(with("SAETA_LOG", "csv:a.csv;trace:b.json").log, expected);
}

TEST_F(environment_test, the_staging_ring_has_threads_and_pinned_bytes) {
  EXPECT_EQ(with("SAETA_RECORD", "16777216").recorded, 16777216U);
  EXPECT_EQ(with("SAETA_STAGING_THREADS", "6").staging.threads, 6U);
  EXPECT_EQ(with("SAETA_STAGING_PINNED", "64 MiB").staging.pinned_bytes, 64U << 20);
}

TEST_F(environment_test, an_empty_variable_is_not_set) {
  for (const char* const name :
       {"SAETA_BUDGET", "SAETA_RESOURCE", "SAETA_STACK", "SAETA_GUARD", "SAETA_POOL_THRESHOLD",
        "SAETA_BUDGET_WAIT", "SAETA_LOG", "SAETA_RECORD", "SAETA_STAGING_THREADS", "SAETA_STAGING_PINNED",
        "SAETA_HOST_CACHE", "SAETA_SPILL_DIR", "SAETA_SPILL_PINNED", "SAETA_SPILL_PAGEABLE",
        "SAETA_SPILL_FILES", "SAETA_SPILL_COMPRESS"}) {
    EXPECT_NO_THROW(static_cast<void>(with(name, ""))) << name;
  }
}

TEST_F(environment_test, a_bad_value_is_refused_with_its_name_and_text) {
  expect_refused("SAETA_BUDGET", "much", "expected a number with an optional unit");
  expect_refused("SAETA_BUDGET", "120%", "expected a number with an optional unit");
  expect_refused("SAETA_BUDGET", "1e30GiB", "more than 2^64-1");
  expect_refused("SAETA_RESOURCE", "pool", "expected caching, async or direct");
  expect_refused("SAETA_STACK", "budget, shield", "shield");
  expect_refused("SAETA_GUARD", "yes", "expected a number with an optional unit");
  expect_refused("SAETA_BUDGET_WAIT", "soon", "0 to 86400000");
  expect_refused("SAETA_LOG", "xml:a", "expected csv:PATH");
  for (const char* const without_path : {"csv:", "csv", "jsonl:", "trace:", "csv:a;trace:", "csv:;trace:b"}) {
    expect_refused("SAETA_LOG", without_path, "expected csv:PATH");
  }
  expect_refused("SAETA_RECORD", "16777217", "0 to 16777216");
  expect_refused("SAETA_STAGING_THREADS", "-1", "0 to 256");
  expect_refused("SAETA_STAGING_THREADS", "257", "0 to 256");
  expect_refused("SAETA_STAGING_THREADS", "4 ", "0 to 256");
  expect_refused("SAETA_STAGING_PINNED", "1KiB", "at least 1 MiB");
  expect_refused("SAETA_STAGING_PINNED", "50%", "expected a number with an optional unit");
}

TEST_F(environment_test, values_up_to_the_limits_are_accepted) {
  EXPECT_EQ(with("SAETA_STAGING_THREADS", "0").staging.threads, 0U);
  EXPECT_EQ(with("SAETA_STAGING_THREADS", "256").staging.threads, 256U);
  EXPECT_EQ(with("SAETA_BUDGET_WAIT", "86400000").wait.count(), 86'400'000);
  expect_refused("SAETA_BUDGET_WAIT", "86400001", "0 to 86400000");
  EXPECT_EQ(with("SAETA_STAGING_PINNED", "1048576").staging.pinned_bytes, 1U << 20);
  expect_refused("SAETA_STAGING_PINNED", "1048575", "at least 1 MiB");
  EXPECT_EQ(with("SAETA_HOST_CACHE", "3MiB").host_cache, std::uint64_t{3} << 20);
  EXPECT_EQ(with("SAETA_HOST_CACHE", "0").host_cache, 0U);
  EXPECT_EQ(with("SAETA_SPILL_DIR", "/scratch").spill.folder, "/scratch");
  EXPECT_EQ(with("SAETA_SPILL_DIR", "scratch").spill.folder, std::filesystem::current_path() / "scratch");
  EXPECT_EQ(with("SAETA_SPILL_DIR", "").spill.folder, "");
  EXPECT_EQ(with("SAETA_SPILL_PINNED", "3MiB").spill.pinned, std::uint64_t{3} << 20);
  EXPECT_EQ(with("SAETA_SPILL_PAGEABLE", "0").spill.pageable, 0U);
  EXPECT_EQ(with("SAETA_SPILL_FILES", "1GiB").spill.files, std::uint64_t{1} << 30);
  EXPECT_EQ(with("SAETA_SPILL_FILES", "").spill.files, spill_options::unlimited);
  EXPECT_TRUE(with("SAETA_SPILL_COMPRESS", "1").spill.compress);
  EXPECT_FALSE(with("SAETA_SPILL_COMPRESS", "0").spill.compress);
  EXPECT_GT(with("SAETA_HOST_CACHE", "1%").host_cache, std::uint64_t{1} << 20);
}

TEST_F(environment_test, a_number_beyond_64_bits_is_refused) {
  expect_refused("SAETA_STAGING_THREADS", "99999999999999999999", "0 to 256");
}

TEST_F(environment_test, percentages_are_accepted_only_for_sizes_relative_to_the_device) {
  EXPECT_EQ(with("SAETA_POOL_THRESHOLD", "50%").memory.pool_threshold, 40ULL << 30);
  expect_refused("SAETA_GUARD", "50%", "expected a number with an optional unit");
}

TEST_F(environment_test, a_guard_in_the_stack_keeps_its_position) {
  variables() = {{"SAETA_STACK", "guard, budget"}, {"SAETA_GUARD", "1MiB"}};
  const std::vector<decorator_kind> expected{decorator_kind::guard, decorator_kind::budget};
  EXPECT_EQ(read_environment(device_bytes, find).memory.layers, expected);
}

TEST_F(environment_test, every_kind_of_log_is_accepted_in_a_list) {
  const std::vector<std::string> expected{"jsonl:c", "csv:a"};
  EXPECT_EQ(with("SAETA_LOG", "jsonl:c;csv:a;").log, expected);
  EXPECT_EQ(with("SAETA_LOG", "trace:t").log, std::vector<std::string>{"trace:t"});
  expect_refused("SAETA_LOG", "csv:a;;csv:b", "expected csv:PATH, jsonl:PATH or trace:PATH");
}

} // namespace
} // namespace saeta
