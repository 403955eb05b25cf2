#include "saeta/backend/host/host_backend.hpp"
#include "saeta/base/error.hpp"
#include "saeta/memory/buffer.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/resource/driver/driver_resources.hpp"
#include "saeta/runtime/runtime.hpp"
#include "support/error_of.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <latch>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

namespace saeta {
namespace {

using ::testing::HasSubstr;

constexpr device_id host{device_kind::cpu, 0};

/// Sets an environment variable until the end of the scope. No other thread may run meanwhile.
class scoped_variable {
public:
  scoped_variable(const char* name, const char* text) : name_(name) { ::setenv(name, text, 1); }
  scoped_variable(const scoped_variable&) = delete;
  scoped_variable& operator=(const scoped_variable&) = delete;
  ~scoped_variable() { ::unsetenv(name_); }

private:
  const char* name_;
};

class runtime_test : public ::testing::Test {
protected:
  /// Closes the host context of earlier tests, because the registry of contexts outlives them.
  void SetUp() override {
    if (const auto open = find_context(host)) {
      EXPECT_TRUE(open->close().empty()) << "an earlier test left memory behind";
    }
    ASSERT_EQ(find_context(host), nullptr);
  }
};

TEST_F(runtime_test, the_host_is_always_the_last_device) {
  const std::vector<device_entry> found = devices();
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found.back().id, host);
  EXPECT_GT(found.back().properties.total_bytes, 0U);
  EXPECT_FALSE(found.back().properties.name.empty());
  EXPECT_EQ(best_device(), found.front().id);
}

TEST_F(runtime_test, the_report_explains_why_cuda_is_unusable) {
  const runtime_report report = describe_runtime();
  EXPECT_EQ(report.built_with_cuda, SAETA_HAS_CUDA == 1);
  EXPECT_NE(report.cuda_usable, !report.cuda_missing.empty());
  EXPECT_EQ(report.cuda_usable, best_device().kind == device_kind::cuda);
  EXPECT_EQ(report.cuda_runtime.empty(), !report.built_with_cuda);
}

TEST_F(runtime_test, eight_racing_first_users_get_one_context) {
  constexpr std::size_t racers = 8;
  for (int round = 0; round < 50; ++round) {
    SetUp();
    std::array<std::shared_ptr<context>, racers> got;
    std::latch start(racers);
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < racers; ++i) {
      threads.emplace_back([&, i] {
        start.arrive_and_wait();
        got[i] = open_context(host);
      });
    }
    threads.clear();
    ASSERT_NE(got[0], nullptr);
    EXPECT_TRUE(std::all_of(got.begin(), got.end(), [&](const auto& c) { return c == got[0]; }));
    EXPECT_EQ(find_context(host), got[0]);
  }
}

TEST_F(runtime_test, an_unknown_device_is_refused_with_the_available_ones) {
  const std::vector<std::pair<device_id, std::string>> unknown{
      {{device_kind::cuda, 1'000'000}, "cuda:1000000"},
      {{device_kind::cuda, -1}, "cuda:-1"},
      {{device_kind::cpu, 1}, "host:1"},
      {{device_kind::sim, 0}, "sim:0"}};
  for (const auto& [id, name] : unknown) {
    try {
      static_cast<void>(open_context(id));
      ADD_FAILURE() << name << " was opened";
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::device);
      EXPECT_THAT(e.message(), HasSubstr("no device " + name + ";"));
      EXPECT_THAT(e.message(), HasSubstr("available devices: " + to_string(best_device())));
      const bool with_reason = id.kind == device_kind::cuda && !describe_runtime().cuda_usable;
      EXPECT_EQ(e.message().ends_with(")"), with_reason) << e.message();
    }
    EXPECT_EQ(find_context(id), nullptr);
  }
}

TEST_F(runtime_test, the_error_for_a_cuda_device_explains_why_cuda_is_unusable) {
  const runtime_report report = describe_runtime();
  if (report.cuda_usable) {
    GTEST_SKIP() << "CUDA works here";
  }
  try {
    static_cast<void>(open_context({device_kind::cuda, 0}));
    ADD_FAILURE() << "cuda:0 was opened";
  } catch (const error& e) {
    EXPECT_THAT(e.message(), HasSubstr(report.cuda_missing));
  }
}

