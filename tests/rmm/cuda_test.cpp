// Tests with RMM that need a GPU: RMM's resources as the base of a context, RMM's containers over a context,
// and both together.
#include "conformance/harness/backends.hpp"
#include "saeta/base/error.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/rmm/context_resource.hpp"
#include "saeta/rmm/rmm_resource.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <rmm/device_buffer.hpp>
#include <rmm/mr/arena_memory_resource.hpp>
#include <rmm/mr/cuda_async_memory_resource.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/per_device_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>
#include <thread>

namespace saeta::conformance {
namespace {

constexpr std::size_t mebibyte = 1 << 20;

class rmm_on_cuda : public ::testing::Test {
protected:
  void SetUp() override {
    const auto& all = backends();
    const auto found = std::ranges::find(all, "cuda", &backend_entry::name);
    if (found == all.end()) {
      GTEST_SKIP() << "no usable CUDA device";
    }
    device_ = found->make();
  }
  [[nodiscard]] std::shared_ptr<context> open(resource_source stack_options::*place = nullptr,
                                              resource_source source = {}) const {
    context_options options;
    options.budget = 256 * mebibyte;
    if (place != nullptr) {
      options.memory.*place = std::move(source);
    }
    return context::create(device_, std::move(options));
  }
  /// Allocates, writes, reads and drops buffers of several sizes on several streams and threads.
  static void live(const std::shared_ptr<context>& ctx) {
    const auto one = [&](unsigned seed) {
      const stream_lease lease = ctx->borrow_stream();
      for (unsigned round = 0; round < 50; ++round) {
        const std::size_t bytes = std::size_t{1} << (8 + (seed + round) % 14);
        const auto value = static_cast<std::uint8_t>(seed * 50 + round);
        const buffer b = buffer::allocate(ctx, bytes, lease.ref(), "lived");
        use_token token(lease.ref(), {updates(b)});
        ctx->copies().fill(token.span<std::uint8_t>(b).data(), value, bytes, lease.ref());
        std::vector<std::uint8_t> seen(bytes);
        ctx->copies().copy(seen.data(), token.span<const std::uint8_t>(b).data(), bytes,
                           copy_kind::device_to_host, lease.ref());
        ctx->synchronize(lease.ref());
        EXPECT_TRUE(std::ranges::all_of(seen, [&](std::uint8_t byte) { return byte == value; }));
      }
    };
    std::vector<std::thread> threads;
    for (unsigned seed = 0; seed < 4; ++seed) {
      threads.emplace_back(one, seed);
    }
    for (std::thread& each : threads) {
      each.join();
    }
    ctx->wait_for_releases(std::chrono::seconds(60));
    EXPECT_EQ(ctx->memory_budget()->statistics().current, 0u);
  }

