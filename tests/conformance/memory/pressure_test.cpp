// The steps of a context for a request that does not fit (saeta/memory/pressure.hpp): their effects, their
// order, and policies that disable them.
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

  void SetUp() override {} // each test makes a context with its own policy

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
  /// Allocates most of the budget and drops the buffer while a write to it is blocked by the returned gate.
  [[nodiscard]] std::unique_ptr<gate> drop_pending(const std::shared_ptr<context>& from, stream_ref writer) {
    const buffer dropped = take(from, room - 64);
    auto held = close_gate(writer.native_handle());
    use_token token(writer, {writes(dropped)});
    from->copies().fill(token.span<char>(dropped).data(), 1, dropped.size(), writer);
    return held;
  }
};

TEST_P(pressure_steps, a_request_waits_for_pending_releases) {
  const auto ctx = with("logging, budget, direct", {.release_wait = std::chrono::minutes(5)});
  const auto writer = ctx->borrow_stream();
  const auto held = drop_pending(ctx, writer.ref());
  std::atomic<bool> waits{false};
  const support::interrupts hook([&] { // called when the request waits
    if (held) {
      held->open();
    }
    waits = true;
  });
  EXPECT_EQ(take(ctx, room).size(), room);
  EXPECT_EQ(waits, held != nullptr);
  EXPECT_EQ(ctx->reports().statistics().budget.refused, 0U);
}

TEST_P(pressure_steps, without_a_wait_a_request_is_refused_while_a_release_is_pending) {
  const auto ctx = with("budget, direct", {.release_wait = std::chrono::milliseconds(0)});
  const auto writer = ctx->borrow_stream();
  const auto held = drop_pending(ctx, writer.ref());
  if (!held) {
    GTEST_SKIP() << nothing_pends;
  }
  EXPECT_EQ(ctx->reports().statistics().pending_releases, 1U);
  expect_refused(ctx, room);
  EXPECT_EQ(ctx->reports().statistics().budget.current, room - 64) << "charged until the work has finished";
  held->open();
  EXPECT_TRUE(ctx->wait_for_releases(std::chrono::minutes(5)));
  EXPECT_EQ(take(ctx, room).size(), room);
}

TEST_P(pressure_steps, a_drain_is_logged_with_the_number_of_its_releases) {
  context_options options;
  options.budget = room;
  options.releases = release_thread::none;
  parse_stack("logging, budget, direct", options.memory);
  const auto ctx = new_context(options);
  const auto sink = std::make_shared<memory_sink>();
  ctx->reports().log()->attach(sink);
  const auto writer = ctx->borrow_stream();
  const auto held = drop_pending(ctx, writer.ref());
  EXPECT_EQ(ctx->drain(), 0U);
  std::vector<memory_event> expected{memory_event::allocate, memory_event::free};
  if (held) {
    held->open();
    ctx->synchronize(writer.ref());
    EXPECT_EQ(ctx->drain(), 1U);
    expected.push_back(memory_event::drain);
    EXPECT_EQ(sink->records().back().bytes, 1U);
  }
  EXPECT_EQ(kinds(*sink), expected);
  ctx->reports().log()->detach(sink);
}

TEST_P(pressure_steps, unused_memory_is_trimmed) {
  const auto ctx = with("guard, budget, direct", {}); // quarantined blocks are charged
  static_cast<void>(take(ctx, room / 2));
  EXPECT_GE(ctx->reports().statistics().budget.current, room / 2) << "in quarantine";
  EXPECT_EQ(take(ctx, room - 4096).size(), room - 4096);
  EXPECT_EQ(ctx->reports().statistics().budget.refused, 0U);
  ctx->trim();
  EXPECT_EQ(ctx->reports().statistics().budget.current, 0U);
}

