// Graph pools: memory that a capture allocates belongs to its graph until the pool is released. Allocating
// must not invalidate the capture.
//
// The simulated device does not run captured work, so tests simulate the launch of a graph by work on a
// stream that is ordered only with the host. The device reports missing waits.
#include "conformance/harness/context_test.hpp"
#include "conformance/harness/graph_capture.hpp"
#include "saeta/base/error.hpp"
#include "saeta/base/report.hpp"
#include "saeta/memory/export_hold.hpp"
#include "saeta/memory/loans/graph_pool.hpp"
#include "saeta/memory/loans/lent_memory.hpp"

#include <gmock/gmock.h>

#include <array>
#include <optional>
#include <set>
#include <thread>

namespace saeta::conformance {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t pool_bytes = 2 << 20;
constexpr const char* captures_nothing = "the host captures no graphs";

std::string& last_pool_report() {
  static std::string text;
  return text;
}

class graph_pools : public context_test {
protected:
  void SetUp() override {
    context_test::SetUp();
    foreign_.emplace(shared_device());
    other_.emplace(shared_device());
    ours_.emplace(ctx()->borrow_stream());
    pool_ = graph_pool::create(ctx(), "graph");
    last_pool_report().clear();
    before_ = set_report_sink(
        [](std::string_view, std::string_view message) noexcept { last_pool_report() = message; });
  }
  void TearDown() override {
    pool_.reset();
    EXPECT_EQ(charged(), 0U) << "every charge was given back";
    EXPECT_EQ(last_pool_report(), "");
    set_report_sink(before_);
    ours_.reset();
    other_.reset();
    foreign_.reset();
    context_test::TearDown();
  }
  /// Returns the stream of another library on which graphs are captured.
  [[nodiscard]] stream_ref foreign() const { return foreign_->ref(); }
  [[nodiscard]] stream_ref other() const { return other_->ref(); }
  [[nodiscard]] stream_ref ours() const { return ours_->ref(); }
  [[nodiscard]] stream_handle handle() const { return foreign_->native_handle(); }
  [[nodiscard]] stream_handle other_handle() const { return other_->native_handle(); }
  [[nodiscard]] const std::shared_ptr<graph_pool>& pool() const { return pool_; }
  [[nodiscard]] bool captures() const { return !ctx()->on_host(); }
  [[nodiscard]] std::uint64_t charged() const {
    EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(60)));
    return ctx()->memory_budget()->statistics().current;
  }
  /// Allocates from the pool on the capturing stream, as the allocator of another library does.
  [[nodiscard]] void* lend(std::size_t size = pool_bytes) const {
    return lend_memory(ctx(), size, foreign(), "array");
  }
  void take_back(void* address, std::size_t size = pool_bytes) const {
    take_back_memory(address, size, handle());
  }
  /// Allocates and frees memory of the pool in a capture. Returns its address.
  [[nodiscard]] void* captured_and_freed() const {
    const graph_pool_scope open(pool());
    graph_capture capture(device(), handle());
    void* const address = lend();
    take_back(address);
    EXPECT_TRUE(capture.end());
    return address;
  }
  void launch(void* address, stream_ref stream, std::uint8_t value = 1) const {
    device().fill(address, value, pool_bytes, stream.native_handle());
  }
  void join(stream_ref follower, stream_ref leader) const {
    const event here(shared_device());
    here.ref().record(leader);
    follower.wait(here.ref());
  }

private:
  std::optional<stream> foreign_;
  std::optional<stream> other_;
  std::optional<stream_lease> ours_;
  std::shared_ptr<graph_pool> pool_;
  report_sink before_ = nullptr;
};

TEST_P(graph_pools, serve_allocations_in_a_capture_without_invalidating_it) {
  if (!captures()) {
    GTEST_SKIP() << captures_nothing;
  }
  const graph_pool_scope open(pool());
  graph_capture capture(device(), handle());
  void* const first = lend();
  void* const second = lend();
  EXPECT_NE(first, second);
  EXPECT_EQ(ctx()->reports().live_by_tag(), (bytes_by_name{{"graph", 2 * pool_bytes}}));
  EXPECT_EQ(pool()->bytes(), 2 * pool_bytes);
  take_back(first);
  EXPECT_EQ(lend(), first) << "freed in the capture, and had again by it";
  EXPECT_TRUE(capture.end());
  take_back(first);
  take_back(second);
  EXPECT_EQ(charged(), 2 * pool_bytes);
}

