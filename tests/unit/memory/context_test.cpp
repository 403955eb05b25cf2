// Contexts on the host and on simulated devices: lists of holders in refusals, options, close, lent memory.
// tests/conformance/memory runs on every backend.
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/backend/sim/sim.hpp"
#include "saeta/base/error.hpp"
#include "saeta/base/report.hpp"
#include "saeta/memory/buffer.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/memory/export_hold.hpp"
#include "saeta/memory/loans/graph_pool.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/observe/sinks/log_sinks.hpp"
#include "support/faulty_backend.hpp"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace saeta {
namespace {

buffer take(const std::shared_ptr<context>& from, std::size_t bytes, tag label) {
  return buffer::allocate(from, bytes, from->work_stream(), label);
}

budget_refusal refusal_of(const std::function<void()>& request) {
  try {
    request();
  } catch (const error& e) {
    if (e.refusal() != nullptr) {
      return *e.refusal();
    }
  }
  ADD_FAILURE() << "not refused";
  return {};
}

class refusals_of_contexts : public ::testing::Test {
protected:
  refusals_of_contexts() {
    context_options options;
    options.budget = 10'000;
    ctx_ = context::create(make_host_backend(), options);
    query_ = ctx_->with_budget("query", 5000);
    other_ = ctx_->with_budget("other");
  }

