// Contexts with a child budget or a reservation, and requests that do not fit.
#include "conformance/harness/context_test.hpp"
#include "saeta/base/error.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace saeta::conformance {
namespace {

class derived_contexts : public context_test {
protected:
  [[nodiscard]] static buffer take(const std::shared_ptr<context>& from, std::size_t bytes,
                                   tag label = "test") {
    return buffer::allocate(from, bytes, from->work_stream(), label);
  }
  [[nodiscard]] std::uint64_t current() const { return ctx()->reports().statistics().budget.current; }
  [[nodiscard]] std::uint64_t reserved() const { return ctx()->reports().statistics().budget.reserved; }
};

TEST_P(derived_contexts, a_child_and_its_parent_agree_in_any_order_of_destruction) {
  for (const bool child_first : {true, false}) {
    auto query = watch(ctx()->with_budget("query", 1000));
    buffer in_child = take(query, 600, "hash table");
    buffer in_parent = take(ctx(), 300, "orders");
    EXPECT_EQ(query->reports().statistics().budget.current, 600U);
    EXPECT_EQ(current(), 900U);
    const bytes_by_name of_child{{"hash table", 600}};
    EXPECT_EQ(query->reports().live_by_tag(), of_child);
    const bytes_by_name by_budget{{"query", 600}, {ctx()->memory_budget()->name(), 300}};
    EXPECT_EQ(ctx()->reports().live_by_budget(), by_budget);
    if (child_first) {
      query.reset(); // the buffer keeps the budget alive
      in_child = {};
      EXPECT_EQ(current(), 300U);
      in_parent = {};
    } else {
      in_parent = {};
      EXPECT_EQ(current(), 600U);
      in_child = {};
      EXPECT_EQ(query->reports().statistics().budget.current, 0U);
    }
    EXPECT_EQ(current(), 0U);
  }
}

TEST_P(derived_contexts, a_child_is_refused_by_its_own_limit_and_by_its_parents) {
  const auto query = watch(ctx()->with_budget("query", 1000));
  const buffer held = take(query, 600);
  try {
    static_cast<void>(take(query, 401));
    FAIL() << "beyond the child's limit";
  } catch (const error& e) {
    ASSERT_EQ(e.code(), errc::budget_exceeded);
    EXPECT_EQ(e.refusal()->layer, "query");
    EXPECT_EQ(e.refusal()->limit, 1000U);
  }
  const buffer most = take(ctx(), limit - 700);
  try {
    static_cast<void>(take(query, 200));
    FAIL() << "beyond the parent's limit";
  } catch (const error& e) {
    ASSERT_EQ(e.code(), errc::budget_exceeded);
    EXPECT_EQ(e.refusal()->layer, ctx()->memory_budget()->name());
    EXPECT_EQ(e.refusal()->remaining, 100U);
  }
  EXPECT_EQ(current(), limit - 100);
  EXPECT_EQ(query->reports().statistics().budget.current, 600U) << "a refusal leaves no trace";
}

TEST_P(derived_contexts, a_reservation_blocks_other_requests_and_becomes_exact_charges) {
  auto promised = ctx()->with_reservation(limit - 1000);
  EXPECT_EQ(reserved(), limit - 1000);
  EXPECT_EQ(current(), 0U);
  EXPECT_THROW(static_cast<void>(take(ctx(), 1001)), error);
  const buffer others = take(ctx(), 1000);
  const buffer drawn = take(promised, limit - 2000);
  EXPECT_EQ(current(), limit - 1000);
  EXPECT_EQ(reserved(), 1000U);
  EXPECT_THROW(static_cast<void>(take(promised, 1001)), error) << "more than is left of it";
  promised->close();
  EXPECT_EQ(reserved(), 0U) << "the unused part is returned";
  EXPECT_EQ(current(), limit - 1000) << "drawn bytes stay charged";
  EXPECT_THROW(static_cast<void>(take(promised, 1)), error);
}

TEST_P(derived_contexts, the_unused_part_of_a_reservation_is_returned) {
  auto promised = ctx()->with_reservation(1000);
  auto drawn = std::optional(take(promised, 400));
  EXPECT_EQ(reserved(), 600U);
  promised.reset();
  EXPECT_EQ(reserved(), 0U) << "at once, although drawn bytes are still live";
  EXPECT_EQ(current(), 400U);
  drawn.reset();
  EXPECT_EQ(current(), 0U);
  promised = ctx()->with_reservation(1000);
  drawn = take(promised, 400);
  drawn.reset();
  EXPECT_EQ(reserved(), 600U) << "freed bytes go to the budget, not back to the reservation";
  EXPECT_EQ(current(), 0U);
  promised.reset();
  EXPECT_EQ(reserved(), 0U);
}

TEST_P(derived_contexts, a_failed_upstream_allocation_refunds_every_byte) {
  for (const std::string base : {"caching", "async", "direct"}) {
    SCOPED_TRACE(base);
    context_options options;
    options.budget = limit;
    parse_stack("logging, budget, fault, " + base, options.memory);
    const auto ctx = new_context(options);
    const auto query = watch(ctx->with_budget("query", 10'000));
    const auto promised = query->with_reservation(4000);
    const buffer drawn = take(promised, 1000);
    for (const auto& from : {ctx, query, promised}) {
      const budget_statistics above = ctx->reports().statistics().budget;
      const budget_statistics below = query->reports().statistics().budget;
      ctx->memory().fault->fail_allocation(1, 100); // of a request that is tried again when room was made
      try {
        static_cast<void>(take(from, 2000));
        ADD_FAILURE() << "allocated";
      } catch (const error& e) {
        EXPECT_EQ(e.code(), errc::out_of_memory) << e.what();
      }
      ctx->memory().fault->fail_allocation(0);
      EXPECT_EQ(ctx->reports().statistics().budget.current, above.current);
      EXPECT_EQ(ctx->reports().statistics().budget.reserved, above.reserved);
      EXPECT_EQ(ctx->reports().statistics().budget.remaining, above.remaining);
      EXPECT_EQ(query->reports().statistics().budget.current, below.current);
      EXPECT_EQ(query->reports().statistics().budget.reserved, below.reserved);
      EXPECT_EQ(promised->drawn_from()->left(), 3000U);
      EXPECT_EQ(ctx->reports().statistics().ledger.buffers, 1U);
    }
    EXPECT_EQ(take(promised, 3000).size(), 3000U) << "the promise still holds";
  }
}

TEST_P(derived_contexts, of_two_reservations_for_the_whole_budget_exactly_one_succeeds) {
  constexpr int rounds = 10'000;
  std::atomic<int> wins{0};
  std::atomic<int> ready{0};
  std::atomic<int> done{0};
  const auto contend = [&] {
    for (int round = 1; round <= rounds; ++round) {
      ++ready;
      while (ready < 2 * round) {
        std::this_thread::yield();
      }
      std::shared_ptr<context> promised;
      try {
        promised = ctx()->with_reservation(limit);
        ++wins;
      } catch (const error& e) {
        EXPECT_EQ(e.code(), errc::budget_exceeded);
      }
      ++done;
      while (done < 2 * round) {
        std::this_thread::yield();
      }
    }
  };
  std::thread other(contend);
  contend();
  other.join();
  EXPECT_EQ(wins, rounds);
  EXPECT_EQ(reserved(), 0U);
}

TEST_P(derived_contexts, overbooking_is_refused_unless_requested) {
  const buffer most = take(ctx(), limit - 100);
  EXPECT_THROW(static_cast<void>(ctx()->with_reservation(101)), error);
  const auto promised = ctx()->with_reservation(300, overbooking::allow);
  EXPECT_EQ(promised->drawn_from()->overbooked(), 200U);
  const buffer firm = take(promised, 100);
  EXPECT_THROW(static_cast<void>(take(promised, 50)), error) << "the limit stays hard";
  EXPECT_EQ(current(), limit);
}

TEST_P(derived_contexts, a_reservation_calls_pressure_hooks) {
  std::optional<buffer> spillable = take(ctx(), limit / 2);
  std::uint64_t asked_for = 0;
  const auto hook = ctx()->add_pressure_hook("spill", 0, [&](std::uint64_t bytes) {
    asked_for = bytes;
    const std::uint64_t freed = spillable ? spillable->size() : 0;
    spillable.reset();
    return freed;
  });
  const auto over = ctx()->with_reservation(limit, overbooking::allow);
  EXPECT_EQ(asked_for, 0U) << "overbooked bytes need no room";
  over->close();
  const auto promised = ctx()->with_reservation(limit);
  EXPECT_EQ(asked_for, limit);
  EXPECT_EQ(reserved(), limit);
}

TEST_P(derived_contexts, a_reservation_waits_in_line_for_free_bytes) {
  context_options options;
  options.budget = limit;
  options.pressure.wait = std::chrono::minutes(5);
  const auto ctx = new_context(options);
  std::optional<buffer> held = take(ctx, limit - 10);
  std::thread waiter([&] {
    const auto promised = ctx->with_reservation(limit);
    EXPECT_EQ(promised->drawn_from()->left(), limit);
    EXPECT_EQ(ctx->reports().statistics().budget.peak, limit - 10) << "reserved bytes are not in use";
  });
  while (ctx->memory_budget()->waiting() == 0) {
    std::this_thread::yield();
  }
  held.reset();
  waiter.join();
  EXPECT_EQ(ctx->reports().statistics().budget.reserved, 0U);
}

TEST_P(derived_contexts, a_waiting_reservation_is_refused_when_its_budget_is_closed) {
  context_options options;
  options.budget = limit;
  options.pressure.wait = std::chrono::minutes(5);
  const auto ctx = new_context(options);
  const auto query = watch(ctx->with_budget("query"));
  const buffer held = take(ctx, limit);
  std::thread waiter([&] {
    try {
      static_cast<void>(query->with_reservation(1));
      ADD_FAILURE() << "reserved";
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::closed) << e.what();
    }
  });
  while (ctx->memory_budget()->waiting() == 0) {
    std::this_thread::yield();
  }
  query->close();
  waiter.join();
}

TEST_P(derived_contexts, hooks_are_called_by_priority_until_the_request_fits) {
  std::vector<std::string> asked;
  std::optional<buffer> spillable = take(ctx(), limit / 2);
  std::optional<buffer> precious = take(ctx(), limit / 2);
  const auto last = ctx()->add_pressure_hook("last", -1, [&](std::uint64_t) {
    asked.emplace_back("last");
    precious.reset();
    return limit / 2;
  });
  const auto empty = ctx()->add_pressure_hook("empty", 9, [&](std::uint64_t bytes) {
    asked.emplace_back("empty");
    EXPECT_EQ(bytes, 1000U);
    return std::uint64_t{0};
  });
  const auto broken = ctx()->add_pressure_hook("broken", 8, [&](std::uint64_t) -> std::uint64_t {
    asked.emplace_back("broken");
    throw std::runtime_error("no");
  });
  const auto spill = ctx()->add_pressure_hook("spill", 1, [&](std::uint64_t) {
    asked.emplace_back("spill");
    spillable.reset();
    return limit / 2;
  });
  const buffer made = take(ctx(), 1000);
  const std::vector<std::string> expected{"empty", "broken", "spill"};
  EXPECT_EQ(asked, expected);
  EXPECT_TRUE(precious.has_value());
  EXPECT_EQ(ctx()->reports().statistics().budget.refused, 0U);
}

TEST_P(derived_contexts, a_removed_hook_is_not_called) {
  int asked = 0;
  {
    const auto hook = ctx()->add_pressure_hook("gone", 0, [&](std::uint64_t) {
      ++asked;
      return std::uint64_t{1};
    });
  }
  EXPECT_THROW(static_cast<void>(take(ctx(), limit + 1)), error);
  EXPECT_EQ(asked, 0);
}

TEST_P(derived_contexts, a_hook_that_frees_less_than_it_claims_leads_to_a_refusal) {
  std::uint64_t claims = 3;
  const auto hook =
      ctx()->add_pressure_hook("liar", 0, [&](std::uint64_t) { return claims > 0 ? claims-- : 0; });
  EXPECT_THROW(static_cast<void>(take(ctx(), limit + 1)), error);
}

TEST_P(derived_contexts, a_request_waits_in_line_for_free_bytes) {
  context_options options;
  options.budget = 1000;
  options.pressure.wait = std::chrono::minutes(5);
  const auto ctx = new_context(options);
  std::optional<buffer> held = take(ctx, 800);
  std::thread waiter([&] {
    const buffer late = take(ctx, 700);
    EXPECT_EQ(late.size(), 700U);
  });
  while (ctx->memory_budget()->waiting() == 0) {
    std::this_thread::yield();
  }
  held.reset();
  waiter.join();
  EXPECT_EQ(ctx->reports().statistics().budget.refused, 0U);
  EXPECT_EQ(ctx->reports().statistics().budget.current, 0U);
}

TEST_P(derived_contexts, closing_one_does_not_close_the_others) {
  const auto query = watch(ctx()->with_budget("query"));
  const buffer kept = take(query, 64, "kept");
  const bytes_by_name expected{{"kept", 64}};
  EXPECT_EQ(query->close(), expected);
  EXPECT_THROW(static_cast<void>(take(query, 1)), error);
  EXPECT_NO_THROW(static_cast<void>(take(ctx(), 1)));
  ctx()->close();
  EXPECT_TRUE(query->closed());
}

SAETA_CONFORMANCE_SUITE(derived_contexts);

} // namespace
} // namespace saeta::conformance