TEST_P(graph_pools, are_suggested_if_a_capture_allocates_without_one) {
  if (!captures()) {
    GTEST_SKIP() << captures_nothing;
  }
  { const graph_pool_scope ended(pool()); }
  graph_capture capture(device(), handle());
  try {
    static_cast<void>(lend());
    FAIL() << "whose would it be?";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::invalid_argument);
    EXPECT_THAT(e.message(), HasSubstr("saeta.allocators.graph_pool"));
  }
  EXPECT_EQ(lend(0), nullptr) << "a request of zero bytes needs no pool";
  EXPECT_TRUE(capture.end());
}

TEST_P(graph_pools, serve_only_the_capturing_stream) {
  const graph_pool_scope open(pool());
  void* const before = lend_memory(ctx(), pool_bytes, foreign(), "array");
  EXPECT_EQ(ctx()->reports().live_by_tag(), (bytes_by_name{{"array", pool_bytes}}));
  if (captures()) {
    graph_capture capture(device(), handle());
    std::thread([&] { EXPECT_THROW(static_cast<void>(lend()), error) << "another thread"; }).join();
    EXPECT_EQ(graph_pool_scope::open_for(device()), pool());
    EXPECT_EQ(graph_pool_scope::open_for(*GetParam().make()), nullptr) << "another device";
    EXPECT_TRUE(capture.end());
  }
  take_back(before);
}

TEST_P(graph_pools, serve_from_the_innermost_scope) {
  if (!captures()) {
    GTEST_SKIP() << captures_nothing;
  }
  const auto share = ctx()->with_budget("share");
  const auto inner = graph_pool::create(share, "inner");
  const graph_pool_scope outer_scope(pool());
  graph_capture capture(device(), handle());
  {
    const graph_pool_scope inner_scope(inner);
    take_back(lend());
    EXPECT_EQ(share->memory_budget()->statistics().current, pool_bytes);
  }
  take_back(lend());
  EXPECT_EQ(ctx()->reports().live_by_tag(), (bytes_by_name{{"graph", pool_bytes}, {"inner", pool_bytes}}));
  EXPECT_TRUE(capture.end());
}

TEST_P(graph_pools, keep_freed_memory_until_they_are_released) {
  if (!captures()) {
    GTEST_SKIP() << captures_nothing;
  }
  void* const address = captured_and_freed();
  EXPECT_EQ(charged(), pool_bytes);
  std::set<void*> others;
  for (int i = 0; i < 16; ++i) {
    others.insert(lend_memory(ctx(), pool_bytes, ours(), "others"));
  }
  EXPECT_FALSE(others.contains(address)) << "the graph would write into it";
  for (void* const each : others) {
    take_back_memory(each, pool_bytes, ours().native_handle());
  }
}

TEST_P(graph_pools, are_released_after_running_graphs) {
  void* const address = captures() ? captured_and_freed() : lend_memory(pool(), pool_bytes, foreign());
  if (!captures()) {
    take_back(address);
  }
  const auto running = close_gate(other_handle());
  launch(address, other());
  pool()->release();
  EXPECT_EQ(ctx()->reports().statistics().pending_releases, 0U)
      << "the reuse is ordered, or there is nothing to wait for";
  std::set<void*> next;
  const auto lend_next = [&] {
    void* const lent = lend_memory(ctx(), pool_bytes, ours(), "next");
    launch(lent, ours(), 2);
    next.insert(lent);
  };
  lend_next();
  if (running) {
    EXPECT_FALSE(next.contains(address) && ours().idle()) << "the next owner did not wait for the graph";
    running->open();
  }
  while (next.size() < 24 && !next.contains(address)) {
    lend_next();
  }
  EXPECT_TRUE(next.contains(address)) << "never lent again, so nothing is shown";
  std::vector<std::uint8_t> found(pool_bytes);
  device().copy(found.data(), address, pool_bytes, to_host(), ours().native_handle());
  ctx()->synchronize(ours());
  EXPECT_EQ(found, std::vector<std::uint8_t>(pool_bytes, 2));
  for (void* const each : next) {
    take_back_memory(each, pool_bytes, ours().native_handle());
  }
}