  std::shared_ptr<context> ctx_;
  std::shared_ptr<context> query_;
  std::shared_ptr<context> other_;
};

TEST_F(refusals_of_contexts, a_full_child_lists_only_its_own_holders) {
  const buffer mine = take(query_, 3000, "hash table");
  const auto step = query_->with_budget("step");
  const buffer below = take(step, 1000, "sort");
  const buffer theirs = take(other_, 4000, "orders");
  const budget_refusal refused = refusal_of([&] { static_cast<void>(take(query_, 1001, "more")); });
  EXPECT_EQ(refused.layer, "query");
  EXPECT_EQ(refused.owners, (bytes_by_name{{"hash table", 3000}, {"sort", 1000}}));
  EXPECT_TRUE(refused.others.empty());
}

TEST_F(refusals_of_contexts, a_child_of_a_full_budget_lists_its_own_holders_first) {
  const buffer mine = take(query_, 1000, "hash table");
  const buffer theirs = take(other_, 6000, "orders");
  const buffer above = take(ctx_, 2000, "hash table");
  const budget_refusal refused = refusal_of([&] { static_cast<void>(take(query_, 1001, "more")); });
  EXPECT_EQ(refused.layer, "host");
  EXPECT_EQ(refused.owners, (bytes_by_name{{"hash table", 1000}}));
  EXPECT_EQ(refused.others, (bytes_by_name{{"orders", 6000}, {"hash table", 2000}}));
}

TEST_F(refusals_of_contexts, the_root_lists_charged_bytes_without_views) {
  const buffer mine = take(query_, 1000, "hash table");
  std::uint8_t lent[16];
  external_memory foreign;
  foreign.pointer = lent;
  foreign.bytes = sizeof lent;
  foreign.device = ctx_->device();
  foreign.keepalive = std::make_shared<int>();
  foreign.tag = "lent";
  const buffer view = buffer::adopt(ctx_, std::move(foreign));
  const budget_refusal refused = refusal_of([&] { static_cast<void>(take(ctx_, 9001, "more")); });
  EXPECT_EQ(refused.owners, (bytes_by_name{{"hash table", 1000}}));
  EXPECT_TRUE(refused.others.empty());
}

TEST_F(refusals_of_contexts, a_refused_reservation_lists_the_holders) {
  const buffer mine = take(query_, 1000, "hash table");
  const buffer theirs = take(other_, 6000, "orders");
  const budget_refusal refused = refusal_of([&] { static_cast<void>(query_->with_reservation(3500)); });
  EXPECT_EQ(refused.owners, (bytes_by_name{{"hash table", 1000}}));
  EXPECT_EQ(refused.others, (bytes_by_name{{"orders", 6000}}));
}

TEST(foreign_bytes, are_bytes_of_other_users_of_the_device) {
  const auto device = sim::device::create({.seed = 1, .how = sim::pace::automatic});
  const auto ctx = context::create(device);
  EXPECT_EQ(ctx->reports().foreign_bytes(), 0U);
  {
    const buffer own = take(ctx, 40 << 20, "own");
    EXPECT_EQ(ctx->reports().foreign_bytes(), 0U);
    const auto other_library = sim::device::create({.beside = device});
    void* const taken = other_library->allocate(8 << 20, 0);
    EXPECT_EQ(ctx->reports().foreign_bytes(), std::uint64_t{8} << 20);
    EXPECT_TRUE(other_library->deallocate(taken, 8 << 20, 0));
  }
  EXPECT_TRUE(ctx->wait_for_releases(std::chrono::minutes(5)));
  EXPECT_EQ(ctx->reports().foreign_bytes(), 0U) << "cached memory is not foreign";
}

TEST(foreign_bytes, do_not_include_cached_bytes_of_the_drivers_pool) {
  context_options options;
  options.memory.base = resource_kind::async;
  const auto ctx = context::create(sim::device::create({.seed = 1, .how = sim::pace::automatic}), options);
  take(ctx, 40 << 20, "own");
  EXPECT_TRUE(ctx->wait_for_releases(std::chrono::minutes(5)));
  EXPECT_EQ(ctx->reports().foreign_bytes(), 0U);
}

TEST(an_export, holds_each_storage_once) {
  const auto ctx = context::create(make_host_backend());
  const buffer a = take(ctx, 64, "a");
  const buffer b = take(ctx, 64, "b");
  const std::array views{a.slice(0, 8), b, a.slice(8, 8), a};
  const export_hold held(views, access::read);
  EXPECT_EQ(held.first(), a.owner());
  ASSERT_EQ(held.others().size(), 1U);
  EXPECT_EQ(held.others()[0], b.owner());
}

class scalars_that_fail : public ::testing::Test {
protected:
  std::shared_ptr<sim::device> device_ = sim::device::create({.seed = 1, .run_percent = 0});
  std::shared_ptr<saeta::testing::faulty_backend> faulty_ =
      std::make_shared<saeta::testing::faulty_backend>(device_);
};

TEST_F(scalars_that_fail, do_not_change_the_callers_memory) {
  context_options options;
  options.releases = release_thread::none;
  const auto ctx = context::create(faulty_, options);
  const buffer b = take(ctx, 64, "scalar");
  const use_token token(ctx->work_stream(), {writes(b)});
  ctx->copies().fill(token.span<char>(b).data(), 7, 64, ctx->work_stream());
  const stream_lease other = ctx->borrow_stream();
  const auto gate = device_->close_gate(other.ref().native_handle());
  std::uint32_t value = 5;
  faulty_->fail_at(2);
  EXPECT_THROW(
      ctx->copies().read_scalar(&value, token.span<const char>(b).data(), sizeof value, ctx->work_stream()),
      error);
  EXPECT_TRUE(faulty_->failed()) << "the wait";
  EXPECT_EQ(ctx->reports().statistics().pending_releases, 1U) << "the copy may still write";
  gate->open();
  device_->run();
  EXPECT_EQ(value, 5U);
  EXPECT_EQ(ctx->drain(), 1U);
  EXPECT_EQ(ctx->reports().statistics().pending_releases, 0U);
  EXPECT_TRUE(device_->races().empty());
}

TEST(standard_options_of_a_context, are_as_documented) {
  const context_options standard;
  EXPECT_EQ(standard.budget, budget::unlimited);
  EXPECT_EQ(standard.max_streams, 32U);
  EXPECT_EQ(standard.releases, release_thread::background);
  EXPECT_EQ(standard.pressure.release_wait, std::chrono::seconds(10));
  EXPECT_EQ(standard.pressure.wait, std::chrono::milliseconds(0));
  EXPECT_EQ(standard.staging.threads, 0U);
  EXPECT_EQ(standard.staging.pinned_bytes, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(standard.host_cache, std::nullopt);
}

TEST(trims_of_a_context, are_logged_if_the_quarantine_freed_bytes) {
  const auto trimmed = [](const char* stack) {
    context_options options;
    options.budget = 1 << 20;
    parse_stack(stack, options.memory);
    const auto ctx = context::create(make_host_backend(), options);
    const auto sink = std::make_shared<memory_sink>();
    ctx->reports().log()->attach(sink);
    static_cast<void>(take(ctx, 600 << 10, "freed"));
    const buffer held = take(ctx, 600 << 10, "next");
    EXPECT_THROW(static_cast<void>(take(ctx, 600 << 10, "too large")), error);
    ctx->reports().log()->detach(sink);
    std::vector<std::uint64_t> found;
    for (const log_record& each : sink->records()) {
      if (each.event == memory_event::trim) {
        EXPECT_EQ(each.device, ctx->device());
        EXPECT_EQ(each.outcome, "ok");
        found.push_back(each.bytes);
      }
    }
    return found;
  };
  EXPECT_TRUE(trimmed("budget, direct").empty());
  const auto guarded = trimmed("budget, guard, direct");
  ASSERT_EQ(guarded.size(), 1U) << "for the third block, which has no room without it, either";
  EXPECT_GE(guarded[0], 600U << 10);
}

TEST(close, runs_due_releases_and_flushes_the_log) {
  struct counting_sink : log_sink {
    void write(const log_record&) override {}
    void flush() override { ++flushed; }
    int flushed = 0;
  };
  const auto device = sim::device::create({.seed = 1, .run_percent = 0});
  context_options options;
  options.releases = release_thread::none;
  const auto ctx = context::create(device, options);
  const auto sink = std::make_shared<counting_sink>();
  ctx->reports().log()->attach(sink);
  {
    external_memory lent;
    lent.device = ctx->device();
    lent.keepalive = std::make_shared<int>();
    const buffer view = buffer::adopt(ctx, std::move(lent));
    const auto gate = device->close_gate(ctx->work_stream().native_handle());
    { const use_token token(ctx->work_stream(), {reads(view)}); }
  }
  EXPECT_EQ(ctx->reports().statistics().pending_releases, 1U);
  device->run();
  EXPECT_TRUE(ctx->close().empty());
  EXPECT_EQ(ctx->reports().statistics().pending_releases, 0U);
  EXPECT_EQ(sink->flushed, 1);
}

TEST(a_block, that_the_driver_fails_to_free_stays_charged_and_is_reported_once) {
  static std::vector<std::string> reports;
  reports.clear();
  const report_sink before = set_report_sink([](std::string_view where, std::string_view message) noexcept {
    if (where == "context") {
      reports.emplace_back(message);
    }
  });
  context_options options;
  options.releases = release_thread::none;
  parse_stack("budget, fault, direct", options.memory);
  const auto ctx = context::create(make_host_backend(), options);
  buffer b = take(ctx, 64, "stays");
  ctx->memory().fault->fail_free(1);
  b = {};
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(ctx->reports().statistics().budget.current, 64U);
    EXPECT_EQ(ctx->reports().statistics().pending_releases, 1U);
    ctx->memory().fault->fail_free(1);
    EXPECT_EQ(ctx->drain(), 0U);
  }
  EXPECT_EQ(ctx->drain(), 1U);
  EXPECT_EQ(ctx->reports().statistics().budget.current, 0U);
  EXPECT_EQ(reports,
            std::vector<std::string>{
                "the driver refused to free 64 bytes: they stay charged, and the free is tried again"});
  set_report_sink(before);
}

TEST(graph_pool_on_the_host, keeps_small_requests_out_of_large_spans) {
  constexpr std::size_t small = 1 << 20;
  const auto ctx = context::create(make_host_backend());
  const auto bytes_after = [&](std::size_t free, std::size_t asked) {
    const auto pool = graph_pool::create(ctx);
    const auto stream = ctx->work_stream();
    const graph_pool::users same{.last = stream.native_handle()};
    pool->give_back(pool->take(free, stream), same);
    EXPECT_EQ(pool->bytes(), free);
    pool->give_back(pool->take(asked, stream), same);
    return pool->bytes();
  };
  EXPECT_EQ(bytes_after(2 * small, small), 2 * small);
  EXPECT_EQ(bytes_after(2 * small, small - 256), 3 * small - 256);
  EXPECT_EQ(bytes_after(small, 256), small);
  EXPECT_EQ(bytes_after(small + 256, 256), small + 512);

  const auto pool = graph_pool::create(ctx);
  const graph_pool::piece one = pool->take(1, ctx->work_stream(), 256);
  EXPECT_EQ(pool->bytes(), 256U);
  const graph_pool::piece page = pool->take(256, ctx->work_stream(), 4096);
  EXPECT_EQ(pool->bytes(), 256U + 4096U) << "of a block that begins anywhere";
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(page.pointer) % 4096, 0U);
  EXPECT_THROW(static_cast<void>(pool->take(1, ctx->work_stream(), 48)), error);
  pool->release();
  EXPECT_THROW(static_cast<void>(pool->take(1, ctx->work_stream())), error);
  EXPECT_EQ(pool->bytes(), 256U + 4096U) << "which are out";
  pool->give_back(one, {.last = ctx->work_stream().native_handle()});
  EXPECT_EQ(pool->bytes(), 4096U);
  EXPECT_EQ(ctx->reports().statistics().budget.current, 4096U);
  pool->give_back(page, {});
  EXPECT_EQ(ctx->reports().statistics().budget.current, 0U);
  EXPECT_THROW(static_cast<void>(graph_pool::create(nullptr)), error);
}