  std::shared_ptr<backend> device_;
};

TEST_F(rmm_on_cuda, its_resources_serve_a_context) {
  const rmm::mr::cuda_memory_resource direct;
  live(open(&stack_options::custom_base, rmm_source(direct)));
  live(open(&stack_options::custom_slabs, rmm_source(direct)));
  live(open(&stack_options::custom_base, rmm_source(rmm::mr::cuda_async_memory_resource{})));
  live(open(&stack_options::custom_slabs, rmm_source(rmm::mr::cuda_async_memory_resource{})));
  live(open(&stack_options::custom_base, rmm_source(rmm::mr::pool_memory_resource{direct, 64 * mebibyte})));
  live(open(&stack_options::custom_slabs, rmm_source(rmm::mr::pool_memory_resource{direct, 64 * mebibyte})));
  live(open(&stack_options::custom_base, rmm_source(rmm::mr::arena_memory_resource{direct, 64 * mebibyte})));
}

TEST_F(rmm_on_cuda, its_out_of_memory_becomes_an_error_of_saeta) {
  const rmm::mr::cuda_memory_resource direct;
  const auto ctx = open(&stack_options::custom_base,
                        rmm_source(rmm::mr::pool_memory_resource{direct, 16 * mebibyte, 16 * mebibyte}));
  try {
    const buffer large = buffer::allocate(ctx, 32 * mebibyte, ctx->work_stream(), "large");
    FAIL() << "more than the pool";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::out_of_memory) << e.what();
  }
  EXPECT_EQ(ctx->memory_budget()->statistics().current, 0u);
}

TEST_F(rmm_on_cuda, a_pool_of_the_driver_is_trimmed_through_any_reference) {
  rmm::mr::cuda_async_memory_resource pool;
  const cuda::mr::any_resource<cuda::mr::device_accessible> erased = pool;
  const stream work(device_);
  const auto keeps = [&](auto& made) {
    const block b = made.allocate(32 * mebibyte, 0, work.ref());
    EXPECT_TRUE(made.deallocate(b, work.ref()));
    const auto freed = timelines::of(*device_)->mark_device(); // includes frees on a stream of the adaptor
    ASSERT_TRUE(freed.has_value());
    synchronize(*freed);
    EXPECT_GE(made.trim(), 32 * mebibyte);
    EXPECT_EQ(made.trim(), 0u);
  };
  rmm_resource named(device_, pool);
  keeps(named);
  rmm_resource unnamed(device_, erased);
  keeps(unnamed);
}

TEST_F(rmm_on_cuda, its_containers_and_pools_allocate_from_a_context) {
  const auto ctx = open();
  const context_resource own(ctx, "buffers");
  const stream work(device_);
  const cuda::stream_ref on = to_cuda_stream(work.ref().native_handle());
  {
    const std::vector<std::uint8_t> sent(mebibyte, 7);
    const rmm::device_buffer up(sent.data(), sent.size(), on, own);
    const rmm::device_buffer copied(up, on, own);
    EXPECT_EQ(ctx->memory_budget()->statistics().current, 2 * mebibyte);
    std::vector<std::uint8_t> seen(mebibyte);
    ctx->copies().copy(seen.data(), copied.data(), mebibyte, copy_kind::device_to_host, work.ref());
    ctx->synchronize(work.ref());
    EXPECT_EQ(seen, sent);
    EXPECT_THROW(rmm::device_buffer(512 * mebibyte, on, own), rmm::out_of_memory);
  }
  {
    rmm::mr::pool_memory_resource pooled{own, 16 * mebibyte, 64 * mebibyte};
    const rmm::device_buffer held(mebibyte, on, pooled);
    EXPECT_EQ(ctx->memory_budget()->statistics().current, 16 * mebibyte);
  }
  ctx->wait_for_releases(std::chrono::seconds(60));
  EXPECT_EQ(ctx->memory_budget()->statistics().current, 0u);
}

TEST_F(rmm_on_cuda, a_context_is_the_current_resource) {
  const auto ctx = open();
  const stream work(device_);
  const cuda::stream_ref on = to_cuda_stream(work.ref().native_handle());
  {
    auto before = rmm::mr::set_current_device_resource(context_resource(ctx, "current"));
    const rmm::device_buffer held(mebibyte, on);
    EXPECT_EQ(ctx->memory_budget()->statistics().current, mebibyte);
    rmm::mr::set_current_device_resource(std::move(before));
  }
  ctx->wait_for_releases(std::chrono::seconds(60));
  EXPECT_EQ(ctx->memory_budget()->statistics().current, 0u);
}

TEST_F(rmm_on_cuda, rmm_can_use_saeta_over_rmm) {
  const rmm::mr::cuda_memory_resource direct;
  const auto ctx =
      open(&stack_options::custom_slabs, rmm_source(rmm::mr::pool_memory_resource{direct, 64 * mebibyte}));
  const stream work(device_);
  const cuda::stream_ref on = to_cuda_stream(work.ref().native_handle());
  for (int round = 0; round < 100; ++round) {
    const rmm::device_buffer held(4096, on, context_resource(ctx, "above"));
  }
  EXPECT_EQ(ctx->memory().cache->statistics().upstream_allocations, 1u);
  live(ctx);
}

} // namespace
} // namespace saeta::conformance