TEST_P(graph_pools, use_only_memory_without_pending_users) {
  if (!captures()) {
    GTEST_SKIP() << captures_nothing;
  }
  void* const earlier = lend_memory(ctx(), pool_bytes, ours(), "earlier");
  launch(earlier, ours());
  take_back_memory(earlier, pool_bytes, ours().native_handle());
  const graph_pool_scope open(pool());
  graph_capture capture(device(), handle());
  std::set<void*> lent;
  while (lent.size() < 31 && !lent.contains(earlier)) {
    lent.insert(lend());
  }
  EXPECT_TRUE(capture.end());
  EXPECT_TRUE(lent.contains(earlier)) << "never lent again, so nothing is shown";
  launch(earlier, other(), 2);
  ctx()->synchronize(other());
  std::vector<std::uint8_t> found(pool_bytes);
  device().copy(found.data(), earlier, pool_bytes, to_host(), other_handle());
  ctx()->synchronize(other());
  EXPECT_EQ(found, std::vector<std::uint8_t>(pool_bytes, 2));
  for (void* const each : lent) {
    take_back(each);
  }
}

TEST_P(graph_pools, reuse_memory_in_a_capture_that_only_its_stream_has_used) {
  if (!captures()) {
    GTEST_SKIP() << captures_nothing;
  }
  const graph_pool_scope open(pool());
  graph_capture capture(device(), handle());
  void* const own = lend();
  void* const noted = lend();
  void* const freed_elsewhere = lend();
  join(other(), foreign());
  note_lent_use(own, handle());
  take_back(own);
  void* const on_other = lend_memory(ctx(), pool_bytes, other(), "array");
  EXPECT_NE(on_other, own) << "nothing orders the two streams";
  note_lent_use(noted, other_handle());
  take_back(noted);
  take_back_memory(freed_elsewhere, pool_bytes, other_handle());
  const std::set<void*> next{lend(), lend(), lend()};
  EXPECT_TRUE(next.contains(own));
  EXPECT_FALSE(next.contains(noted));
  EXPECT_FALSE(next.contains(freed_elsewhere));
  join(foreign(), other());
  EXPECT_TRUE(capture.end());
  EXPECT_EQ(pool()->bytes(), 6 * pool_bytes);
  take_back_memory(on_other, pool_bytes, other_handle());
  for (void* const each : next) {
    take_back(each);
  }
}

TEST_P(graph_pools, reuse_memory_freed_without_a_stream_only_within_its_scope) {
  if (!captures()) {
    GTEST_SKIP() << captures_nothing;
  }
  void* kept = nullptr;
  {
    const graph_pool_scope open(pool());
    graph_capture capture(device(), handle());
    void* const temporary = lend();
    take_back_memory(temporary, pool_bytes, std::nullopt);
    kept = lend();
    EXPECT_EQ(kept, temporary);
    EXPECT_TRUE(capture.end());
  }
  const graph_pool_scope open(pool());
  take_back_memory(kept, pool_bytes, std::nullopt);
  graph_capture capture(device(), handle());
  void* const next = lend();
  EXPECT_NE(next, kept) << "used after its capture on unknown streams";
  take_back(next);
  EXPECT_TRUE(capture.end());
}

TEST_P(graph_pools, do_not_reuse_memory_freed_without_a_stream_after_its_scope) {
  if (!captures()) {
    GTEST_SKIP() << captures_nothing;
  }
  void* kept = nullptr;
  {
    const graph_pool_scope open(pool());
    graph_capture capture(device(), handle());
    kept = lend();
    EXPECT_TRUE(capture.end());
  }
  take_back_memory(kept, pool_bytes, std::nullopt);
  const graph_pool_scope open(pool());
  graph_capture capture(device(), handle());
  void* const next = lend();
  EXPECT_NE(next, kept) << "used after its capture on unknown streams";
  take_back(next);
  EXPECT_TRUE(capture.end());
}

