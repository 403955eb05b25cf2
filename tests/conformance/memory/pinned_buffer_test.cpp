// Buffers in page-locked memory: stream-ordered like others, and charged to the host's budget.
#include "conformance/harness/context_test.hpp"
#include "saeta/base/error.hpp"
#include "saeta/staging/staging_ring.hpp"
#include "support/ring_options.hpp"

#include <gmock/gmock.h>

namespace saeta::conformance {
namespace {

class pinned_buffers : public context_test {
protected:
  static constexpr std::uint64_t host_limit = 1 << 20;

  void SetUp() override {
    context_options options;
    options.budget = limit;
    options.pinned_budget = budget::create("host", host_limit);
    context_ = new_context(options);
  }
  [[nodiscard]] static buffer pinned(const std::shared_ptr<context>& ctx, std::size_t bytes) {
    return buffer::allocate(ctx, bytes, ctx->work_stream(), "landing", 0, memory_kind::pinned);
  }
  [[nodiscard]] buffer pinned(std::size_t bytes) const { return pinned(ctx(), bytes); }
  [[nodiscard]] std::uint64_t charged() const { return ctx()->pinned_budget()->statistics().current; }
  void settle() const { EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20))); }
};

TEST_P(pinned_buffers, are_charged_to_the_budget_of_the_host) {
  const buffer made = pinned(100'000);
  EXPECT_EQ(made.kind(), device().kind_of(reinterpret_cast<void*>(made.address())));
  EXPECT_EQ(made.owner()->device(), ctx()->device());
  EXPECT_EQ(made.address() % device_alignment, 0U);
  EXPECT_EQ(charged(), 100'000U);
  EXPECT_EQ(ctx()->memory_budget()->statistics().current, ctx()->on_host() ? 100'000U : 0U);
  EXPECT_EQ(ctx()->memory_budget() == ctx()->pinned_budget(), ctx()->on_host());
  EXPECT_EQ(ctx()->reports().live_by_tag(), (bytes_by_name{{"landing", 100'000}}));
  EXPECT_EQ(ctx()->reports().live_by_budget(), (bytes_by_name{{ctx()->pinned_budget()->name(), 100'000}}));
  EXPECT_EQ(ctx()->reports().statistics().ledger.own, 100'000U);
}

TEST_P(pinned_buffers, are_written_and_read_like_other_buffers) {
  const buffer made = pinned(1000);
  const auto writer = ctx()->borrow_stream();
  fill(made, 5, writer.ref());
  std::vector<std::uint8_t> seen(1000);
  {
    use_token token(ctx()->work_stream(), {reads(made)});
    ctx()->copies().copy(seen.data(), token.span<const std::uint8_t>(made).data(), 1000,
                         ctx()->copies().kind_between(made.kind(), memory_kind::host), token.stream());
  }
  ctx()->synchronize(ctx()->work_stream());
  EXPECT_EQ(seen, std::vector<std::uint8_t>(1000, 5));
}

TEST_P(pinned_buffers, are_freed_after_the_work_on_them) {
  const auto writer = ctx()->borrow_stream();
  const auto held = close_gate(writer.ref().native_handle());
  {
    const buffer made = pinned(1000);
    fill(made, 5, writer.ref());
  }
  if (held) {
    EXPECT_EQ(charged(), 1000U) << "a fill is pending";
    held->open();
  }
  settle();
  EXPECT_EQ(charged(), 0U);
  EXPECT_EQ(ctx()->reports().live_by_tag(), bytes_by_name{});
}

TEST_P(pinned_buffers, are_refused_with_the_numbers_of_the_host) {
  if (ctx()->on_host()) {
    GTEST_SKIP() << "the budget of the context is the host's";
  }
  const buffer first = pinned(1'000'000);
  try {
    static_cast<void>(pinned(100'000));
    ADD_FAILURE() << "accepted";
  } catch (const error& refused) {
    ASSERT_NE(refused.refusal(), nullptr);
    EXPECT_THAT(refused.message(), ::testing::HasSubstr("host"));
    EXPECT_EQ(refused.refusal()->limit, host_limit);
    EXPECT_EQ(refused.refusal()->current, 1'000'000U);
    EXPECT_EQ(refused.refusal()->owners, (bytes_by_name{{"landing", 1'000'000}}));
  }
  EXPECT_EQ(charged(), 1'000'000U);
}

TEST_P(pinned_buffers, are_freed_from_the_cache_for_other_requests) {
  if (ctx()->on_host()) {
    GTEST_SKIP() << "the budget of the context is the host's";
  }
  static_cast<void>(pinned(600'000)); // rounded up to the whole limit, and cached
  settle();
  EXPECT_EQ(ctx()->reports().statistics().pinned, host_limit);
  const buffer small = pinned(100'000);
  EXPECT_EQ(ctx()->reports().statistics().pinned, 131'072U);
}

TEST_P(pinned_buffers, of_a_child_are_charged_to_the_hosts_budget) {
  const auto child = watch(ctx()->with_budget("child", 5000));
  const buffer made = pinned(child, 4000);
  EXPECT_EQ(child->memory_budget()->statistics().current, ctx()->on_host() ? 4000U : 0U);
  EXPECT_EQ(charged(), 4000U);
  const auto promised = ctx()->with_reservation(3000);
  const buffer drawn = pinned(promised, 2000);
  EXPECT_EQ(promised->drawn_from()->left(), ctx()->on_host() ? 1000U : 3000U);
}

TEST_P(pinned_buffers, are_the_only_kind_besides_device_memory) {
  const buffer own = buffer::allocate(ctx(), 10, ctx()->work_stream(), "own", 0, memory_kind::device);
  EXPECT_EQ(own.kind(), ctx()->on_host() ? memory_kind::host : memory_kind::device);
  for (const memory_kind kind : {memory_kind::managed, memory_kind::host}) {
    if (kind == own.kind()) {
      continue;
    }
    try {
      static_cast<void>(buffer::allocate(ctx(), 10, ctx()->work_stream(), "odd", 0, kind));
      ADD_FAILURE() << "accepted: " << to_string(kind);
    } catch (const error& refused) {
      EXPECT_EQ(refused.code(), errc::unsupported);
      EXPECT_THAT(refused.message(), ::testing::HasSubstr("'odd'"));
    }
  }
}

TEST_P(pinned_buffers, of_zero_bytes_are_not_charged) {
  const buffer none = pinned(0);
  EXPECT_EQ(none.address(), 0U);
  EXPECT_EQ(charged(), 0U);
  EXPECT_EQ(ctx()->reports().statistics().pinned, 0U);
}

TEST_P(pinned_buffers, copies_between_them_and_the_device_count_by_their_direction) {
  if (ctx()->on_host()) {
    GTEST_SKIP() << "every copy is one of the host";
  }
  const buffer made = pinned(1000);
  const buffer own = make(1000);
  fill(own, 3, ctx()->work_stream());
  const auto ring = staging_ring::of(ctx());
  ctx()->copies().reset_counters();
  ring->copy(made, own, ctx()->work_stream());
  ring->copy(own, made, ctx()->work_stream());
  const counter_values now = ctx()->copies().read_counters();
  EXPECT_EQ(now.device_to_host, (traffic{1, 1, 1000}));
  EXPECT_EQ(now.host_to_device, (traffic{1, 1, 1000}));
  EXPECT_EQ(read(own), std::vector<std::uint8_t>(1000, 3));
}

/// Tests the staging ring with chunks of 4 KiB on one thread.
class pinned_chunks : public backend_test {
protected:
  [[nodiscard]] std::shared_ptr<context> with_room(std::uint64_t bytes) {
    context_options options = support::ring_options(1, 4096);
    options.pinned_budget = budget::create("host", bytes);
    return new_context(options);
  }
  [[nodiscard]] static buffer upload(const std::shared_ptr<context>& ctx, std::span<const std::byte> from) {
    transfer_plan plan;
    plan.add(from);
    plan.finish();
    return staging_ring::of(ctx)->upload(ctx, plan, "slab");
  }
};

TEST_P(pinned_chunks, are_charged_to_the_host_which_may_limit_their_number) {
  const std::vector<std::byte> source(60'000, std::byte{9});
  for (const std::uint64_t chunks : {1U, 2U, 11U, 12U, 13U}) {
    SCOPED_TRACE(chunks);
    const auto ctx = with_room(chunks * 4096 + 100);
    if (ctx->on_host()) {
      GTEST_SKIP() << "nothing is staged on the host";
    }
    const buffer slab = upload(ctx, source);
    EXPECT_EQ(ctx->pinned_budget()->statistics().current, std::min<std::uint64_t>(chunks, 12) * 4096);
    std::vector<std::byte> back(source.size());
    staging_ring::of(ctx)->download(std::vector<download_range>{{slab.slice(0, back.size()), back.data()}});
    EXPECT_EQ(back, source);
  }
}

TEST_P(pinned_chunks, refuse_a_transfer_without_room_for_one) {
  const auto ctx = with_room(4000);
  if (ctx->on_host()) {
    GTEST_SKIP() << "nothing is staged on the host";
  }
  const std::vector<std::byte> source(10'000);
  try {
    static_cast<void>(upload(ctx, source));
    ADD_FAILURE() << "uploaded";
  } catch (const error& refused) {
    ASSERT_EQ(refused.code(), errc::budget_exceeded);
    EXPECT_EQ(refused.refusal()->limit, 4000U);
    EXPECT_THAT(refused.message(), ::testing::HasSubstr("host"));
  }
}

SAETA_CONFORMANCE_SUITE(pinned_buffers);
SAETA_CONFORMANCE_SUITE(pinned_chunks);

} // namespace
} // namespace saeta::conformance