TEST_P(pressure_steps, a_refusal_of_a_child_does_not_trim_the_cache_of_its_siblings) {
  const auto ctx = with("budget, caching", {});
  const auto child = watch(ctx->with_budget("child", 1000));
  const auto live = [&] { // a sibling that repeatedly allocates the same sizes
    for (const std::size_t bytes : {std::size_t{100}, std::size_t{5000}, std::size_t{70'000}, room / 4}) {
      static_cast<void>(take(ctx, bytes));
    }
  };
  live();
  const caching_statistics warm = ctx->memory().cache->statistics();
  for (int round = 0; round < 10; ++round) {
    expect_refused(child, 1001);
    live();
  }
  EXPECT_EQ(ctx->memory().cache->statistics().upstream_allocations, warm.upstream_allocations);
  EXPECT_EQ(ctx->memory().cache->statistics().held, warm.held)
      << "given back, although it makes no room in a budget";
}

TEST_P(pressure_steps, hooks_come_after_trimming_and_before_the_refusal) {
  const auto ctx = with("logging, guard, budget, direct", {});
  const auto sink = std::make_shared<memory_sink>();
  ctx->reports().log()->attach(sink);
  std::uint64_t kept_when_asked = 1;
  const auto hook = ctx->add_pressure_hook("spill", 0, [&](std::uint64_t) {
    kept_when_asked = ctx->reports().statistics().budget.current;
    return std::uint64_t{0};
  });
  const buffer held = take(ctx, room / 2);
  static_cast<void>(take(ctx, 1000));
  expect_refused(ctx, room / 2);
  ctx->reports().log()->detach(sink);
  EXPECT_EQ(kept_when_asked, ctx->reports().statistics().budget.current) << "of the held block alone";
  using enum memory_event;
  EXPECT_EQ(kinds(*sink), (std::vector<memory_event>{allocate, allocate, free, trim, relief, refuse}));
}

TEST_P(pressure_steps, a_room_maker_is_called_until_it_frees_nothing) {
  const auto ctx = with("budget", {});
  std::vector<buffer> kept;
  for (int i = 0; i < 4; ++i) {
    kept.push_back(take(ctx, room / 4));
  }
  int others = 0;
  const auto other = ctx->add_pressure_hook("other", 1, [&](std::uint64_t) {
    ++others;
    return std::uint64_t{0};
  });
  int asked = 0;
  const auto maker = ctx->add_room_maker("maker", 0, [&](const shortage& need) -> std::uint64_t {
    ++asked;
    EXPECT_EQ(need.full, ctx->memory_budget().get());
    if (kept.size() <= 2) {
      return 0;
    }
    kept.pop_back();
    return room / 4;
  });
  EXPECT_EQ(take(ctx, room / 2).size(), room / 2);
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(others, 2) << "the steps begin again";
  expect_refused(ctx, room / 2 + 64);
  EXPECT_EQ(asked, 3);
}

TEST_P(pressure_steps, suspended_hooks_are_not_called) {
  const auto ctx = with("budget", {});
  int asked = 0;
  const auto hook = ctx->add_pressure_hook("hook", 0, [&](std::uint64_t) {
    ++asked;
    return std::uint64_t{0};
  });
  const buffer held = take(ctx, room / 2);
  {
    const hooks_suspended none;
    expect_refused(ctx, room - 64);
    { const hooks_suspended nested; }
    expect_refused(ctx, room - 64);
  }
  EXPECT_EQ(asked, 0);
  expect_refused(ctx, room - 64);
  EXPECT_EQ(asked, 1);
}

TEST_P(pressure_steps, an_exception_of_a_room_maker_ends_the_request) {
  const auto ctx = with("budget", {});
  const auto maker = ctx->add_room_maker(
      "maker", 0, [](const shortage&) -> std::uint64_t { throw error(errc::io, "the disk is full"); });
  const buffer held = take(ctx, room / 2);
  try {
    static_cast<void>(take(ctx, room - 64));
    ADD_FAILURE() << "it found room";
  } catch (const error& why) {
    EXPECT_EQ(why.message(), "the disk is full");
  }
  EXPECT_EQ(ctx->memory_budget()->statistics().current, room / 2) << "nothing stays charged";
}

TEST_P(pressure_steps, a_request_that_times_out_is_refused_and_leaves_the_line) {
  const auto ctx = with("budget", {.wait = std::chrono::milliseconds(1)});
  const buffer most = take(ctx, room - 100);
  expect_refused(ctx, 101);
  EXPECT_EQ(ctx->memory_budget()->waiting(), 0U);
  EXPECT_EQ(ctx->reports().statistics().budget.refused, 1U);
  EXPECT_EQ(ctx->reports().statistics().budget.current, room - 100);
  EXPECT_EQ(take(ctx, 100).size(), 100U);
}

SAETA_CONFORMANCE_SUITE(pressure_steps);

} // namespace
} // namespace saeta::conformance