TEST_P(graph_pools, do_not_reuse_memory_in_a_capture_while_other_work_uses_it) {
  if (!captures()) {
    GTEST_SKIP() << captures_nothing;
  }
  void* result = nullptr;
  {
    const graph_pool_scope open(pool());
    graph_capture capture(device(), handle());
    result = lend();
    EXPECT_TRUE(capture.end());
  }
  launch(result, foreign());
  take_back(result);
  const graph_pool_scope open(pool());
  graph_capture capture(device(), handle());
  EXPECT_EQ(lend(), result);
  EXPECT_TRUE(capture.end());
  launch(result, other(), 2);
  ctx()->synchronize(other());
  take_back(result);
}

TEST_P(graph_pools, refuse_requests_beyond_the_budget_without_invalidating_the_capture) {
  const graph_pool_scope open(pool());
  std::optional<graph_capture> capture(std::in_place, device(), handle());
  void* const held = lend_memory(pool(), pool_bytes, foreign());
  try {
    static_cast<void>(lend_memory(pool(), limit - pool_bytes + 1, foreign()));
    FAIL() << "more than the budget";
  } catch (const error& e) {
    ASSERT_NE(e.refusal(), nullptr);
    EXPECT_EQ(e.refusal()->remaining, limit - pool_bytes);
  }
  void* const fits = lend_memory(pool(), limit - pool_bytes, foreign());
  EXPECT_EQ(ctx()->memory_budget()->statistics().current, limit);
  EXPECT_TRUE(capture->end());
  take_back(held);
  take_back(fits, limit - pool_bytes);
}

TEST_P(graph_pools, distinguish_captured_from_eager_work_of_a_stream) {
  void* const eager = lend_memory(pool(), pool_bytes, foreign());
  take_back(eager);
  EXPECT_EQ(lend_memory(pool(), pool_bytes, foreign()), eager) << "its stream orders it";
  take_back(eager);
  void* const elsewhere = lend_memory(pool(), pool_bytes, other());
  EXPECT_NE(elsewhere, eager) << "another stream is not ordered behind it";
  take_back_memory(elsewhere, pool_bytes, other_handle());
  if (!captures()) {
    return;
  }
  graph_capture capture(device(), handle());
  void* const captured = lend_memory(pool(), pool_bytes, foreign());
  EXPECT_NE(captured, eager) << "the graph may be launched on any stream";
  take_back(captured);
  EXPECT_TRUE(capture.end());
  EXPECT_EQ(lend_memory(pool(), pool_bytes, foreign()), eager) << "and not what the graph has freed";
  graph_capture another(device(), handle());
  take_back(eager);
  EXPECT_TRUE(another.end());
  void* const next = lend_memory(pool(), pool_bytes, foreign());
  EXPECT_NE(next, eager) << "used by a graph";
  take_back(next);
}

TEST_P(graph_pools, split_and_merge_memory_instead_of_growing) {
  void* const whole = lend_memory(pool(), pool_bytes, foreign());
  take_back(whole);
  void* const half = lend_memory(pool(), pool_bytes / 2, foreign());
  void* const rest = lend_memory(pool(), pool_bytes / 2 - 100, foreign());
  EXPECT_EQ(pool()->bytes(), pool_bytes);
  take_back(half, pool_bytes / 2);
  take_back(rest, pool_bytes / 2 - 100);
  EXPECT_EQ(lend_memory(pool(), pool_bytes, foreign()), whole) << "whole again";
  take_back(whole);
  void* const small = lend_memory(pool(), 100, foreign());
  EXPECT_EQ(pool()->bytes(), pool_bytes + 256) << "a large span stays whole for large requests";
  take_back(small, 100);
}

TEST_P(graph_pools, honour_alignments) {
  constexpr std::size_t page = 1 << 14;
  void* const address = lend_memory(pool(), 100, foreign(), page);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(address) % page, 0U);
  EXPECT_EQ(pool()->bytes(), page) << "100 bytes fit behind any multiple of 256";
  take_back(address, 100);
  EXPECT_EQ(lend_memory(pool(), 100, foreign(), page), address);
  take_back(address, 100);
  EXPECT_THROW(static_cast<void>(lend_memory(pool(), 100, foreign(), 384)), error);
  EXPECT_THROW(static_cast<void>(lend_memory(pool(), SIZE_MAX, foreign(), page)), error);
}