TEST_F(runtime_test, a_missing_device_has_no_description) {
  for (const std::int32_t ordinal : {-1, 0, 1'000'000}) {
    if (ordinal == 0 && describe_runtime().cuda_usable) {
      continue;
    }
    try {
      static_cast<void>(describe_device({device_kind::cuda, ordinal}));
      ADD_FAILURE() << ordinal << " was described";
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::device);
      EXPECT_THAT(e.message(), HasSubstr("there is no device cuda:" + std::to_string(ordinal) + ";"));
    }
  }
  EXPECT_EQ(describe_device(host).name, devices().back().properties.name);
}

TEST_F(runtime_test, a_context_of_its_own_needs_no_other_context) {
  context_options options;
  options.budget = 4096;
  const auto own = context::create(host_backend(), options);
  EXPECT_EQ(own->device(), host);
  EXPECT_NE(own, open_context(host));
  EXPECT_EQ(own->allocate<float>(1024).size(), 4096U);
  if (!describe_runtime().cuda_usable) {
    const error missing = support::error_of([] { static_cast<void>(cuda_backend(0)); });
    EXPECT_EQ(missing.code(), errc::device);
    EXPECT_THAT(missing.message(), HasSubstr("there is no device cuda:0;"));
  } else {
    EXPECT_EQ(cuda_backend(0)->device(), (device_id{device_kind::cuda, 0}));
  }
  EXPECT_EQ(support::error_of([] { static_cast<void>(cuda_backend(-1)); }).code(), errc::device);
}

TEST_F(runtime_test, an_open_context_accepts_the_same_budget_or_none) {
  const auto ctx = open_context(host, 1000);
  EXPECT_EQ(ctx->reports().statistics().budget.limit, 1000U);
  EXPECT_EQ(open_context(host), ctx);
  EXPECT_EQ(open_context(host, 1000), ctx);
  EXPECT_EQ(ctx->reports().statistics().budget.limit, 1000U);
}

TEST_F(runtime_test, a_budget_for_an_open_context_becomes_its_limit) {
  const auto ctx = open_context(host);
  EXPECT_EQ(open_context(host, 5000), ctx);
  EXPECT_EQ(ctx->reports().statistics().budget.limit, 5000U);
  EXPECT_EQ(open_context(host, 100 << 20), ctx);
  EXPECT_EQ(ctx->reports().statistics().budget.limit, 100U << 20);
}

TEST_F(runtime_test, a_budget_below_what_is_in_use_is_refused_with_the_numbers) {
  const auto ctx = open_context(host, 1 << 20);
  const auto child = ctx->with_budget("child", 1 << 20);
  const buffer held = buffer::allocate(child, 5000, child->work_stream(), "held");
  const std::uint64_t used = ctx->memory_budget()->statistics().current;
  try {
    static_cast<void>(open_context(host, used - 1));
    ADD_FAILURE() << "the budget is smaller than what is in use";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::invalid_argument);
    EXPECT_THAT(e.message(), HasSubstr(std::to_string(used - 1)));
    EXPECT_THAT(e.message(), HasSubstr(std::to_string(used) + " bytes are live"));
  }
  EXPECT_EQ(ctx->reports().statistics().budget.limit, 1U << 20);
  EXPECT_EQ(open_context(host, used), ctx);
  EXPECT_EQ(ctx->reports().statistics().budget.limit, used);
  EXPECT_EQ(child->memory_budget()->limit(), 1U << 20);
}

TEST_F(runtime_test, an_option_that_is_refused_leaves_the_budget) {
  const auto ctx = open_context(host, 1 << 20);
  EXPECT_THROW(static_cast<void>(open_context(host, open_options{2 << 20, "budget, direct"})), error);
  EXPECT_EQ(ctx->reports().statistics().budget.limit, 1U << 20);
}

