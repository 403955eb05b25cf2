// Memory lent to other libraries whose uses or returns can't be recorded, because the device fails.
#include "saeta/backend/sim/sim.hpp"
#include "saeta/base/report.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/memory/loans/graph_pool.hpp"
#include "saeta/memory/loans/lent_memory.hpp"
#include "support/faulty_backend.hpp"

#include <gtest/gtest.h>

namespace saeta {
namespace {

constexpr std::size_t lent_bytes = 4096;

TEST(lent_memory_with_an_unrecorded_use, waits_for_all_work_before_it_is_reused) {
  const auto device = sim::device::create({.seed = 1, .run_percent = 0});
  const auto ctx = context::create(device);
  const stream foreign(device);
  const stream_ref ours = ctx->work_stream();
  void* const lent = lend_memory(ctx, lent_bytes, ours, "lent");
  ctx->synchronize(ours);
  device->set_fail_percent(100);
  note_lent_use(lent, foreign.native_handle());
  device->set_fail_percent(0);
  device->fill(lent, 1, lent_bytes, foreign.native_handle());
  ctx->copies().reset_counters();
  take_back_memory(lent, lent_bytes, ours.native_handle());
  EXPECT_EQ(ctx->copies().read_counters().events, 1U) << "over the foreign stream, too";
  void* const next = lend_memory(ctx, lent_bytes, ours, "next");
  device->fill(next, 2, lent_bytes, ours.native_handle());
  ctx->synchronize(ours);
  EXPECT_TRUE(device->races().empty());
  take_back_memory(next, lent_bytes, ours.native_handle());
}

TEST(lent_memory_with_an_unrecorded_use, is_not_reused_by_its_pool) {
  const auto device = sim::device::create({.seed = 1});
  const auto ctx = context::create(device);
  const stream foreign(device);
  const auto pool = graph_pool::create(ctx, "graph");
  const stream_ref ours = ctx->work_stream();
  void* const lent = lend_memory(pool, lent_bytes, ours);
  device->set_fail_percent(100);
  note_lent_use(lent, foreign.native_handle());
  device->set_fail_percent(0);
  take_back_memory(lent, lent_bytes, ours.native_handle());
  void* const next = lend_memory(pool, lent_bytes, ours);
  EXPECT_NE(next, lent);
  take_back_memory(next, lent_bytes, ours.native_handle());
  EXPECT_EQ(lend_memory(pool, lent_bytes, ours), next) << "whose uses are known";
  take_back_memory(next, lent_bytes, ours.native_handle());
}

TEST(lent_memory_of_a_pool, returned_while_the_driver_fails_is_not_reused) {
  static int reports = 0;
  reports = 0;
  const report_sink before = set_report_sink([](std::string_view, std::string_view) noexcept { ++reports; });
  const auto device = sim::device::create({.seed = 1});
  const auto ctx = context::create(device);
  const auto pool = graph_pool::create(ctx, "graph");
  const stream_ref ours = ctx->work_stream();
  void* const lent = lend_memory(pool, lent_bytes, ours);
  device->set_fail_percent(100);
  take_back_memory(lent, lent_bytes, ours.native_handle());
  device->set_fail_percent(0);
  EXPECT_EQ(reports, 1);
  void* const next = lend_memory(pool, lent_bytes, ours);
  EXPECT_NE(next, lent) << "its last stream is unknown";
  take_back_memory(next, lent_bytes, ours.native_handle());
  set_report_sink(before);
}

TEST(lent_memory_that_comes_back, on_a_stream_that_can_not_be_marked_waits_for_all_work) {
  const report_sink before = set_report_sink([](std::string_view, std::string_view) noexcept {});
  const auto device = sim::device::create({.seed = 1, .run_percent = 0});
  const auto faulty = std::make_shared<testing::faulty_backend>(device);
  const auto ctx = context::create(faulty);
  const stream foreign(faulty);
  const stream_ref ours = ctx->work_stream();
  void* const lent = lend_memory(ctx, lent_bytes, ours, "lent");
  ctx->synchronize(ours);
  device->fill(lent, 1, lent_bytes, foreign.native_handle());
  ctx->copies().reset_counters();
  faulty->fail_at(1);
  take_back_memory(lent, lent_bytes, foreign.native_handle());
  EXPECT_TRUE(faulty->failed());
  faulty->fail_at(0);
  EXPECT_EQ(ctx->copies().read_counters().events, 1U) << "over all work";
  void* const next = lend_memory(ctx, lent_bytes, ours, "next");
  device->fill(next, 2, lent_bytes, ours.native_handle());
  ctx->synchronize(ours);
  EXPECT_TRUE(device->races().empty());
  take_back_memory(next, lent_bytes, ours.native_handle());
  set_report_sink(before);
}

} // namespace
} // namespace saeta