TEST(graph_pool_on_a_gpu, reuses_memory_freed_without_a_stream_only_within_its_scope) {
  const auto ctx = context::create(sim::device::create({.seed = 1, .how = sim::pace::automatic}));
  const auto pool = graph_pool::create(ctx);
  const auto take_one = [&] { return pool->take(4096, ctx->work_stream()); };
  /// Returns memory to the pool without a stream, and returns whether the next request gets it.
  const auto came_back = [&](const graph_pool::piece& ended) {
    pool->give_back(ended, {});
    const graph_pool::piece next = take_one();
    pool->give_back(next, {.last = ctx->work_stream().native_handle()});
    return next.begin == ended.begin;
  };
  std::optional<graph_pool_scope> scope;
  graph_pool::piece outside = take_one();
  EXPECT_FALSE(came_back(outside)) << "no scope at all";
  const auto other = pool->take(8192, ctx->work_stream());
  scope.emplace(pool);
  EXPECT_TRUE(came_back(take_one()));
  const graph_pool::piece inside = pool->take(12288, ctx->work_stream());
  pool->give_back(other, {});
  EXPECT_NE(pool->take(8192, ctx->work_stream()).begin, other.begin) << "went out before the scope";
  scope.reset();
  scope.emplace(pool);
  pool->give_back(inside, {});
  EXPECT_NE(pool->take(12288, ctx->work_stream()).begin, inside.begin) << "went out in the scope before";
  scope.reset();
}

