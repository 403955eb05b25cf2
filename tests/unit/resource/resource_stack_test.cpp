#include "saeta/backend/host/host_backend.hpp"
#include "saeta/base/error.hpp"
#include "saeta/observe/sinks/log_sinks.hpp"
#include "saeta/resource/driver/driver_resources.hpp"
#include "saeta/resource/stack.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace saeta {
namespace {

using ::testing::HasSubstr;
using layers = std::vector<decorator_kind>;

stack_options parsed(std::string_view text) {
  stack_options options;
  parse_stack(text, options);
  return options;
}

template <class Action>
void expect_refused(Action action, const std::string& names) {
  try {
    action();
    ADD_FAILURE() << "accepted: " << names;
  } catch (const error& refused) {
    EXPECT_EQ(refused.code(), errc::invalid_argument);
    EXPECT_THAT(refused.message(), HasSubstr(names));
  }
}

class resource_stack_test : public ::testing::Test {
protected:
  [[nodiscard]] stack_parts parts() const {
    return {.device = device, .limit = limit, .log = log, .make_room = {}};
  }
  /// Allocates and frees 1000 bytes. Returns the bytes that the budget was charged; checks that they are
  /// refunded.
  std::uint64_t charged_for_1000(const resource_stack& stack) {
    const block made = stack.top->allocate(1000, 0, work.ref());
    const std::uint64_t charged = limit->statistics().current;
    EXPECT_TRUE(stack.top->deallocate(made, work.ref()));
    stack.top->trim();
    EXPECT_EQ(limit->statistics().current, 0u);
    return charged;
  }

