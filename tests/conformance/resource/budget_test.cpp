#include "conformance/harness/context_test.hpp"
#include "saeta/base/error.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace saeta::conformance {
namespace {

class budget_of_a_context : public context_test {};

TEST_P(budget_of_a_context, counts_exactly_through_allocation_free_refusal_and_reset) {
  budget_statistics expected;
  expected.limit = limit;
  expected.remaining = limit;
  EXPECT_EQ(ctx()->reports().statistics().budget, expected);

  buffer first = make(1000);
  buffer second = make(limit - 1000);
  expected = {.limit = limit, .current = limit, .peak = limit, .requests = 2};
  EXPECT_EQ(ctx()->reports().statistics().budget, expected);

  EXPECT_THROW(static_cast<void>(make(1)), error);
  expected.refused = 1;
  EXPECT_EQ(ctx()->reports().statistics().budget, expected);

  second = {};
  expected.current = 1000;
  expected.remaining = limit - 1000;
  EXPECT_EQ(ctx()->reports().statistics().budget, expected) << "the peak stays";

  ctx()->memory_budget()->reset_peak();
  expected.peak = 1000;
  EXPECT_EQ(ctx()->reports().statistics().budget, expected);
}

TEST_P(budget_of_a_context, refuses_with_all_its_numbers) {
  const buffer held = make(4096, "orders");
  const buffer more = make(100, "lines");
  constexpr std::uint64_t huge = ~std::uint64_t{0};
  try {
    static_cast<void>(make(huge));
    FAIL() << "2^64-1 bytes were allocated";
  } catch (const error& e) {
    ASSERT_EQ(e.code(), errc::budget_exceeded);
    const budget_refusal& numbers = *e.refusal();
    EXPECT_EQ(numbers.layer, to_string(ctx()->device()));
    EXPECT_EQ(numbers.requested, huge);
    EXPECT_EQ(numbers.current, 4196U);
    EXPECT_TRUE(numbers.required == static_cast<uint128>(huge) + 4196) << "128 bits, exact";
    EXPECT_EQ(numbers.limit, limit);
    EXPECT_EQ(numbers.remaining, limit - 4196);
    EXPECT_EQ(numbers.peak, 4196U);
    const std::vector<std::pair<std::string, std::uint64_t>> owners{{"orders", 4096}, {"lines", 100}};
    EXPECT_EQ(numbers.owners, owners);
  }
}

TEST_P(budget_of_a_context, refunds_the_charge_when_the_device_has_no_memory) {
  const auto roomy = new_context();
  try {
    static_cast<void>(buffer::allocate(roomy, std::size_t{1} << 60, roomy->work_stream()));
    FAIL() << "an exbibyte was allocated";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::out_of_memory) << e.what();
  }
  EXPECT_EQ(roomy->reports().statistics().budget.current, 0U);
  EXPECT_EQ(roomy->reports().statistics().ledger.buffers, 0U);
}

TEST_P(budget_of_a_context, never_refuses_a_loop_within_the_limit) {
  for (const resource_kind base : {resource_kind::caching, resource_kind::async, resource_kind::direct}) {
    context_options options;
    options.budget = 1 << 20;
    options.memory.base = base;
    const auto ctx = new_context(options);
    const auto other = ctx->borrow_stream();
    for (int round = 0; round < 700; ++round) {
      const buffer most = buffer::allocate(ctx, options.budget - 64, ctx->work_stream());
      use_token token(other.ref(), {writes(most)}); // work on another stream is pending when it is freed
      ctx->copies().fill(token.span<char>(most).data(), static_cast<std::uint8_t>(round), most.size(),
                         other.ref());
    }
    EXPECT_TRUE(ctx->wait_for_releases(std::chrono::minutes(1)));
    EXPECT_EQ(ctx->reports().statistics().budget.refused, 0U);
    EXPECT_EQ(ctx->reports().statistics().budget.current, 0U);
  }
}

TEST_P(budget_of_a_context, counts_an_empty_request_without_memory) {
  const buffer nothing = make(0);
  EXPECT_TRUE(nothing.present());
  EXPECT_EQ(nothing.size(), 0U);
  EXPECT_NE(nothing.owner()->generation(), make(0).owner()->generation());
  EXPECT_EQ(ctx()->reports().statistics().budget.requests, 2U);
  EXPECT_EQ(ctx()->reports().statistics().budget.current, 0U);
}

TEST_P(budget_of_a_context, honours_alignment_beyond_the_devices_own) {
  for (const resource_kind kind : {resource_kind::caching, resource_kind::async, resource_kind::direct}) {
    context_options options;
    options.memory.base = kind;
    const auto ctx = new_context(options);
    const std::size_t own = ctx->on_host() ? host_alignment : device_alignment;
    for (const std::size_t alignment :
         {std::size_t{0}, std::size_t{64}, std::size_t{4096}, std::size_t{1} << 20}) {
      const buffer made = buffer::allocate(ctx, 100, ctx->work_stream(), "aligned", alignment);
      EXPECT_EQ(made.address() % std::max(alignment, own), 0U) << alignment;
      EXPECT_EQ(ctx->reports().statistics().budget.current, 100U)
          << "the requested bytes, without padding for alignment";
    }
    EXPECT_THROW(static_cast<void>(buffer::allocate(ctx, 100, ctx->work_stream(), "odd", 48)), error);
    EXPECT_EQ(ctx->reports().statistics().budget.current, 0U);
  }
}

TEST_P(budget_of_a_context, stays_exact_with_many_threads) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const auto lent = ctx()->borrow_stream();
      for (unsigned round = 0; round < 50; ++round) {
        const auto pattern = static_cast<std::uint8_t>(t * 50 + round);
        const buffer mine = buffer::allocate(ctx(), 10000 + t, lent.ref(), "storm");
        fill(mine, pattern, lent.ref());
        std::vector<std::uint8_t> back(mine.size());
        queue_read(mine, back.data(), lent.ref());
        ctx()->synchronize(lent.ref());
        wrong += back != std::vector<std::uint8_t>(mine.size(), pattern);
      }
    });
  }
  for (std::thread& t : threads) {
    t.join();
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(ctx()->reports().statistics().budget.current, 0U);
  EXPECT_EQ(ctx()->reports().statistics().budget.requests, 200U);
  EXPECT_EQ(ctx()->copies().read_counters().allocations, 200U);
}

SAETA_CONFORMANCE_SUITE(budget_of_a_context);

} // namespace
} // namespace saeta::conformance
