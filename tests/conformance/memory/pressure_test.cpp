// What is done for a request that does not fit (saeta/memory/pressure.hpp): each step, its place, and that it can be
// left out.
#include "conformance/harness/context_test.hpp"
#include "saeta/base/error.hpp"
#include "saeta/observe/sinks/log_sinks.hpp"
#include "support/interrupts.hpp"

#include <atomic>

namespace saeta::conformance {
namespace {

class pressure_steps : public context_test {
protected:
  static constexpr std::uint64_t room = 1 << 20;

  void SetUp() override {} // each test has a context with a policy of its own

  [[nodiscard]] std::shared_ptr<context> with(std::string_view stack, const pressure_policy& policy) {
    context_options options;
    options.budget = room;
    options.pressure = policy;
    parse_stack(stack, options.memory);
    return new_context(options);
  }
  [[nodiscard]] static buffer take(const std::shared_ptr<context>& from, std::size_t bytes) {
    return buffer::allocate(from, bytes, from->work_stream(), "test");
  }
  static void expect_refused(const std::shared_ptr<context>& from, std::size_t bytes) {
    try {
      static_cast<void>(take(from, bytes));
      ADD_FAILURE() << bytes << " bytes found room";
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::budget_exceeded) << e.what();
    }
  }
  [[nodiscard]] static std::vector<memory_event> kinds(const memory_sink& sink) {
    std::vector<memory_event> seen;
    for (const log_record& each : sink.records()) {
      seen.push_back(each.event);
    }
    return seen;
  }
  /// A buffer of most of the budget that is dropped while a stream behind a gate still writes it.
  [[nodiscard]] std::unique_ptr<gate> drop_pending(const std::shared_ptr<context>& from, stream_ref writer) {
    const buffer dropped = take(from, room - 64);
    auto held = close_gate(writer.native_handle());
    use_token token(writer, {writes(dropped)});
    from->copies().fill(token.mutable_data<char>(dropped), 1, dropped.size(), writer);
    return held;
  }
};

TEST_P(pressure_steps, a_request_waits_for_pending_releases) {
  const auto home = with("logging, budget, direct", {.release_wait = std::chrono::minutes(5)});
  const auto writer = home->borrow_stream();
  const auto held = drop_pending(home, writer.ref());
  std::atomic<bool> waits{false};
  const support::interrupts hook([&] { // asked once the request waits
    if (held) {
      held->open();
    }
    waits = true;
  });
  EXPECT_EQ(take(home, room).size(), room);
  EXPECT_EQ(waits, held != nullptr);
  EXPECT_EQ(home->reports().statistics().budget.refused, 0U);
}

TEST_P(pressure_steps, a_policy_that_waits_for_no_release_refuses_while_one_is_pending) {
  const auto home =
      with("budget, direct", {.drain = true, .release_wait = std::chrono::milliseconds(0), .trim = true});
  const auto writer = home->borrow_stream();
  const auto held = drop_pending(home, writer.ref());
  if (!held) {
    GTEST_SKIP() << nothing_pends;
  }
  EXPECT_EQ(home->reports().statistics().pending_releases, 1U);
  expect_refused(home, room);
  EXPECT_EQ(home->reports().statistics().budget.current, room - 64) << "charged until the work has finished";
  held->open();
  EXPECT_TRUE(home->wait_for_releases(std::chrono::minutes(5)));
  EXPECT_EQ(take(home, room).size(), room);
}

TEST_P(pressure_steps, a_drain_is_logged_with_the_number_of_its_releases) {
  context_options options;
  options.budget = room;
  options.releases = release_thread::none;
  parse_stack("logging, budget, direct", options.memory);
  const auto home = new_context(options);
  const auto sink = std::make_shared<memory_sink>();
  home->reports().log()->attach(sink);
  const auto writer = home->borrow_stream();
  const auto held = drop_pending(home, writer.ref());
  EXPECT_EQ(home->drain(), 0U);
  std::vector<memory_event> expected{memory_event::allocate, memory_event::free};
  if (held) {
    held->open();
    home->synchronize(writer.ref());
    EXPECT_EQ(home->drain(), 1U);
    expected.push_back(memory_event::drain);
    EXPECT_EQ(sink->records().back().bytes, 1U);
  }
  EXPECT_EQ(kinds(*sink), expected);
  home->reports().log()->detach(sink);
}

TEST_P(pressure_steps, what_is_kept_for_nothing_is_trimmed_unless_the_policy_says_no) {
  for (const bool trims : {true, false}) {
    const auto home = with("guard, budget, direct", {.trim = trims}); // quarantined blocks are charged
    static_cast<void>(take(home, room / 2));
    EXPECT_GE(home->reports().statistics().budget.current, room / 2) << "in quarantine";
    if (trims) {
      EXPECT_EQ(take(home, room - 4096).size(), room - 4096);
      EXPECT_EQ(home->reports().statistics().budget.refused, 0U);
    } else {
      expect_refused(home, room - 4096);
    }
    home->trim();
    EXPECT_EQ(home->reports().statistics().budget.current, 0U);
  }
}

TEST_P(pressure_steps, a_refusal_of_a_child_leaves_the_cache_of_the_device_to_its_neighbours) {
  const auto home = with("budget, caching", {});
  const auto child = watch(home->with_budget("child", 1000));
  const auto live = [&] { // of a neighbour, who comes back to the same sizes
    for (const std::size_t bytes : {std::size_t{100}, std::size_t{5000}, std::size_t{70'000}, room / 4}) {
      static_cast<void>(take(home, bytes));
    }
  };
  live();
  const caching_statistics warm = home->memory().cache->statistics();
  for (int round = 0; round < 10; ++round) {
    expect_refused(child, 1001);
    live();
  }
  EXPECT_EQ(home->memory().cache->statistics().upstream_allocations, warm.upstream_allocations);
  EXPECT_EQ(home->memory().cache->statistics().held, warm.held)
      << "given back, although it makes no room in a budget";
}

TEST_P(pressure_steps, hooks_come_after_trimming_and_before_the_refusal) {
  const auto home = with("logging, guard, budget, direct", {});
  const auto sink = std::make_shared<memory_sink>();
  home->reports().log()->attach(sink);
  std::uint64_t kept_when_asked = 1;
  const auto hook = home->add_pressure_hook("spill", 0, [&](std::uint64_t) {
    kept_when_asked = home->reports().statistics().budget.current;
    return std::uint64_t{0};
  });
  const buffer held = take(home, room / 2);
  static_cast<void>(take(home, 1000));
  expect_refused(home, room / 2);
  home->reports().log()->detach(sink);
  EXPECT_EQ(kept_when_asked, home->reports().statistics().budget.current) << "of the held block alone";
  using enum memory_event;
  EXPECT_EQ(kinds(*sink), (std::vector<memory_event>{allocate, allocate, free, trim, relief, refuse}));
}

TEST_P(pressure_steps, hooks_are_left_alone_where_the_policy_says_so) {
  const auto home = with("budget", {.hooks = false});
  int asked = 0;
  const auto hook = home->add_pressure_hook("spill", 0, [&](std::uint64_t) {
    ++asked;
    return std::uint64_t{1};
  });
  expect_refused(home, room + 1);
  EXPECT_EQ(asked, 0);
}

TEST_P(pressure_steps, a_request_that_waits_in_vain_is_refused_and_leaves_the_line) {
  const auto home = with("budget", {.wait = std::chrono::milliseconds(1)});
  const buffer most = take(home, room - 100);
  expect_refused(home, 101);
  EXPECT_EQ(home->memory_budget()->waiting(), 0U);
  EXPECT_EQ(home->reports().statistics().budget.refused, 1U);
  EXPECT_EQ(home->reports().statistics().budget.current, room - 100);
  EXPECT_EQ(take(home, 100).size(), 100U);
}

SAETA_CONFORMANCE_SUITE(pressure_steps);

} // namespace
} // namespace saeta::conformance