  std::shared_ptr<backend> device = make_host_backend();
  stream work{device};
  std::shared_ptr<budget> limit = budget::create("host", 1 << 20);
  std::shared_ptr<event_log> log = std::make_shared<event_log>();
};

TEST(stack_text, is_printed_as_it_is_parsed) {
  for (const std::string text :
       {"logging, budget, caching", "logging, statistics, budget, guard, fault, async", "direct",
        "budget, direct", "guard, budget, caching", "budget, caching, direct"}) {
    EXPECT_EQ(to_string(parsed(text)), text);
  }
  EXPECT_EQ(to_string(stack_options{}), "logging, budget, caching");
}

TEST(stack_text, is_parsed_with_any_blanks_and_a_default_base) {
  const stack_options options = parsed(" budget,guard ,\tasync ");
  EXPECT_EQ(options.layers, (layers{decorator_kind::budget, decorator_kind::guard}));
  EXPECT_EQ(options.base, resource_kind::async);

  stack_options kept;
  kept.base = resource_kind::direct;
  parse_stack("statistics", kept);
  EXPECT_EQ(kept.layers, layers{decorator_kind::statistics});
  EXPECT_EQ(kept.base, resource_kind::direct);
  EXPECT_EQ(to_string(parsed("caching,async")), "caching");
}

TEST(stack_text, with_an_unknown_word_is_refused_without_a_change) {
  for (const auto& [text, word] :
       std::vector<std::pair<std::string, std::string>>{{"", "''"},
                                                        {"budget,", "''"},
                                                        {"logging,,budget", "''"},
                                                        {"budget, pool", "'pool'"},
                                                        {"Budget", "'Budget'"},
                                                        {"async, budget", "'async'"},
                                                        {"async, caching", "'async'"},
                                                        {"caching, caching", "'caching'"},
                                                        {"caching, direct, async", "'caching'"},
                                                        {"guard, budget, guard", "'guard'"},
                                                        {"budget, budget", "'budget'"}}) {
    stack_options options;
    options.layers = {decorator_kind::fault};
    options.base = resource_kind::direct;
    expect_refused([&, &refused = text] { parse_stack(refused, options); }, word);
    EXPECT_EQ(to_string(options), "fault, direct") << text;
  }
}

TEST_F(resource_stack_test, caches_all_sizes_if_frees_would_synchronise) {
  constexpr std::size_t large = std::size_t{300} << 20;
  limit->set_limit(2 * large);
  for (const auto& [text, kept] : std::vector<std::pair<std::string, bool>>{
           {"budget, caching", false}, {"budget, caching, direct", true}}) {
    const resource_stack stack = build_stack(parsed(text), parts());
    EXPECT_TRUE(stack.top->deallocate(stack.top->allocate(large, 0, work.ref()), work.ref()));
    EXPECT_EQ(stack.cache->held_bytes() >= large, kept) << text;
    stack.top->trim();
    EXPECT_EQ(stack.cache->held_bytes(), 0u);
  }
}

TEST_F(resource_stack_test, has_the_requested_decorators) {
  const resource_stack plain = build_stack(parsed("budget, direct"), parts());
  EXPECT_EQ(plain.cache, nullptr);
  EXPECT_EQ(plain.guard, nullptr);
  EXPECT_EQ(plain.statistics, nullptr);
  EXPECT_EQ(plain.fault, nullptr);

  const resource_stack full =
      build_stack(parsed("logging, statistics, budget, guard, fault, caching"), parts());
  EXPECT_NE(full.cache, nullptr);
  EXPECT_NE(full.guard, nullptr);
  EXPECT_NE(full.statistics, nullptr);
  EXPECT_NE(full.fault, nullptr);
}

TEST_F(resource_stack_test, is_stream_ordered_like_its_base_unless_it_has_a_guard) {
  const own_stream on(timelines::of(*device));
  const auto order_of = [&](const char* text, std::size_t bytes) {
    const resource_stack stack = build_stack(parsed(text), parts());
    const block made = stack.top->allocate(bytes, 0, on.ref());
    EXPECT_TRUE(stack.top->deallocate(made, on.ref()));
    return made.order;
  };
  EXPECT_EQ(order_of("budget, direct", 100), release_order::when_complete);
  EXPECT_EQ(order_of("budget, async", 100), release_order::in_stream_order);
  EXPECT_EQ(order_of("budget, caching", 100), release_order::in_stream_order);
  EXPECT_EQ(order_of("budget, guard, direct", 100), release_order::in_stream_order);
  stack_options large_blocks_beyond = parsed("budget, caching");
  large_blocks_beyond.slabs_from = resource_kind::direct;
  large_blocks_beyond.caching.largest_small = 4096;
  large_blocks_beyond.caching.largest_cached = 4096;
  const resource_stack stack = build_stack(large_blocks_beyond, parts());
  const block beyond = stack.top->allocate(large_blocks_beyond.caching.largest_cached + 1, 0, on.ref());
  EXPECT_EQ(beyond.order, release_order::when_complete) << "its free would wait for the device";
  EXPECT_TRUE(stack.top->deallocate(beyond, on.ref()));
}

TEST_F(resource_stack_test, charges_the_requested_bytes_unless_a_guard_is_above_the_budget) {
  for (const std::string text : {"direct", "logging, statistics, async", "guard, direct",
                                 "logging, guard, async", "statistics, fault, guard, caching"}) {
    EXPECT_EQ(charged_for_1000(build_stack(parsed(text), parts())), 1000u) << text;
  }
  EXPECT_EQ(charged_for_1000(build_stack(parsed("guard, budget, direct"), parts())), 1000u + 2 * 256)
      << "below the guard, the budget sees the canaries";
}

TEST_F(resource_stack_test, logs_refusals_by_default_and_frees_everything) {
  const auto seen = std::make_shared<memory_sink>();
  log->attach(seen);
  const resource_stack stack = build_stack({}, parts());
  EXPECT_THROW(static_cast<void>(stack.top->allocate(2 << 20, 0, work.ref())), error);
  ASSERT_EQ(seen->records().size(), 1u);
  EXPECT_EQ(seen->records()[0].event, memory_event::refuse);
}

TEST_F(resource_stack_test, supports_a_custom_base) {
  const auto base = std::make_shared<direct_resource>(device);
  stack_options options;
  options.custom_base = [&](const std::shared_ptr<backend>& given) {
    EXPECT_EQ(given, device);
    return base;
  };
  EXPECT_EQ(to_string(options), "logging, budget");
  const resource_stack stack = build_stack(options, parts());
  EXPECT_EQ(stack.cache, nullptr);
  const block made = stack.top->allocate(100, 0, work.ref());
  EXPECT_GE(base->held_bytes(), 100u);
  EXPECT_TRUE(stack.top->deallocate(made, work.ref()));
  EXPECT_EQ(base->held_bytes(), 0u);
}

TEST_F(resource_stack_test, supports_a_custom_source_of_slabs) {
  const auto below = std::make_shared<direct_resource>(device);
  stack_options options;
  options.custom_slabs = [&](const std::shared_ptr<backend>& given) {
    EXPECT_EQ(given, device);
    return below;
  };
  EXPECT_EQ(to_string(options), "logging, budget, caching");
  const resource_stack stack = build_stack(options, parts());
  const block made = stack.top->allocate(100, 0, work.ref());
  EXPECT_EQ(below->held_bytes(), stack.cache->held_bytes());
  EXPECT_GT(below->held_bytes(), 100u);
  EXPECT_TRUE(stack.top->deallocate(made, work.ref()));
  EXPECT_GT(below->held_bytes(), 100u) << "the cache keeps it";
  stack.top->trim();
  EXPECT_EQ(below->held_bytes(), 0u);
}

TEST_F(resource_stack_test, refuses_invalid_options) {
  stack_options twice;
  twice.layers = {decorator_kind::budget, decorator_kind::guard, decorator_kind::budget};
  expect_refused([&] { static_cast<void>(build_stack(twice, parts())); }, "'budget'");

  stack_options on_itself;
  on_itself.slabs_from = resource_kind::caching;
  expect_refused([&] { static_cast<void>(build_stack(on_itself, parts())); }, "'caching'");

  stack_options nothing;
  nothing.custom_base = [](const auto&) { return nullptr; };
  expect_refused([&] { static_cast<void>(build_stack(nothing, parts())); }, "custom base");

  stack_options without_cache = parsed("budget, direct");
  without_cache.custom_slabs = nothing.custom_base;
  expect_refused([&] { static_cast<void>(build_stack(without_cache, parts())); }, "is direct");
  without_cache.base = resource_kind::caching;
  expect_refused([&] { static_cast<void>(build_stack(without_cache, parts())); }, "slab source");
  without_cache.custom_base = [&](const auto&) { return std::make_shared<direct_resource>(device); };
  expect_refused([&] { static_cast<void>(build_stack(without_cache, parts())); }, "is custom");
}

TEST_F(resource_stack_test, refuses_null_arguments) {
  stack_parts missing = parts();
  missing.log = nullptr;
  expect_refused([&] { static_cast<void>(build_stack(parsed("logging, direct"), missing)); }, "event log");
  EXPECT_NO_THROW(static_cast<void>(build_stack(parsed("budget, direct"), missing)));
  missing.limit = nullptr;
  expect_refused([&] { static_cast<void>(build_stack(parsed("budget, direct"), missing)); }, "budget");
  missing.device = nullptr;
  expect_refused([&] { static_cast<void>(build_stack(parsed("budget, direct"), missing)); }, "device");
}

TEST_F(resource_stack_test, requires_the_exportable_pool_as_its_base) {
  for (const char* const text : {"budget, direct", "budget, caching"}) {
    stack_options options = parsed(text);
    options.exportable_pool = true;
    options.slabs_from = resource_kind::direct;
    expect_refused([&] { static_cast<void>(build_stack(options, parts())); }, "exportable pool");
  }
  stack_options custom;
  custom.exportable_pool = true;
  custom.custom_slabs = [](const std::shared_ptr<backend>& on) {
    return std::make_shared<direct_resource>(on);
  };
  expect_refused([&] { static_cast<void>(build_stack(custom, parts())); }, "exportable pool");
}

} // namespace
} // namespace saeta
