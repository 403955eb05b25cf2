#include "conformance/harness/context_test.hpp"

#include "saeta/base/error.hpp"
#include "saeta/memory/export_hold.hpp"
#include "saeta/observe/sinks/log_sinks.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <iterator>
#include <thread>
#include <vector>

namespace saeta::conformance {
namespace {

class contexts : public context_test {};

TEST_P(contexts, count_each_copy_by_its_kind) {
  const buffer b = make(1000);
  std::vector<std::uint8_t> host(1000, 7);
  const copy_kind up = ctx()->on_host() ? copy_kind::host_to_host : copy_kind::host_to_device;
  {
    use_token token(ctx()->work_stream(), {writes(b)});
    ctx()->copies().count_transfer(up);
    ctx()->copies().copy(token.span<char>(b).data(), host.data(), 600, up, token.stream());
    ctx()->copies().copy(token.span<char>(b).data() + 600, host.data(), 400, up, token.stream());
  }
  const counter_values seen = ctx()->copies().read_counters();
  const traffic expected{1, 2, 1000};
  EXPECT_EQ(ctx()->on_host() ? seen.host_to_host : seen.host_to_device, expected);
  EXPECT_EQ(seen.synchronizations, 0U);
  EXPECT_EQ(seen.allocations, 1U);
  EXPECT_EQ(read(b), host);
  ctx()->copies().reset_counters();
  EXPECT_EQ(ctx()->copies().read_counters(), counter_values{});
}

TEST_P(contexts, count_events_only_between_different_streams) {
  const auto use_on = [&](const stream_ref& stream) {
    const buffer b = buffer::allocate(ctx(), 4096, stream, "one");
    const use_token token(stream, {writes(b)});
    ctx()->copies().fill(token.span<char>(b).data(), 1, 4096, stream);
    return b;
  };
  static_cast<void>(use_on(ctx()->work_stream())); // the first use of a slab waits for its allocation
  ctx()->copies().reset_counters();
  for (int round = 0; round < 100; ++round) {
    static_cast<void>(use_on(ctx()->work_stream()));
  }
  EXPECT_EQ(ctx()->copies().read_counters().events, 0U);
  EXPECT_EQ(ctx()->copies().read_counters().allocations, 100U);
  const buffer b = use_on(ctx()->work_stream());
  const stream_lease other = ctx()->borrow_stream();
  static_cast<void>(use_token(other.ref(), {reads(b)}));
  EXPECT_EQ(ctx()->copies().read_counters().events, ctx()->on_host() ? 0U : 1U);
  ctx()->copies().reset_counters();
  EXPECT_EQ(ctx()->copies().read_counters().events, 0U);
}

TEST_P(contexts, count_scalar_reads_separately_and_limit_them) {
  const buffer b = make(64);
  fill(b, 0x11, ctx()->work_stream());
  use_token token(ctx()->work_stream(), {reads(b)});
  std::uint64_t value = 0;
  ctx()->copies().read_scalar(&value, token.span<const std::uint64_t>(b).data(), sizeof value,
                              token.stream());
  EXPECT_EQ(value, 0x1111111111111111U);
  const traffic expected{1, 1, sizeof value};
  EXPECT_EQ(ctx()->copies().read_counters().scalars, expected);
  EXPECT_EQ(ctx()->copies().read_counters().device_to_host, traffic{});
  EXPECT_EQ(ctx()->copies().read_counters().synchronizations, ctx()->on_host() ? 0U : 1U);
  std::uint8_t big[17] = {};
  ctx()->copies().read_scalar(big, token.span<const char>(b).data(), 16, token.stream());
  EXPECT_EQ(std::count(std::begin(big), std::end(big), 0x11), 16);
  try {
    ctx()->copies().read_scalar(big, token.span<const char>(b).data(), 17, token.stream());
    ADD_FAILURE() << "not refused";
  } catch (const error& e) {
    EXPECT_EQ(e.message(), "can't read a scalar of 17 bytes: at most 16 are supported");
  }
}

TEST_P(contexts, count_each_wait_of_the_host_once) {
  const bool waits = !ctx()->on_host();
  const stream_lease other = ctx()->borrow_stream();
  const buffer b = make(64);
  const auto counted = [&] {
    const std::uint64_t seen = ctx()->copies().read_counters().synchronizations;
    ctx()->copies().reset_counters();
    return seen;
  };
  ctx()->synchronize(ctx()->work_stream());
  EXPECT_EQ(counted(), waits ? 1U : 0U);
  fill(b, 1, ctx()->work_stream());
  point_set both;
  both.add(mark(ctx()->work_stream()));
  both.add(mark(other.ref()));
  ctx()->synchronize(both);
  EXPECT_EQ(counted(), waits ? 1U : 0U) << "once for all points";
  ctx()->synchronize(point_set());
  EXPECT_EQ(counted(), 0U);
}

TEST_P(contexts, ignore_copies_and_fills_of_zero_bytes) {
  const auto strict = ctx()->copies().forbid_downloads();
  ctx()->copies().copy(nullptr, nullptr, 0, to_host(), ctx()->work_stream());
  ctx()->copies().fill(nullptr, 1, 0, ctx()->work_stream());
  EXPECT_EQ(ctx()->copies().read_counters(), counter_values{});
  EXPECT_NO_THROW(ctx()->copies().require_downloads(0));
}

TEST_P(contexts, free_cached_memory_beyond_a_new_limit) {
  context_options options;
  parse_stack("budget, caching", options.memory);
  const auto ctx = new_context(options);
  const auto child = watch(ctx->with_budget("child"));
  static_cast<void>(buffer::allocate(ctx, 1000, ctx->work_stream()));
  EXPECT_TRUE(ctx->wait_for_releases(std::chrono::minutes(5)));
  const std::uint64_t cached = ctx->reports().statistics().held;
  EXPECT_GT(cached, 1000U);
  child->set_budget(1);
  EXPECT_EQ(ctx->reports().statistics().held, cached) << "the cache is not the child's";
  ctx->set_budget(cached);
  EXPECT_EQ(ctx->reports().statistics().held, cached) << "not beyond it";
  ctx->set_budget(cached - 1);
  EXPECT_EQ(ctx->reports().statistics().held, 0U);
  EXPECT_EQ(ctx->reports().statistics().budget.limit, cached - 1);
}

TEST_P(contexts, log_drains_that_ran_releases) {
  context_options options;
  options.releases = release_thread::none;
  const auto ctx = new_context(options);
  const auto sink = std::make_shared<memory_sink>();
  const auto held = close_gate(ctx->work_stream().native_handle());
  {
    external_memory lent;
    lent.device = ctx->device();
    lent.keepalive = std::make_shared<int>();
    const buffer view = buffer::adopt(ctx, std::move(lent));
    const use_token token(ctx->work_stream(), {reads(view)});
  }
  EXPECT_EQ(ctx->reports().statistics().pending_releases, held ? 1U : 0U);
  if (held) {
    held->open();
    ctx->synchronize(ctx->work_stream());
  }
  ctx->reports().log()->attach(sink);
  EXPECT_EQ(ctx->drain(), held ? 1U : 0U);
  EXPECT_EQ(ctx->drain(), 0U);
  ctx->reports().log()->detach(sink);
  const auto records = sink->records();
  std::vector<log_record> drains;
  std::copy_if(records.begin(), records.end(), std::back_inserter(drains),
               [](const log_record& each) { return each.event == memory_event::drain; });
  ASSERT_EQ(drains.size(), held ? 1U : 0U);
  for (const log_record& each : drains) {
    EXPECT_EQ(each.bytes, 1U);
    EXPECT_EQ(each.device, ctx->device());
    EXPECT_EQ(each.outcome, "ok");
  }
}

TEST_P(contexts, count_own_external_pinned_and_foreign_bytes_separately) {
  constexpr std::size_t foreign = 64 << 20;
  const buffer own = make(1000);
  const block pinned = ctx()->pinned().allocate(4096, 0, ctx()->work_stream());
  external_memory lent;
  lent.pointer = reinterpret_cast<void*>(own.address());
  lent.bytes = 300;
  lent.device = ctx()->device();
  lent.keepalive = own.owner();
  lent.tag = "lent";
  const buffer view = buffer::adopt(ctx(), std::move(lent));
  const std::uint64_t before = ctx()->reports().foreign_bytes();
  const auto other_library = GetParam().make();
  void* const taken = other_library->allocate(foreign, 0);

  const memory_statistics now = ctx()->reports().statistics();
  EXPECT_EQ(now.ledger.own, 1000U);
  EXPECT_EQ(now.ledger.external, 300U);
  EXPECT_EQ(now.budget.current, ctx()->on_host() ? 5096U : 1000U)
      << "views are not charged, and page-locked memory is the host's";
  EXPECT_EQ(ctx()->pinned_budget()->statistics().current, ctx()->on_host() ? 5096U : 4096U);
  EXPECT_EQ(now.pinned, 4096U);
  EXPECT_GE(now.held, 1000U);
  EXPECT_GE(ctx()->reports().foreign_bytes(), ctx()->on_host() ? 0 : before + foreign);
  const bytes_by_name expected{{"test", 1000}, {"external:lent", 300}};
  EXPECT_EQ(ctx()->reports().live_by_tag(), expected);

  EXPECT_TRUE(other_library->deallocate(taken, foreign, 0));
  EXPECT_TRUE(ctx()->pinned().deallocate(pinned, ctx()->work_stream()));
}

TEST_P(contexts, lend_a_bounded_number_of_streams) {
  context_options options;
  options.max_streams = 2;
  const auto ctx = new_context(options);
  std::optional<stream_lease> one(ctx->borrow_stream());
  const stream_lease two = ctx->borrow_stream();
  EXPECT_FALSE(one->ref() == two.ref());
  try {
    const auto three = ctx->borrow_stream();
    FAIL() << "a third stream of two";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::busy);
    EXPECT_THAT(e.message(), ::testing::StartsWith("all 2 streams of"));
  }
  const std::uint64_t returned = one->ref().id();
  one.reset();
  for (int round = 0; round < 5; ++round) {
    EXPECT_EQ(ctx->borrow_stream().ref().id(), returned) << "streams are kept";
  }
}

TEST_P(contexts, get_a_stream_back_once_from_its_last_lease) {
  context_options options;
  options.max_streams = 1;
  const auto ctx = new_context(options);
  std::optional<stream_lease> first(ctx->borrow_stream());
  std::optional<stream_lease> last(std::move(*first));
  first.reset();
  EXPECT_THROW(static_cast<void>(ctx->borrow_stream()), error);
  last.reset();
  const stream_lease again = ctx->borrow_stream();
  EXPECT_NO_THROW(static_cast<void>(again.ref().idle()));
  EXPECT_THROW(static_cast<void>(ctx->borrow_stream()), error);
}

TEST_P(contexts, create_each_kind_of_service_once) {
  static int ended;
  ended = 0;
  struct first_kind : context_service {
    ~first_kind() override { ++ended; }
  };
  struct second_kind : context_service {};
  int made = 0;
  const auto first_of = [&](context& asked) {
    return &asked.services().of<first_kind>([&] {
      ++made;
      return std::make_unique<first_kind>();
    });
  };
  auto child = ctx()->with_budget("child");
  first_kind* const first = first_of(*ctx());
  EXPECT_EQ(first_of(*child), first);
  EXPECT_EQ(made, 1);
  child.reset();
  EXPECT_EQ(ended, 0) << "it is the device's, not the child's";
  static_cast<void>(ctx()->services().of<second_kind>([&] {
    ++made;
    return std::make_unique<second_kind>();
  }));
  EXPECT_EQ(made, 2);
  context_.reset();
  EXPECT_EQ(ended, 1);
}

TEST_P(contexts, report_live_memory_at_close_and_refuse_new_work) {
  buffer kept = make(128, "kept");
  const auto alive = ctx()->close();
  const std::vector<std::pair<std::string, std::uint64_t>> expected{{"kept", 128}};
  EXPECT_EQ(alive, expected);
  EXPECT_THROW(static_cast<void>(make(1)), error);
  EXPECT_THROW(static_cast<void>(ctx()->borrow_stream()), error);
  kept = {};
  EXPECT_TRUE(ctx()->close().empty()) << "what lived could still be dropped";
}

TEST_P(contexts, are_closed_with_their_root_context) {
  const auto child = ctx()->with_budget("child");
  const auto grandchild = child->with_budget("grandchild");
  const auto beside = ctx()->with_reservation(1000);
  EXPECT_FALSE(grandchild->closed());
  child->close();
  EXPECT_TRUE(child->closed());
  EXPECT_TRUE(grandchild->closed());
  EXPECT_FALSE(ctx()->closed());
  EXPECT_FALSE(beside->closed());
  EXPECT_NO_THROW(static_cast<void>(make(64)));
  EXPECT_THROW(static_cast<void>(buffer::allocate(grandchild, 64, grandchild->work_stream())), error);
  ctx()->close();
  EXPECT_TRUE(ctx()->closed());
  EXPECT_TRUE(beside->closed());
  EXPECT_THROW(static_cast<void>(ctx()->with_budget("late")), error);
  EXPECT_THROW(static_cast<void>(ctx()->with_reservation(1)), error);
}

TEST_P(contexts, release_their_reservation_at_close) {
  const auto promised = ctx()->with_reservation(1000);
  EXPECT_EQ(ctx()->reports().statistics().budget.reserved, 1000U);
  promised->close();
  EXPECT_EQ(ctx()->reports().statistics().budget.reserved, 0U);
}

TEST_P(contexts, trim_returns_the_freed_bytes) {
  context_options options;
  parse_stack("budget, caching", options.memory);
  const auto ctx = new_context(options);
  static_cast<void>(buffer::allocate(ctx, 1000, ctx->work_stream()));
  EXPECT_TRUE(ctx->wait_for_releases(std::chrono::minutes(5)));
  const block pinned = ctx->pinned().allocate(5000, 0, ctx->work_stream());
  EXPECT_TRUE(ctx->pinned().deallocate(pinned, std::span<const point>()));
  const memory_statistics before = ctx->reports().statistics();
  EXPECT_EQ(before.pinned, 8192U);
  EXPECT_GT(before.held, 1000U);
  const std::uint64_t pool = ctx->device_backend()->pool_bytes(); // the pool may free more than requested
  const std::size_t went_back = ctx->trim();
  EXPECT_GE(went_back, before.held + before.pinned);
  EXPECT_LE(went_back, std::max(before.held, pool) + before.pinned);
  EXPECT_EQ(ctx->reports().statistics().held, 0U);
  EXPECT_EQ(ctx->reports().statistics().pinned, 0U);
}

TEST_P(contexts, refuse_downloads_in_strict_mode_before_they_happen) {
  const buffer b = make(64);
  fill(b, 7, ctx()->work_stream());
  const auto child = ctx()->with_budget("child");
  auto strict = ctx()->copies().forbid_downloads();
  auto nested = child->copies().forbid_downloads();
  const counter_values before = ctx()->copies().read_counters();
  const auto refused = [&] {
    try {
      return read(b) != std::vector<std::uint8_t>(64, 7);
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::download_forbidden);
      EXPECT_THAT(e.message(), ::testing::HasSubstr("64 bytes"));
      return true;
    }
  };
  EXPECT_EQ(refused(), !ctx()->on_host());
  EXPECT_EQ(ctx()->copies().read_counters().device_to_host, before.device_to_host);
  std::uint32_t value = 0;
  {
    const use_token token(ctx()->work_stream(), {reads(b)});
    ctx()->copies().read_scalar(&value, token.span<const std::uint8_t>(b).data(), sizeof value,
                                ctx()->work_stream());
  }
  EXPECT_EQ(value, 0x07070707U) << "metadata may be read";
  strict.reset();
  EXPECT_EQ(refused(), !ctx()->on_host()) << "the other one is still on";
  nested.reset();
  EXPECT_FALSE(refused());
}

