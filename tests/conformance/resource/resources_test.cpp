// The contract of all resources: no unexpected driver calls, and failed requests change nothing.

#include "conformance/harness/backends.hpp"
#include "saeta/base/error.hpp"
#include "saeta/base/report.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/resource/driver/driver_resources.hpp"
#include "saeta/resource/stack.hpp"
#include "support/faulty_backend.hpp"

#include <array>
#include <atomic>
#include <limits>

namespace saeta::conformance {
namespace {

using saeta::testing::faulty_backend;

constexpr std::array bases{"caching", "async", "direct"};
std::atomic<int> reports{0};

class resources : public backend_test {
protected:
  void SetUp() override {
    reports = 0;
    before_ = set_report_sink([](std::string_view, std::string_view) noexcept { ++reports; });
    synchronize(record(work.ref())); // leaves an unused event, so that a free need not create one
  }
  void TearDown() override {
    EXPECT_EQ(limit->statistics().current, 0U) << "every charge was given back";
    set_report_sink(before_);
    backend_test::TearDown();
  }

  [[nodiscard]] resource_stack build(const std::string& text) const {
    stack_options options;
    parse_stack(text, options);
    return build_stack(options, {.device = driver, .limit = limit, .log = {}, .make_room = {}});
  }
  [[nodiscard]] std::vector<std::uint8_t> read(const block& freed) const {
    std::vector<std::uint8_t> content(freed.bytes);
    const bool on_host = device().device().kind == device_kind::cpu;
    driver->copy(content.data(), freed.pointer, freed.bytes,
                 on_host ? copy_kind::host_to_host : copy_kind::device_to_host, work.ref().native_handle());
    driver->synchronize_stream(work.ref().native_handle());
    return content;
  }
  /// Makes the next driver call fail, so that an unexpected call fails the test.
  void forbid_driver_calls() const { driver->fail_at(1); }
  void allow_driver_calls() const { driver->fail_at(0); }

  std::shared_ptr<faulty_backend> driver = std::make_shared<faulty_backend>(shared_device());
  std::shared_ptr<budget> limit = budget::create("root");
  own_stream work{timelines::of(*driver)};

private:
  report_sink before_ = nullptr;
};

TEST_P(resources, direct_makes_one_driver_call_for_an_allocation) {
  const resource_stack stack = build("budget, direct");
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{1000}, std::size_t{3} << 20}) {
    const std::int64_t before = driver->alive();
    driver->fail_at(2);
    const block made = stack.top->allocate(bytes, 0, work.ref());
    EXPECT_FALSE(driver->failed()) << "a second call";
    EXPECT_EQ(driver->alive(), before + 1);
    allow_driver_calls();
    EXPECT_TRUE(stack.top->deallocate(made, work.ref()));
    EXPECT_EQ(driver->alive(), before);
  }
}

TEST_P(resources, zero_bytes_give_a_unique_null_block_without_a_driver_call) {
  for (const std::string base : bases) {
    SCOPED_TRACE(base);
    const std::uint64_t before = limit->statistics().requests;
    const resource_stack stack = build("statistics, budget, guard, " + base);
    forbid_driver_calls();
    const block one = stack.top->allocate(0, 0, work.ref());
    const block two = stack.top->allocate(0, 0, work.ref());
    EXPECT_EQ(one.pointer, nullptr);
    EXPECT_NE(one.generation, two.generation);
    EXPECT_TRUE(stack.top->deallocate(one, work.ref()));
    EXPECT_TRUE(stack.top->deallocate(two, work.ref()));
    EXPECT_FALSE(driver->failed());
    allow_driver_calls();
    EXPECT_EQ(limit->statistics().requests, before + 2);
    EXPECT_EQ(stack.statistics->read().allocations, 2U);
  }
}

