// Contexts of the parent in a forked child: they refuse new work and never block, and host memory can be
// read.
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/backend/sim/sim.hpp"
#include "saeta/base/report.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/memory/context_parts.hpp"
#include "saeta/memory/export_hold.hpp"
#include "saeta/memory/loans/graph_pool.hpp"
#include "saeta/memory/loans/lent_memory.hpp"
#include "saeta/memory/use_token.hpp"
#include "support/child_process.hpp"

#include <gmock/gmock.h>

#include <array>
#include <mutex>
#include <optional>

namespace saeta {

struct stream_pool_probe {
  static std::mutex& mutex(stream_pool& of) { return of.mutex_; }
};

namespace {

using support::expect_in_a_child;
using ::testing::HasSubstr;

class service_of_nobody : public context_service {};

/// Makes a simulated device without threads, which a forked child would lack.
std::shared_ptr<sim::device> make_quiet_device() {
  return sim::device::create({.seed = 1, .run_percent = 0});
}

buffer keep(const std::shared_ptr<context>& from, std::size_t bytes, tag label = "kept") {
  return buffer::allocate(from, bytes, from->work_stream(), label);
}

buffer filled(const std::shared_ptr<context>& from, std::uint8_t value) {
  buffer made = keep(from, 64);
  use_token token(from->work_stream(), {writes(made)});
  from->copies().fill(token.span<std::uint8_t>(made).data(), value, made.size(), from->work_stream());
  token.finish();
  from->synchronize(from->work_stream());
  return made;
}

template <class Request>
void expect_refused(const Request& request, const char* part) {
  try {
    request();
    ADD_FAILURE() << "not refused";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::device);
    EXPECT_THAT(e.message(), HasSubstr(part));
  }
}

void expect_new_work_to_be_refused(const std::shared_ptr<context>& parents, const char* part) {
  const auto refused = [&](const auto& request) { expect_refused(request, part); };
  EXPECT_TRUE(parents->inherited());
  refused([&] { static_cast<void>(keep(parents, 64)); });
  refused([&] { static_cast<void>(buffer::adopt(parents, {})); });
  refused([&] { static_cast<void>(parents->with_budget("child")); });
  refused([&] { static_cast<void>(parents->with_reservation(1)); });
  refused([&] { static_cast<void>(parents->borrow_stream()); });
  refused([&] { parents->set_budget(5000); });
  refused([&] { static_cast<void>(parents->reports().statistics()); });
  refused([&] { static_cast<void>(parents->copies().read_counters()); });
  refused([&] { parents->copies().reset_counters(); });
  refused([&] { static_cast<void>(parents->reports().live_by_tag()); });
  refused([&] { static_cast<void>(parents->reports().live_by_budget()); });
  refused([&] {
    static_cast<void>(
        parents->services().of<service_of_nobody>([] { return std::make_unique<service_of_nobody>(); }));
  });
}

TEST(context_of_a_parent, refuses_new_work_with_advice) {
  const auto on_host = context::create(make_host_backend());
  const auto on_gpu = context::create(make_quiet_device());
  expect_in_a_child([&] {
    expect_new_work_to_be_refused(on_host, "open one in this process (open_context, saeta.context)");
    expect_new_work_to_be_refused(on_gpu, "spawn instead of fork");
    EXPECT_NO_THROW(on_host->require_readable());
    expect_refused([&] { on_gpu->require_readable(); }, "spawn instead of fork");
  });
  EXPECT_FALSE(on_host->inherited());
  EXPECT_NO_THROW(on_gpu->require_readable());
}

TEST(context_of_a_parent, frees_nothing_and_does_not_wait) {
  const auto device = make_quiet_device();
  context_options options;
  options.releases = release_thread::none;
  parse_stack("budget, direct", options.memory);
  const auto ctx = context::create(device, options);
  const auto promised = ctx->with_reservation(1000);
  const buffer kept = keep(ctx, 64);
  const block pinned = ctx->pinned().allocate(4096, 0, ctx->work_stream());
  EXPECT_TRUE(ctx->pinned().deallocate(pinned, std::span<const point>())); // gives trim() a cached block
  auto gate = device->close_gate(ctx->work_stream().native_handle());
  {
    const buffer pending = keep(ctx, 64, "pending");
    const use_token token(ctx->work_stream(), {writes(pending)});
    ctx->copies().fill(token.span<char>(pending).data(), 1, 64, ctx->work_stream());
  }
  EXPECT_EQ(ctx->reports().statistics().pending_releases, 1U);
  expect_in_a_child([&] {
    EXPECT_EQ(ctx->trim(), 0U);
    EXPECT_EQ(ctx->drain(), 0U);
    EXPECT_TRUE(ctx->wait_for_releases(std::chrono::milliseconds(0)));
    EXPECT_FALSE(ctx->closed());
    EXPECT_EQ(promised->close(), bytes_by_name{});
    EXPECT_EQ(promised->drawn_from()->left(), 1000U) << "it is the parent's to return";
    EXPECT_TRUE(promised->closed());
    EXPECT_FALSE(ctx->closed());
    EXPECT_EQ(ctx->close(), bytes_by_name{});
    EXPECT_TRUE(ctx->closed());
  });
  EXPECT_FALSE(ctx->closed());
  EXPECT_FALSE(ctx->wait_for_releases(std::chrono::milliseconds(0)));
  gate->open();
  device->run();
  EXPECT_TRUE(ctx->wait_for_releases(std::chrono::milliseconds(0)));
  EXPECT_GT(ctx->trim(), 0U);
}

TEST(context_of_a_parent, takes_a_stream_back_without_a_lock) {
  const auto device = make_host_backend();
  stream_pool streams(timelines::of(*device), 1);
  std::optional<stream_lease> lease(streams.borrow(nullptr));
  std::unique_lock elsewhere(
      stream_pool_probe::mutex(streams)); // as another thread of the parent may have held it
  expect_in_a_child([&] { lease.reset(); });
  elsewhere.unlock();
  lease.reset();
  EXPECT_NO_THROW(static_cast<void>(streams.borrow(nullptr))) << "the only one is back";
}

TEST(context_of_a_parent, lets_a_child_read_host_memory_in_any_state) {
  const auto parents = context::create(make_host_backend());
  const buffer theirs = filled(parents, 7);
  const buffer open = filled(parents, 8);
  const use_token token_of_parent(parents->work_stream(), {writes(open)});
  expect_in_a_child([&] {
    const auto own = context::create(make_host_backend());
    const buffer mine = filled(own, 9);
    for (const stream_ref& stream : {parents->work_stream(), own->work_stream()}) {
      use_token token(stream, {reads(theirs), reads(open), updates(theirs)});
      EXPECT_EQ(*token.span<const std::uint8_t>(theirs).data(), 7);
      EXPECT_EQ(*token.span<const std::uint8_t>(open).data(), 8);
      use_token again(stream, {reads(theirs), writes(open)});
      again.finish();
      token.finish();
    }
    {
      use_token both(own->work_stream(), {writes(mine), reads(open), reads(theirs)});
      EXPECT_EQ(*both.span<const std::uint8_t>(open).data(), 8);
      EXPECT_THROW(use_token(own->work_stream(), {reads(open), reads(theirs), reads(mine)}), error) << "busy";
      *both.span<std::uint8_t>(mine).data() = 1;
    }
    const use_token after(own->work_stream(), {reads(open), reads(mine)});
    EXPECT_EQ(*after.span<const std::uint8_t>(mine).data(), 1) << "the refused token held nothing";
    order_handover(std::array{open, theirs}, own->work_stream());
    synchronize_handover(std::array{open, theirs});
  });
}

TEST(context_of_a_parent, does_not_let_a_child_read_the_memory_of_a_gpu) {
  const auto parents = context::create(make_quiet_device());
  const buffer theirs = filled(parents, 7);
  expect_in_a_child([&] {
    const auto part = "spawn instead of fork";
    expect_refused([&] { const use_token token(parents->work_stream(), {reads(theirs)}); }, part);
    expect_refused([&] { synchronize_handover(std::array{theirs}); }, part);
    expect_refused([&] { order_handover(std::array{theirs}, parents->work_stream()); }, part);
  });
}

TEST(context_of_a_parent, is_not_changed_by_exports_of_a_child) {
  const auto parents = context::create(make_host_backend());
  const buffer theirs = filled(parents, 7);
  expect_in_a_child([&] {
    const auto own = context::create(make_host_backend());
    const buffer mine = filled(own, 9);
    const auto unknown = [](const buffer& asked) {
      return asked.owner()->ordering().find_dependencies(access::read, "asked").unknown;
    };
    {
      const export_hold hold(std::array{theirs, mine, theirs}, access::write);
      EXPECT_FALSE(unknown(theirs));
      EXPECT_TRUE(unknown(mine));
    }
    EXPECT_FALSE(unknown(theirs));
    EXPECT_TRUE(unknown(mine));
    EXPECT_EQ(parents->copies().count().read().exports, 0U);
    EXPECT_EQ(own->copies().count().read().exports, 1U);
    { const use_token token(own->work_stream(), {reads(theirs), reads(mine)}); }
    EXPECT_FALSE(unknown(mine)) << "the token has waited for it";
    export_hold named(std::array{theirs, mine}, access::write);
    named.end_on(own->work_stream().native_handle());
    EXPECT_FALSE(unknown(theirs));
    EXPECT_FALSE(unknown(mine)) << "the stream is known";
  });
}

TEST(context_of_a_parent, refuses_its_graph_pools_to_a_child) {
  const auto ctx = context::create(make_host_backend());
  const auto pool = graph_pool::create(ctx, "decoder");
  const graph_pool::piece kept = pool->take(1000, ctx->work_stream());
  EXPECT_GE(pool->bytes(), 1000U);
  expect_in_a_child([&] {
    EXPECT_EQ(pool->bytes(), 0U);
    expect_refused([&] { static_cast<void>(pool->take(64, ctx->work_stream())); },
                   "the graph pool 'decoder' belongs to the parent");
    pool->release();
  });
  pool->give_back(kept, {.last = ctx->work_stream().native_handle()});
}

TEST(context_of_a_parent, ignores_lent_memory_that_a_child_returns) {
  static int reports;
  reports = 0;
  const report_sink before = set_report_sink([](std::string_view, std::string_view) noexcept { ++reports; });
  const auto ctx = context::create(make_host_backend());
  const stream_handle stream = ctx->work_stream().native_handle();
  void* const lent = lend_memory(ctx, 64, ctx->work_stream(), "lent");
  expect_in_a_child([&] {
    note_lent_use(lent, stream);
    take_back_memory(lent, 64, stream);
    EXPECT_EQ(reports, 0);
  });
  take_back_memory(lent, 64, stream);
  EXPECT_EQ(reports, 0);
  take_back_memory(lent, 64, stream);
  EXPECT_EQ(reports, 1) << "twice in its own process";
  set_report_sink(before);
}

} // namespace
} // namespace saeta
