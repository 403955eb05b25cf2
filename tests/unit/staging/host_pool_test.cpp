#include "saeta/base/error.hpp"
#include "saeta/staging/host_pool.hpp"
#include "support/child_process.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

namespace saeta {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

std::shared_ptr<host_pool> pool_with(const std::shared_ptr<budget>& limit,
                                     std::uint64_t most_kept = 64 * mib) {
  return std::make_shared<host_pool>(limit, most_kept);
}

/// Allocates a block that is charged to a budget, as a context does.
std::shared_ptr<std::byte> take(const std::shared_ptr<host_pool>& pool, const std::shared_ptr<budget>& limit,
                                std::size_t bytes) {
  if (auto refused = limit->charge_or_refuse(bytes)) {
    throw error(std::move(*refused));
  }
  return pool->take(bytes, {nullptr, [limit, bytes](void*) { limit->refund(bytes); }}).memory;
}

TEST(host_pool, reuses_a_block_of_the_same_class) {
  const auto pool = pool_with(budget::create("host"));
  auto first = pool->take(5 * mib, nullptr).memory;
  std::memset(first.get(), 7, 5 * mib);
  const std::byte* const address = first.get();
  first.reset();
  EXPECT_EQ(pool->kept_bytes(), 5 * mib);
  const auto second = pool->take(5 * mib - 100, nullptr).memory;
  EXPECT_EQ(second.get(), address);
  EXPECT_EQ(second.get()[5 * mib - 101], std::byte{7}) << "still warm";
  EXPECT_EQ(pool->kept_bytes(), 0U);
  EXPECT_EQ(pool->held_bytes(), 5 * mib);
}

TEST(host_pool, knows_whether_a_block_was_written) {
  const auto pool = pool_with(budget::create("host"));
  EXPECT_TRUE(pool->take(mib, nullptr).fresh);
  EXPECT_FALSE(pool->take(mib, nullptr).fresh);
  EXPECT_TRUE(pool->take(2 * mib, nullptr).fresh);
  pool->trim();
  EXPECT_TRUE(pool->take(mib, nullptr).fresh);
}

TEST(host_pool, charges_blocks_in_use_and_refuses_with_numbers) {
  const auto limit = budget::create("host", 10 * mib);
  const auto pool = pool_with(limit);
  auto held = take(pool, limit, 6 * mib - 1);
  EXPECT_EQ(limit->statistics().current, 6 * mib - 1);
  try {
    static_cast<void>(take(pool, limit, 5 * mib));
    ADD_FAILURE() << "accepted";
  } catch (const error& refused) {
    ASSERT_NE(refused.refusal(), nullptr);
    EXPECT_EQ(refused.refusal()->limit, 10 * mib);
  }
  held.reset();
  EXPECT_EQ(limit->statistics().current, 0U);
}

TEST(host_pool, caches_the_latest_blocks_up_to_its_limit) {
  const auto pool = pool_with(budget::create("host"), 10 * mib);
  auto old = pool->take(8 * mib, nullptr).memory;
  auto late = pool->take(4 * mib, nullptr).memory;
  old.reset();
  late.reset();
  EXPECT_EQ(pool->kept_bytes(), 4 * mib);
  EXPECT_EQ(pool->held_bytes(), 4 * mib);
  EXPECT_EQ(pool->trim(), 4 * mib);
  EXPECT_EQ(pool->held_bytes(), 0U);
}

TEST(host_pool, frees_cached_blocks_before_the_budget_is_exceeded) {
  const auto pool = pool_with(budget::create("host", 10 * mib));
  static_cast<void>(pool->take(8 * mib, nullptr));
  EXPECT_EQ(pool->kept_bytes(), 8 * mib);
  const auto other = pool->take(4 * mib, nullptr).memory;
  EXPECT_EQ(pool->held_bytes(), 4 * mib);
}

TEST(host_pool, charges_nothing_for_failed_allocations) {
  const auto limit = budget::create("host");
  const auto pool = pool_with(limit);
  EXPECT_THROW(static_cast<void>(take(pool, limit, std::size_t{1} << 61)), error);
  EXPECT_EQ(limit->statistics().current, 0U);
  EXPECT_EQ(pool->held_bytes(), 0U);
}

TEST(host_pool, of_a_parent_can_be_read_and_dropped_in_a_child) {
  auto pool = pool_with(budget::create("host"));
  auto block = pool->take(mib, nullptr).memory;
  std::memset(block.get(), 3, mib);
  support::expect_in_a_child([&] {
    EXPECT_EQ(block.get()[mib - 1], std::byte{3});
    block.reset();
    pool.reset();
  });
  EXPECT_EQ(block.get()[mib - 1], std::byte{3});
}

TEST(host_pool, of_a_parent_is_not_used_by_a_child) {
  if (!support::allocator_forks) {
    GTEST_SKIP() << "the other thread allocates all the time";
  }
  const auto pool = pool_with(budget::create("host"));
  std::atomic<bool> stop{false};
  std::jthread busy([&] { // holds the pool's lock most of the time
    while (!stop) {
      static_cast<void>(pool->take(4096, nullptr));
    }
  });
  for (int i = 0; i < 20; ++i) {
    auto block = pool->take(4096, nullptr).memory;
    support::expect_in_a_child([&] {
      block.reset();
      static_cast<void>(pool->held_bytes() + pool->kept_bytes());
      EXPECT_EQ(pool->trim(), 0U);
      EXPECT_THROW(static_cast<void>(pool->take(1, nullptr)), error);
    });
  }
  stop = true;
}

TEST(host_pool, lives_as_long_as_its_blocks) {
  const auto limit = budget::create("host");
  auto pool = pool_with(limit);
  auto block = take(pool, limit, mib);
  pool.reset();
  std::memset(block.get(), 1, mib);
  block.reset();
  EXPECT_EQ(limit->statistics().current, 0U);
}

} // namespace
} // namespace saeta