TEST_P(resources, caching_reuses_a_block_on_its_stream_without_a_driver_call) {
  const resource_stack stack = build("budget, caching");
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{5000}, std::size_t{3} << 20}) {
    const block first = stack.top->allocate(bytes, 0, work.ref());
    forbid_driver_calls();
    EXPECT_TRUE(stack.top->deallocate(first, work.ref()));
    const block second = stack.top->allocate(bytes, 0, work.ref());
    EXPECT_FALSE(driver->failed()) << "an event, a wait or an allocation";
    allow_driver_calls();
    EXPECT_EQ(second.pointer, first.pointer);
    EXPECT_NE(second.generation, first.generation) << "fresh for every reuse of an address";
    EXPECT_TRUE(stack.top->deallocate(second, work.ref()));
  }
}

TEST_P(resources, pinned_memory_is_cached_until_it_is_trimmed) {
  pinned_resource pinned(driver);
  const std::int64_t before = driver->alive();
  const block first = pinned.allocate(100'000, 0, work.ref());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first.pointer) % device_alignment, 0U);
  EXPECT_EQ(first.device, device().device());
  EXPECT_EQ(first.kind, device().kind_of(first.pointer));
  forbid_driver_calls();
  EXPECT_TRUE(pinned.deallocate(first, std::span<const point>())) << "an unused block";
  EXPECT_EQ(pinned.kept(90'000), 1U);
  EXPECT_EQ(pinned.kept(60'000), 0U) << "its size class is another one";
  const block second = pinned.allocate(90'000, 0, work.ref());
  EXPECT_FALSE(driver->failed());
  allow_driver_calls();
  EXPECT_EQ(second.pointer, first.pointer);
  EXPECT_EQ(pinned.kept(90'000), 0U);
  EXPECT_EQ(pinned.trim(), 0U) << "it is in use";
  EXPECT_TRUE(pinned.deallocate(second, work.ref()));
  EXPECT_EQ(pinned.trim(), 131'072U);
  EXPECT_EQ(pinned.held_bytes(), 0U);
  EXPECT_EQ(driver->alive(), before);
}

TEST_P(resources, pinned_memory_honours_alignment_beyond_a_page) {
  pinned_resource pinned(driver);
  for (const std::size_t alignment :
       {std::size_t{256}, std::size_t{4096}, std::size_t{8192}, std::size_t{1} << 20}) {
    for (const std::size_t bytes :
         {std::size_t{1}, std::size_t{100}, std::size_t{4096}, std::size_t{100'000}}) {
      std::vector<block> made; // several, because the first may be aligned by chance
      for (std::size_t i = 0; i < 3; ++i) {
        made.push_back(pinned.allocate(bytes, alignment, work.ref()));
        const auto address = reinterpret_cast<std::uintptr_t>(made.back().pointer);
        EXPECT_EQ(address % alignment, 0U) << alignment;
        EXPECT_LE(address + bytes,
                  reinterpret_cast<std::uintptr_t>(made.back().base) + made.back().base_bytes);
      }
      for (const block& each : made) {
        EXPECT_TRUE(pinned.deallocate(each, std::span<const point>()));
      }
    }
  }
}

TEST_P(resources, async_frees_an_unused_block_in_one_driver_call) {
  const resource_stack stack = build("budget, async");
  const block unused = stack.top->allocate(1000, 0, work.ref());
  driver->synchronize_stream(work.ref().native_handle());
  EXPECT_TRUE(has_passed(unused.ready));
  forbid_driver_calls(); // the free was the only allowed call
  EXPECT_TRUE(stack.top->deallocate(unused, std::span<const point>()));
  EXPECT_FALSE(driver->failed()) << "a wait of the host, too";
  allow_driver_calls();
}

TEST_P(resources, a_large_block_is_freed_without_blocking_the_caller) {
  context_options options;
  options.memory.slabs_from = resource_kind::direct;
  options.memory.caching.largest_small = 4096;
  options.memory.caching.largest_cached = 1 << 20;
  const auto ctx = new_context(options);
  const auto busy = ctx->borrow_stream();
  auto large = std::optional(
      buffer::allocate(ctx, options.memory.caching.largest_cached + 1, ctx->work_stream(), "large"));
  const auto held = close_gate(busy.ref().native_handle());
  {
    use_token token(busy.ref(), {writes(*large)});
    ctx->copies().fill(token.span<char>(*large).data(), 1, large->size(), busy.ref());
  }
  large.reset(); // would hang if it waited
  EXPECT_EQ(ctx->reports().statistics().pending_releases, held ? 1U : 0U);
  if (held) {
    held->open();
  }
  EXPECT_TRUE(ctx->wait_for_releases(std::chrono::minutes(1)));
  EXPECT_EQ(ctx->reports().statistics().held, 0U);
}

TEST_P(resources, a_large_block_in_use_is_reused_on_its_stream_without_more_memory) {
  constexpr std::size_t bytes = std::size_t{64} << 20;
  constexpr int rounds = 6;
  const resource_stack stack = build("async"); // the cache passes large requests to it
  const std::uint64_t before = device().pool_bytes();
  for (int round = 0; round < rounds; ++round) {
    const block made = stack.top->allocate(bytes, 0, work.ref());
    device().fill(made.pointer, 1, bytes, work.ref().native_handle());
    EXPECT_TRUE(stack.top->deallocate(made, work.ref()));
  }
  synchronize(mark(work.ref()));
  EXPECT_LE(device().pool_bytes(), before + 2 * bytes);
}

TEST_P(resources, sizes_up_to_the_largest_size_t_are_refused_without_a_charge) {
  constexpr std::size_t last = std::numeric_limits<std::size_t>::max();
  for (const std::string text : {"budget, caching", "budget, async", "budget, direct",
                                 "budget, guard, direct", "guard, budget, caching", "budget, guard, async"}) {
    const resource_stack stack = build(text);
    for (const std::size_t bytes : {last, last - 1, last - 255, last - 4096, last / 2 + 1}) {
      for (const std::size_t alignment : {std::size_t{0}, std::size_t{4096}, std::size_t{1} << 63}) {
        SCOPED_TRACE(::testing::Message() << text << ": " << bytes << " bytes to " << alignment);
        try {
          static_cast<void>(stack.top->allocate(bytes, alignment, work.ref()));
          ADD_FAILURE() << "allocated";
        } catch (const error& refused) {
          EXPECT_TRUE(refused.code() == errc::overflow || refused.code() == errc::out_of_memory ||
                      refused.code() == errc::budget_exceeded)
              << refused.what();
        }
        EXPECT_EQ(limit->statistics().current, 0U);
        EXPECT_EQ(stack.top->held_bytes(), 0U);
      }
    }
  }
}

TEST_P(resources, a_failed_free_keeps_the_block_charged_and_is_reported) {
  for (const std::string base : bases) {
    SCOPED_TRACE(base);
    const auto query = limit->make_child("query");
    const resource_stack stack = build("statistics, budget, fault, " + base);
    const block made =
        stack.top->allocate({.bytes = 5000, .label = "kept", .charge_to = query.get()}, work.ref());
    driver->fill(made.pointer, 0x5A, made.bytes, work.ref().native_handle());
    const std::uint64_t held = stack.top->held_bytes();
    const int so_far = reports;
    stack.fault->fail_free(1);
    EXPECT_FALSE(stack.top->deallocate(made, work.ref()));
    EXPECT_EQ(reports, so_far + 1);
    EXPECT_EQ(query->statistics().current, 5000U);
    EXPECT_EQ(limit->statistics().current, 5000U);
    EXPECT_EQ(stack.top->held_bytes(), held);
    EXPECT_EQ(stack.statistics->read().live_bytes(), 5000U);
    EXPECT_EQ(read(made), std::vector<std::uint8_t>(5000, 0x5A)) << "the caller's still";
    EXPECT_TRUE(stack.top->deallocate(made, work.ref()));
    EXPECT_EQ(query->statistics().current, 0U);
    EXPECT_EQ(stack.statistics->read().failed_frees, 1U);
  }
}

SAETA_CONFORMANCE_SUITE(resources);

} // namespace
} // namespace saeta::conformance