TEST_F(runtime_test, the_environment_sets_the_staging_options) {
  const scoped_variable threads("SAETA_STAGING_THREADS", "3");
  const scoped_variable pinned("SAETA_STAGING_PINNED", "4MiB");
  const scoped_variable cache("SAETA_HOST_CACHE", "1MiB");
  const context_options& has = open_context(host)->options();
  EXPECT_EQ(has.staging.threads, 3U);
  EXPECT_EQ(has.staging.pinned_bytes, 4U << 20);
  EXPECT_EQ(has.host_cache, 1U << 20);
}

TEST_F(runtime_test, a_forked_child_gets_a_new_context) {
  const auto parents = open_context(host, 5000);
  const buffer live = buffer::allocate(parents, 4000, parents->work_stream());
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    const auto own = open_context(host);
    bool right = own != parents && parents->inherited() && !own->inherited() && own_context(parents) == own;
    right = right && own->reports().statistics().budget.limit == budget::unlimited;
    try {
      static_cast<void>(buffer::allocate(parents, 64, parents->work_stream()));
      right = false;
    } catch (const error& e) {
      right = right && e.code() == errc::device;
    }
    { const buffer dropped = buffer::allocate(own, 1 << 20, own->work_stream()); }
    ::_exit(right && own->reports().statistics().budget.current == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(open_context(host), parents);
}

TEST_F(runtime_test, the_environment_sets_the_default_budget) {
  const scoped_variable variable("SAETA_BUDGET", "3MiB");
  EXPECT_EQ(open_context(host)->reports().statistics().budget.limit, 3U << 20);
  open_context(host)->close();
  EXPECT_EQ(open_context(host, 77)->reports().statistics().budget.limit, 77U);
}

TEST_F(runtime_test, a_failed_creation_can_be_tried_again) {
  {
    const scoped_variable variable("SAETA_BUDGET", "plenty");
    EXPECT_THROW(static_cast<void>(open_context(host)), error);
    EXPECT_EQ(find_context(host), nullptr);
  }
  EXPECT_NE(open_context(host), nullptr);
}

TEST_F(runtime_test, a_closed_context_is_replaced) {
  const auto first = open_context(host);
  first->close();
  EXPECT_EQ(find_context(host), nullptr);
  const auto second = open_context(host);
  EXPECT_NE(second, first);
  EXPECT_FALSE(second->closed());
}

TEST_F(runtime_test, options_must_equal_those_of_an_open_context_or_be_left_out) {
  using std::chrono::milliseconds;
  const open_options chosen{.budget = 1000, .stack = "budget, direct", .wait = milliseconds(5)};
  const auto ctx = open_context(host, chosen);
  EXPECT_EQ(ctx->options().pressure.wait, milliseconds(5));
  EXPECT_EQ(to_string(ctx->options().memory), "budget, direct");
  EXPECT_EQ(open_context(host, chosen), ctx);
  EXPECT_EQ(open_context(host, {.wait = milliseconds(5)}), ctx);
  EXPECT_EQ(open_context(host, {.stack = "budget,direct"}), ctx) << "written in another way";
  EXPECT_EQ(open_context(host), ctx);
  const auto refused = [&](const open_options& other) {
    try {
      static_cast<void>(open_context(host, other));
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::invalid_argument);
      return e.message();
    }
    return std::string("not refused");
  };
  EXPECT_THAT(refused({.wait = milliseconds(6)}), HasSubstr("a wait of 5 ms, not 6 ms"));
  EXPECT_THAT(refused({.stack = "budget, async"}),
              HasSubstr("the stack 'budget, direct', not 'budget, async'"));
  EXPECT_THAT(
      refused({.slabs = [](const auto& device) { return std::make_shared<direct_resource>(device); }}),
      HasSubstr("the source of its memory"));
  EXPECT_THAT(refused({.exportable_pool = true}), HasSubstr("exists without an exportable pool"));
  EXPECT_EQ(open_context(host, {.exportable_pool = false}), ctx);
}

TEST_F(runtime_test, the_host_has_no_exportable_pool) {
  try {
    static_cast<void>(open_context(host, {.exportable_pool = true}));
    ADD_FAILURE() << "opened";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::unsupported) << e.message();
  }
  EXPECT_FALSE(open_context(host)->options().memory.exportable_pool);
}