TEST_P(contexts, end_with_their_last_buffer) {
  const std::weak_ptr<context> alive = context_->weak_from_this();
  buffer last = make(64);
  context_.reset();
  EXPECT_FALSE(alive.expired());
  last = {};
  EXPECT_TRUE(alive.expired());
}

TEST_P(contexts, are_kept_alive_by_the_context_of_a_buffer) {
  const std::weak_ptr<context> alive = context_->weak_from_this();
  buffer last = make(64);
  context_.reset();
  std::shared_ptr<context> told = last.owner()->ctx();
  buffer second = buffer::allocate(told, 64, told->work_stream());
  last = {};
  told.reset();
  EXPECT_FALSE(alive.expired()) << "the second buffer keeps it";
  const std::shared_ptr<context> again = second.owner()->ctx();
  second = {};
  EXPECT_FALSE(alive.expired());
  EXPECT_THAT(again->reports().live_by_tag(), ::testing::IsEmpty());
}

TEST_P(contexts, end_once_if_threads_drop_them_concurrently) {
  constexpr std::size_t threads = 3;
  for (int round = 0; round < 20; ++round) {
    std::shared_ptr<context> mine = watch(context::create(ctx()->device_backend()));
    const std::weak_ptr<context> alive = mine->weak_from_this();
    std::barrier together(threads + 1);
    std::vector<std::jthread> running;
    for (std::size_t t = 0; t < threads; ++t) {
      running.emplace_back([&together, own = buffer::allocate(mine, 64, mine->work_stream())]() mutable {
        together.arrive_and_wait();
        own = {};
      });
    }
    together.arrive_and_wait();
    mine.reset();
    running.clear();
    ASSERT_TRUE(alive.expired());
  }
}