TEST(streams_of_a_context, are_lent_to_one_borrower_at_a_time) {
  const auto ctx = context::create(sim::device::create({.seed = 1, .how = sim::pace::automatic}));
  { const stream_lease earlier = ctx->borrow_stream(); }
  const stream_lease one = ctx->borrow_stream();
  const stream_lease two = ctx->borrow_stream();
  EXPECT_FALSE(one.ref().same_handle(two.ref()));
}

TEST(movements_of_no_bytes, make_no_driver_call) {
  const auto faulty = std::make_shared<saeta::testing::faulty_backend>(sim::device::create({.seed = 1}));
  const auto ctx = context::create(faulty);
  faulty->fail_at(1);
  ctx->copies().fill(nullptr, 1, 0, ctx->work_stream());
  ctx->copies().copy(nullptr, nullptr, 0, copy_kind::device_to_host, ctx->work_stream());
  EXPECT_FALSE(faulty->failed());
}

TEST(a_hand_over, of_memory_without_pending_work_records_no_event) {
  const auto ctx = context::create(sim::device::create({.seed = 1, .how = sim::pace::automatic}));
  external_memory lent;
  lent.device = ctx->device();
  const std::array views{buffer::adopt(ctx, std::move(lent))};
  ctx->copies().reset_counters();
  synchronize_handover(views);
  order_handover(views, ctx->work_stream());
  EXPECT_EQ(ctx->copies().read_counters().events, 0U);
}

TEST(external_memory_of_a_context, has_its_own_device_and_generation) {
  const auto ctx = context::create(make_host_backend());
  std::uint8_t bytes[16];
  external_memory lent;
  lent.pointer = bytes;
  lent.bytes = sizeof bytes;
  lent.device = {device_kind::cuda, 3};
  const buffer one = buffer::adopt(ctx, lent);
  const buffer two = buffer::adopt(ctx, lent);
  EXPECT_EQ(ctx->copies().read_counters().imports, 2U);
  ctx->copies().reset_counters();
  EXPECT_EQ(ctx->copies().read_counters().imports, 0U);
  EXPECT_EQ(one.owner()->device(), lent.device);
  EXPECT_NE(one.owner()->generation(), 0U);
  EXPECT_NE(one.owner()->generation(), two.owner()->generation());
}

} // namespace
} // namespace saeta