TEST_F(runtime_test, slabs_come_from_the_chosen_resource) {
  std::shared_ptr<direct_resource> source;
  const auto ctx = open_context(host, {.stack = "budget, caching", .slabs = [&](const auto& device) {
                                         return source = std::make_shared<direct_resource>(device);
                                       }});
  const buffer taken = buffer::allocate(ctx, 1000, ctx->work_stream());
  ASSERT_NE(source, nullptr);
  EXPECT_GE(source->held_bytes(), 1000U);
}

TEST_F(runtime_test, host_memory_of_the_parent_can_be_read_in_a_forked_child) {
  const auto parents = open_context(host);
  const buffer rows = buffer::allocate(parents, 64, parents->work_stream());
  {
    use_token token(parents->work_stream(), {writes(rows)});
    parents->copies().fill(token.span<char>(rows).data(), 7, rows.size(), parents->work_stream());
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    bool right = false;
    try {
      const use_token token(parents->work_stream(), {reads(rows)});
      right = *token.span<const char>(rows).data() == 7;
    } catch (const error&) {
      right = false;
    }
    ::_exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(runtime_test, the_environment_sets_the_resource) {
  const scoped_variable variable("SAETA_STACK", "statistics, direct");
  EXPECT_EQ(to_string(open_context(host)->options().memory), "statistics, direct");
}

TEST_F(runtime_test, the_environment_sets_the_wait) {
  const scoped_variable variable("SAETA_BUDGET_WAIT", "7");
  EXPECT_EQ(open_context(host)->options().pressure.wait.count(), 7);
}

TEST_F(runtime_test, a_context_of_this_process_is_returned_unchanged) {
  const auto registered = open_context(host);
  EXPECT_EQ(own_context(registered), registered);
  const auto unregistered = context::create(make_host_backend());
  EXPECT_EQ(own_context(unregistered), unregistered);
}

TEST_F(runtime_test, a_child_context_of_a_parent_process_is_returned_unchanged) {
  const auto part = open_context(host)->with_budget("part", 1000);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    ::_exit(part->inherited() && own_context(part) == part ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

/// A temporary folder, which the destructor removes.
class scoped_folder {
public:
  scoped_folder() {
    std::string pattern = (std::filesystem::path(::testing::TempDir()) / "saeta-runtime-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) {
      throw error(errc::io, "no folder for the test");
    }
    path_ = pattern;
  }
  scoped_folder(const scoped_folder&) = delete;
  scoped_folder& operator=(const scoped_folder&) = delete;
  ~scoped_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::string text_of(const std::string& name) const {
    std::ifstream in(path_ / name);
    return {std::istreambuf_iterator<char>(in), {}};
  }

private:
  std::filesystem::path path_;
};

TEST_F(runtime_test, each_context_logs_to_its_own_files) {
  const scoped_folder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  {
    const scoped_variable variable("SAETA_LOG", "csv:memory.csv;jsonl:./events");
    const auto ctx = open_context(host);
    { const buffer logged = buffer::allocate(ctx, 1234, ctx->work_stream()); }
    ctx->reports().log()->flush();
    ctx->close();
  }
  std::filesystem::current_path(before);
  EXPECT_THAT(folder.text_of("memory-host.csv"), HasSubstr("1234"));
  EXPECT_THAT(folder.text_of("events-host"), HasSubstr("1234"));
}

TEST_F(runtime_test, the_log_of_a_forked_child_has_its_own_file_and_is_complete) {
  const scoped_folder folder;
  const scoped_variable variable("SAETA_LOG", ("csv:" + (folder.path() / "memory.csv").string()).c_str());
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    const auto ctx = open_context(host);
    { const buffer logged = buffer::allocate(ctx, 1234, ctx->work_stream()); }
    std::exit(0); // NOLINT(concurrency-mt-unsafe): exit handlers complete the file
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_THAT(folder.text_of("memory-host-" + std::to_string(child) + ".csv"), HasSubstr("1234"));
}

} // namespace
} // namespace saeta