TEST_P(contexts, expire_for_users_although_a_buffer_keeps_them_alive) {
  const std::weak_ptr<context> handed_out = context_;
  const std::weak_ptr<context> alive = context_->weak_from_this();
  buffer last = make(64);
  context_.reset();
  EXPECT_TRUE(handed_out.expired());
  EXPECT_FALSE(alive.expired());
  last = {};
  EXPECT_TRUE(alive.expired());
}

TEST_P(contexts, outlive_the_keepalives_of_external_memory) {
  const std::weak_ptr<context> alive = context_->weak_from_this();
  std::atomic<bool> was_alive{false};
  std::uint8_t bytes[16];
  external_memory lent;
  lent.pointer = bytes;
  lent.bytes = sizeof bytes;
  lent.device = ctx()->device();
  lent.keepalive = std::shared_ptr<void>(nullptr, [&](void*) { was_alive = !alive.expired(); });
  lent.tag = "lent";
  buffer view = buffer::adopt(ctx(), std::move(lent));
  const auto held = close_gate(ctx()->work_stream().native_handle());
  { const use_token token(ctx()->work_stream(), {reads(view)}); }
  context_.reset();
  view = {};
  if (held) {
    EXPECT_FALSE(alive.expired());
    held->open();
  }
  EXPECT_TRUE(comes_true([&] { return alive.expired(); }));
  EXPECT_TRUE(was_alive);
}