TEST_P(graph_pools, refuse_requests_after_their_release) {
  void* const out = lend_memory(pool(), pool_bytes, foreign());
  void* const back = lend_memory(pool(), pool_bytes, foreign());
  take_back(back);
  pool()->release();
  EXPECT_EQ(charged(), pool_bytes);
  try {
    static_cast<void>(lend_memory(pool(), pool_bytes, foreign()));
    ADD_FAILURE() << "released";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::closed);
  }
  take_back(out);
  EXPECT_EQ(charged(), 0U);
}

TEST_P(graph_pools, live_as_long_as_their_memory_is_lent) {
  auto own = graph_pool::create(ctx(), "own");
  const std::weak_ptr<graph_pool> alive = own;
  void* const out = lend_memory(own, pool_bytes, foreign());
  own.reset();
  EXPECT_FALSE(alive.expired());
  EXPECT_EQ(charged(), pool_bytes);
  take_back(out);
  EXPECT_TRUE(alive.expired());
}

TEST_P(graph_pools, serve_many_threads_at_once) {
  constexpr unsigned threads = 4;
  const auto live = [&](unsigned number) {
    const stream own(shared_device());
    std::vector<std::pair<void*, std::size_t>> out;
    for (std::size_t round = 0; round < 200; ++round) {
      const std::size_t size = 1 + (round * 7919 + number * 104'729) % (256 << 10);
      void* const lent = lend_memory(pool(), size, own.ref());
      device().fill(lent, static_cast<std::uint8_t>(number), size, own.native_handle());
      out.emplace_back(lent, size);
      if (out.size() == 8 || round == 199) {
        for (const auto& [address, given] : out) {
          take_back_memory(address, given, own.native_handle());
        }
        out.clear();
      }
    }
    ctx()->synchronize(own.ref());
  };
  std::vector<std::thread> running;
  for (unsigned number = 0; number < threads; ++number) {
    running.emplace_back(live, number);
  }
  for (std::thread& each : running) {
    each.join();
  }
  EXPECT_LE(pool()->bytes(), threads * std::size_t{8 << 20}) << "freed memory was not reused";
}

TEST_P(graph_pools, announce_the_capture) {
  if (!captures()) {
    GTEST_SKIP() << captures_nothing;
  }
  for (const bool announced : {true, false}) {
    auto used_by_somebody = std::optional(make(pool_bytes));
    std::optional<graph_pool_scope> open;
    if (announced) {
      open.emplace(pool());
    }
    graph_capture capture(device(), handle());
    if (!announced) {
      take_back(lend_memory(pool(), pool_bytes, foreign()));
    }
    {
      const std::array views{*used_by_somebody};
      const export_hold consumer(views, access::read);
    }
    used_by_somebody.reset();
    EXPECT_EQ(ctx()->reports().statistics().pending_releases, 1U);
    EXPECT_TRUE(capture.end()) << "an event over all work has ended it";
    open.reset();
    EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(60)));
  }
}

TEST_P(graph_pools, are_not_needed_for_memory_that_is_ready_on_every_stream) {
  void* const earlier = lend_memory(ctx(), pool_bytes, ours(), "earlier");
  launch(earlier, ours());
  take_back_memory(earlier, pool_bytes, ours().native_handle());
  graph_capture capture(device(), handle());
  std::set<void*> lent;
  while (lent.size() < 31 && !lent.contains(earlier)) {
    lent.insert(lend_ready_memory(ctx(), pool_bytes, "segment"));
  }
  EXPECT_TRUE(lent.contains(earlier)) << "never lent again, so nothing is shown";
  EXPECT_TRUE(capture.end());
  launch(earlier, other(), 2);
  EXPECT_EQ(ctx()->reports().live_by_tag(), (bytes_by_name{{"segment", pool_bytes * lent.size()}}));
  EXPECT_EQ(lend_ready_memory(ctx(), 0, "segment"), nullptr);
  ctx()->synchronize(other());
  for (void* const each : lent) {
    take_back_memory(each, pool_bytes, std::nullopt);
  }
}

TEST_P(graph_pools, have_a_context) { EXPECT_THROW(static_cast<void>(graph_pool::create(nullptr)), error); }

SAETA_CONFORMANCE_SUITE(graph_pools);

} // namespace
} // namespace saeta::conformance
