// The memory taken from the device exceeds the root budget by at most one slab
// (saeta/resource/cache/caching_resource.hpp), for any sequence of sizes.
#include "conformance/harness/context_test.hpp"
#include "saeta/base/error.hpp"

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

namespace saeta::conformance {
namespace {

class bound_of_the_device : public context_test {
protected:
  void SetUp() override {} // each test makes a context with its own budget

  [[nodiscard]] std::shared_ptr<context> open(std::uint64_t budget) {
    context_options options;
    options.budget = budget;
    return new_context(options);
  }
  [[nodiscard]] static std::uint64_t held(const std::shared_ptr<context>& of) {
    return of->reports().statistics().held;
  }
  [[nodiscard]] static std::uint64_t allowed(const std::shared_ptr<context>& of) {
    return of->options().budget + of->options().memory.caching.slab;
  }
  [[nodiscard]] static std::uint64_t beyond(const std::shared_ptr<context>& of) {
    return of->memory().cache->statistics().beyond_bound;
  }
};

TEST_P(bound_of_the_device, holds_for_sizes_in_ascending_order) {
  const auto ctx = open(64 << 20);
  for (std::size_t bytes = 256; bytes < (60U << 20); bytes += bytes / 7) { // every class
    static_cast<void>(buffer::allocate(ctx, bytes, ctx->work_stream(), "one"));
    ASSERT_LE(held(ctx), allowed(ctx)) << bytes;
  }
  EXPECT_EQ(beyond(ctx), 0U);
}

TEST_P(bound_of_the_device, holds_as_soon_as_the_budget_is_lowered) {
  const auto ctx = open(64 << 20);
  static_cast<void>(buffer::allocate(ctx, 32 << 20, ctx->work_stream(), "one"));
  ASSERT_TRUE(ctx->wait_for_releases(std::chrono::seconds(20)));
  ASSERT_GE(held(ctx), 32U << 20);
  ctx->set_budget(8 << 20);
  EXPECT_LE(held(ctx), (8U << 20) + ctx->options().memory.caching.slab);
  EXPECT_TRUE(comes_true([&] { // when the last use of the block has finished
    ctx->trim();
    return ctx->device_backend()->pool_bytes() < (32U << 20);
  })) << "the driver's pool keeps it";
}

TEST_P(bound_of_the_device, holds_if_size_classes_are_filled_in_sequence) {
  const auto ctx = open(16 << 20);
  for (const std::size_t bytes :
       {std::size_t{256}, std::size_t{4096}, std::size_t{1} << 16, std::size_t{1} << 18, std::size_t{2} << 20,
        std::size_t{4096}, std::size_t{256}}) {
    std::vector<buffer> all;
    while (all.size() * bytes < (15U << 20)) {
      all.push_back(buffer::allocate(ctx, bytes, ctx->work_stream(), "full"));
    }
    ASSERT_LE(held(ctx), allowed(ctx)) << bytes;
  }
  EXPECT_EQ(beyond(ctx), 0U);
}

TEST_P(bound_of_the_device, holds_for_random_sizes_at_a_full_budget) {
  constexpr unsigned threads = 16;
  constexpr unsigned rounds = 1500;
  constexpr std::size_t most_live = 600; // enough for one thread to fill the budget
  const auto ctx = open(8 << 20);
  std::atomic<std::uint64_t> refused{0};
  std::atomic<std::uint64_t> most_held{0};
  std::atomic<unsigned> running{threads};
  const auto sample = [&] {
    const std::uint64_t now = held(ctx);
    for (std::uint64_t seen = most_held; now > seen && !most_held.compare_exchange_weak(seen, now);) {
    }
  };
  const auto live = [&](unsigned seed) {
    std::mt19937 random(seed);
    const auto own = ctx->borrow_stream();
    std::vector<buffer> mine;
    const auto drop_one = [&] {
      std::swap(mine[random() % mine.size()], mine.back());
      mine.pop_back();
    };
    for (unsigned round = 0; round < rounds; ++round) {
      const std::size_t bytes = 1 + random() % (std::size_t{256} << random() % 11);
      try {
        mine.push_back(buffer::allocate(ctx, bytes, own.ref(), "storm"));
      } catch (const error& e) {
        EXPECT_EQ(e.code(), errc::budget_exceeded) << e.what();
        ++refused;
      }
      if (!mine.empty() && (mine.size() == most_live || random() % 4 == 0)) {
        drop_one();
      }
      if (round % 750 == 749) { // keeps some blocks, so that slabs of all classes are partly used
        while (mine.size() > most_live / 10) {
          drop_one();
        }
      }
      sample();
    }
    --running;
  };
  std::vector<std::jthread> all;
  for (unsigned t = 0; t < threads; ++t) {
    all.emplace_back(live, t);
  }
  while (running != 0) {
    sample();
  }
  all.clear();
  EXPECT_LE(most_held, allowed(ctx)) << beyond(ctx) << " blocks beyond";
  EXPECT_GT(refused, 0U) << "never full, so nothing is shown";
}

SAETA_CONFORMANCE_SUITE(bound_of_the_device);

} // namespace
} // namespace saeta::conformance
