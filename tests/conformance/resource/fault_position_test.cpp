// Runs a program that uses a context, with each backend call failing once. After each failure nothing must
// have leaked, all counters must be exact, and earlier buffers must be unchanged.
#include "conformance/harness/backends.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/memory/export_hold.hpp"
#include "saeta/memory/use_token.hpp"
#include "support/faulty_backend.hpp"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <thread>
#include <vector>

namespace saeta::conformance {
namespace {

using saeta::testing::faulty_backend;

constexpr std::size_t block_bytes = 4096;

class fault_positions : public backend_test {
protected:
  void SetUp() override { device_ = std::make_shared<faulty_backend>(shared_device()); }

  /// Uses all operations of a context on one thread. Returns the bytes that were read back.
  [[nodiscard]] std::vector<std::uint8_t> live(const std::shared_ptr<context>& ctx) const {
    const copy_kind within = ctx->on_host() ? copy_kind::host_to_host : copy_kind::device_to_device;
    const copy_kind down = ctx->on_host() ? copy_kind::host_to_host : copy_kind::device_to_host;
    const auto first = ctx->borrow_stream();
    const auto second = ctx->borrow_stream();
    const buffer a = buffer::allocate(ctx, block_bytes, first.ref(), "a");
    fill(ctx, a, 7, first.ref());
    {
      const auto query = ctx->with_budget("query", 4 * block_bytes);
      const buffer b = buffer::allocate(query, block_bytes, second.ref(), "b");
      use_token token(second.ref(), {reads(a), writes(b)});
      ctx->copies().copy(token.span<char>(b).data(), token.span<const char>(a).data(), block_bytes, within,
                         second.ref());
    }
    const auto promised = ctx->with_reservation(2 * block_bytes);
    const buffer c = buffer::allocate(promised, block_bytes, first.ref(), "c");
    {
      use_token token(second.ref(), {reads(a.slice(0, block_bytes / 2)), writes(c)});
      ctx->copies().fill(token.span<char>(c).data(), 1, block_bytes, second.ref());
      ctx->copies().copy(token.span<char>(c).data(), token.span<const char>(a).data(), block_bytes / 2,
                         within, second.ref());
    }
    {
      external_memory lent;
      lent.pointer = reinterpret_cast<void*>(a.address());
      lent.bytes = block_bytes;
      lent.device = ctx->device();
      lent.keepalive = a.owner();
      lent.tag = "lent";
      const buffer view = buffer::adopt(ctx, std::move(lent));
      const std::array exported{c};
      const export_hold consumer(exported, access::read);
      use_token token(first.ref(), {reads(view)});
      std::uint64_t head = 0;
      ctx->copies().read_scalar(&head, token.span<const std::uint64_t>(view).data(), sizeof head,
                                first.ref());
    }
    // Owned by the fixture, because a queued copy may still write it after a failure.
    auto& result = *landings_.emplace_back(std::make_unique<std::vector<std::uint8_t>>(block_bytes));
    use_token token(first.ref(), {reads(c)});
    ctx->copies().copy(result.data(), token.span<const char>(c).data(), block_bytes, down, first.ref());
    token.finish();
    ctx->synchronize(first.ref());
    ctx->trim();
    return result;
  }

  static void fill(const std::shared_ptr<context>& ctx, const buffer& used, std::uint8_t value,
                   stream_ref stream) {
    use_token token(stream, {writes(used)});
    ctx->copies().fill(token.span<char>(used).data(), value, used.size(), stream);
    token.finish();
  }

  [[nodiscard]] static std::vector<std::uint8_t> content(const std::shared_ptr<context>& ctx,
                                                         const buffer& used) {
    std::vector<std::uint8_t> result(used.size());
    use_token token(ctx->work_stream(), {reads(used)});
    ctx->copies().copy(result.data(), token.span<const char>(used).data(), used.size(),
                       ctx->on_host() ? copy_kind::host_to_host : copy_kind::device_to_host, token.stream());
    ctx->synchronize(token.stream());
    return result;
  }
  /// Runs `life`. Returns false if it throws an error that a failing backend call can't cause.
  template <class Life>
  [[nodiscard]] static bool throws_or_ends(Life life) {
    try {
      life();
      return true;
    } catch (const error& e) {
      return e.code() == errc::device || e.code() == errc::out_of_memory;
    }
  }