TEST_P(contexts, slices_share_their_storage_and_stay_inside_it) {
  const buffer whole = make(100);
  const buffer part = whole.slice(10, 20).slice(5, 15);
  EXPECT_EQ(part.address(), whole.address() + 15);
  EXPECT_EQ(part.size(), 15U);
  EXPECT_EQ(part.owner(), whole.owner());
  EXPECT_EQ(part.offset(), 15U);
  EXPECT_EQ(part.slice(1, 14).size(), 14U);
  EXPECT_EQ(whole.slice(100, 0).size(), 0U);
  EXPECT_THROW(static_cast<void>(part.slice(1, 15)), error);
  EXPECT_THROW(static_cast<void>(whole.slice(101, 0)), error);
}

TEST_P(contexts, tokens_give_access_only_to_their_buffers) {
  const buffer a = make(64);
  const buffer b = make(64);
  use_token token(ctx()->work_stream(), {reads(a), reads(buffer{})});
  EXPECT_EQ(token.span<const char>(buffer{}).data(), nullptr) << "an absent buffer";
  EXPECT_NE(token.span<const double>(a).data(), nullptr);
  EXPECT_THROW(static_cast<void>(token.span<const char>(b).data()), error);
  EXPECT_THROW(static_cast<void>(token.span<char>(a).data()), error);
  EXPECT_THROW(static_cast<void>(token.span<const double>(a.slice(1, 8)).data()), error) << "misaligned";
  token.finish();
  EXPECT_THROW(static_cast<void>(token.span<const char>(a).data()), error) << "after the end";
}

SAETA_CONFORMANCE_SUITE(contexts);

} // namespace
} // namespace saeta::conformance