  [[nodiscard]] context_options options(resource_kind base) const {
    context_options chosen;
    chosen.budget = 1 << 20;
    chosen.memory.base = base;
    chosen.releases = release_thread::none; // makes the order of calls deterministic
    return chosen;
  }

  std::shared_ptr<faulty_backend> device_;
  mutable std::vector<std::unique_ptr<std::vector<std::uint8_t>>> landings_;
};

TEST_P(fault_positions, any_failing_call_leaks_nothing_and_keeps_counters_exact) {
  std::vector<std::uint8_t> expected(block_bytes, 1);
  std::fill_n(expected.begin(), block_bytes / 2, 7);
  for (const resource_kind base : {resource_kind::caching, resource_kind::async, resource_kind::direct}) {
    std::uint64_t position = 0;
    bool failed = true;
    for (; failed; ++position) {
      SCOPED_TRACE(::testing::Message() << "call " << position << " fails");
      device_->fail_at(position);
      std::shared_ptr<context> ctx;
      try {
        ctx = watch(context::create(device_, options(base)));
        const auto seen = live(ctx);
        EXPECT_EQ(seen, expected);
      } catch (const error& e) {
        EXPECT_TRUE(e.code() == errc::device || e.code() == errc::out_of_memory) << e.what();
      }
      failed = position == 0 || device_->failed();
      device_->fail_at(0);
      if (ctx) {
        EXPECT_TRUE(ctx->wait_for_releases(std::chrono::seconds(20)));
        const memory_statistics now = ctx->reports().statistics();
        EXPECT_EQ(now.budget.current, 0U);
        EXPECT_EQ(now.budget.reserved, 0U);
        EXPECT_EQ(now.ledger.buffers, 0U);
        EXPECT_EQ(now.pending_releases, 0U);
        EXPECT_EQ(live(ctx), expected) << "the context works on after the failure";
        EXPECT_TRUE(ctx->wait_for_releases(std::chrono::seconds(20)));
        ctx->trim();
      }
      ctx.reset();
      // Events are kept until their work has finished.
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (timelines::collect_orphans() != 0 && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::yield();
      }
      EXPECT_EQ(device_->alive(), 0) << "allocations, streams or events were left behind";
      if (HasFailure()) {
        return;
      }
    }
    EXPECT_GT(position, 10U) << "the life is too short to show anything";
  }
}

TEST_P(fault_positions, any_failing_call_keeps_existing_memory_unchanged) {
  for (const resource_kind base : {resource_kind::caching, resource_kind::async, resource_kind::direct}) {
    const auto ctx = watch(context::create(device_, options(base)));
    const buffer kept = buffer::allocate(ctx, block_bytes, ctx->work_stream(), "kept");
    fill(ctx, kept, 0x5A, ctx->work_stream());
    const bytes_by_name expected{{"kept", block_bytes}};
    bool failed = true;
    for (std::uint64_t position = 1; failed; ++position) {
      SCOPED_TRACE(::testing::Message() << "call " << position << " fails");
      device_->fail_at(position);
      EXPECT_TRUE(throws_or_ends([&] { static_cast<void>(live(ctx)); }));
      failed = device_->failed();
      device_->fail_at(0);
      EXPECT_TRUE(ctx->wait_for_releases(std::chrono::seconds(20)));
      EXPECT_EQ(ctx->reports().statistics().budget.current, block_bytes);
      EXPECT_EQ(ctx->reports().statistics().budget.reserved, 0U);
      EXPECT_EQ(ctx->reports().live_by_tag(), expected);
      EXPECT_EQ(content(ctx, kept), std::vector<std::uint8_t>(block_bytes, 0x5A));
      if (HasFailure()) {
        return;
      }
    }
  }
}

SAETA_CONFORMANCE_SUITE(fault_positions);

} // namespace
} // namespace saeta::conformance
