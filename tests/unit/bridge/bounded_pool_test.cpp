// The arrow::MemoryPool under a budget: exact accounting, refusals, and lifetime.

#include "saeta/backend/host/host_backend.hpp"
#include "saeta/base/error.hpp"
#include "saeta/bridge/arrow_status.hpp"
#include "saeta/bridge/bounded_pool.hpp"
#include "saeta/memory/context.hpp"

#include <arrow/status.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>

#include <malloc.h>

namespace saeta::bridge {
namespace {

constexpr std::int64_t alignment = 64;
constexpr std::int64_t more_than_there_is = std::int64_t{1} << 62;
constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();

using counts = std::array<std::int64_t, 3>;

/// Returns the pool's live bytes, total bytes and number of allocations.
counts counts_of(const arrow::MemoryPool& pool) {
  return {pool.bytes_allocated(), pool.total_bytes_allocated(), pool.num_allocations()};
}

TEST(bounded_pool, charges_single_bytes) {
  const auto limit = budget::create("test", 1000);
  const auto pool = bounded_pool::make();
  pool->charge_to(limit);
  std::uint8_t* memory = nullptr;
  ASSERT_TRUE(pool->Allocate(1, alignment, &memory).ok());
  EXPECT_EQ(limit->statistics().current, 1U);
  ASSERT_TRUE(pool->Reallocate(1, 2, alignment, &memory).ok());
  EXPECT_EQ(limit->statistics().current, 2U);
  ASSERT_TRUE(pool->Reallocate(2, 1, alignment, &memory).ok());
  EXPECT_EQ(limit->statistics().current, 1U);
  pool->Free(memory, 1, alignment);
  EXPECT_EQ(limit->statistics().current, 0U);
}

TEST(bounded_pool, counts_live_bytes_and_all_allocated_bytes) {
  const auto before = arrow::default_memory_pool()->bytes_allocated();
  const auto limit = budget::create("test", 1000);
  const auto pool = bounded_pool::make();
  pool->charge_to(limit);
  EXPECT_EQ(counts_of(*pool), (counts{0, 0, 0}));
  std::uint8_t* memory = nullptr;
  ASSERT_TRUE(pool->Allocate(600, alignment, &memory).ok());
  EXPECT_EQ(counts_of(*pool), (counts{600, 600, 1}));
  EXPECT_EQ(limit->statistics().current, 600U);
  ASSERT_TRUE(pool->Reallocate(600, 1000, alignment, &memory).ok()) << "all that the budget allows";
  EXPECT_EQ(counts_of(*pool), (counts{1000, 1000, 2}));
  EXPECT_EQ(limit->statistics().current, 1000U) << "a buffer that grows counts";
  ASSERT_TRUE(pool->Reallocate(1000, 200, alignment, &memory).ok());
  EXPECT_EQ(counts_of(*pool), (counts{200, 1000, 3}));
  EXPECT_EQ(limit->statistics().current, 200U);
  std::uint8_t* second = nullptr;
  ASSERT_TRUE(pool->Allocate(800, alignment, &second).ok()) << "all that the budget allows";
  EXPECT_EQ(counts_of(*pool), (counts{1000, 1800, 4}));
  pool->Free(memory, 200, alignment);
  EXPECT_EQ(counts_of(*pool), (counts{800, 1800, 4}));
  EXPECT_EQ(limit->statistics().current, 800U);
  pool->Free(second, 800, alignment);
  EXPECT_EQ(counts_of(*pool), (counts{0, 1800, 4}));
  EXPECT_EQ(limit->statistics().current, 0U);
  EXPECT_EQ(limit->statistics().peak, 1000U);
  EXPECT_EQ(arrow::default_memory_pool()->bytes_allocated(), before);
}

TEST(bounded_pool, keeps_the_contents_of_reallocated_memory_at_any_alignment) {
  const auto pool = bounded_pool::make();
  for (const std::int64_t at : {8, 64, 256, 4096}) {
    std::uint8_t* memory = nullptr;
    ASSERT_TRUE(pool->Allocate(100, at, &memory).ok());
    std::iota(memory, memory + 100, std::uint8_t{1});
    for (const std::int64_t size : {5000, 1'000'000}) {
      ASSERT_TRUE(pool->Reallocate(size == 5000 ? 100 : 5000, size, at, &memory).ok());
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % static_cast<std::uintptr_t>(at), 0U);
      EXPECT_EQ(memory[0], 1);
      EXPECT_EQ(memory[99], 100);
    }
    pool->Free(memory, 1'000'000, at);
  }
}

TEST(bounded_pool, refuses_requests_beyond_the_budget) {
  const auto limit = budget::create("test", 1000);
  const auto pool = bounded_pool::make();
  pool->charge_to(limit);
  std::uint8_t* memory = nullptr;
  ASSERT_TRUE(pool->Allocate(600, alignment, &memory).ok());
  std::uint8_t* second = nullptr;
  const auto refused = pool->Allocate(401, alignment, &second);
  EXPECT_TRUE(refused.IsOutOfMemory());
  try {
    raise(refused, "here");
  } catch (const error& failure) {
    ASSERT_NE(failure.refusal(), nullptr) << failure.message();
    EXPECT_EQ(failure.refusal()->requested, 401U);
    EXPECT_EQ(failure.refusal()->limit, 1000U);
  }
  EXPECT_TRUE(pool->Reallocate(600, 1001, alignment, &memory).IsOutOfMemory());
  EXPECT_EQ(counts_of(*pool), (counts{600, 600, 1}));
  EXPECT_EQ(limit->statistics().current, 600U);
  pool->Free(memory, 600, alignment);
}

TEST(bounded_pool, each_allocation_is_charged_to_the_budget_at_its_time) {
  const auto first = budget::create("first", 1000);
  const auto second = budget::create("second", 1000);
  const auto pool = bounded_pool::make();
  std::array<std::uint8_t*, 3> memory{};
  ASSERT_TRUE(pool->Allocate(5000, alignment, &memory[0]).ok()) << "charged to no budget";
  pool->charge_to(first);
  ASSERT_TRUE(pool->Allocate(100, alignment, &memory[1]).ok());
  pool->charge_to(second);
  ASSERT_TRUE(pool->Allocate(300, alignment, &memory[2]).ok());
  ASSERT_TRUE(pool->Reallocate(100, 700, alignment, &memory[1]).ok());
  EXPECT_EQ(first->statistics().current, 700U);
  EXPECT_EQ(second->statistics().current, 300U);
  pool->charge_to(nullptr);
  pool->Free(memory[0], 5000, alignment);
  pool->Free(memory[1], 700, alignment);
  EXPECT_EQ(first->statistics().current, 0U);
  EXPECT_EQ(second->statistics().current, 300U);
  pool->Free(memory[2], 300, alignment);
  EXPECT_EQ(second->statistics().current, 0U);
}

TEST(bounded_pool, memory_for_a_host_context_is_charged_to_that_context) {
  const auto ctx = context::create(make_host_backend());
  const auto reserved = ctx->with_reservation(1'000'000);
  const auto pool = bounded_pool::make();
  for (const auto& each : {ctx, reserved}) {
    pool->allocate_for(each);
    for (const std::int64_t at : {8, 64, 4096}) {
      std::uint8_t* memory = nullptr;
      ASSERT_TRUE(pool->Allocate(500, at, &memory).ok());
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % static_cast<std::uintptr_t>(at), 0U);
      std::memset(memory, 7, 500);
      EXPECT_GE(ctx->reports().statistics().ledger.own, 500U);
      EXPECT_EQ(ctx->reports().statistics().ledger.own, ctx->reports().statistics().budget.current);
      ASSERT_TRUE(pool->Reallocate(500, 3000, at, &memory).ok());
      EXPECT_EQ(memory[499], 7);
      EXPECT_GE(ctx->reports().statistics().ledger.own, 3000U);
      pool->Free(memory, 3000, at);
      EXPECT_EQ(ctx->reports().statistics().budget.current, 0U);
    }
  }
  pool->allocate_for(reserved);
  std::uint8_t* memory = nullptr;
  EXPECT_TRUE(pool->Allocate(2'000'000, alignment, &memory).IsOutOfMemory()) << "beyond the reservation";
  EXPECT_EQ(counts_of(*pool)[0], 0);
  pool->charge_to(nullptr);
}

TEST(bounded_pool, accepts_zero_bytes_and_refuses_negative_sizes) {
  const auto pool = bounded_pool::make();
  std::uint8_t* memory = nullptr;
  EXPECT_EQ(pool->Allocate(-1, alignment, &memory).message(),
            "the size of a buffer can't be negative, got -1");
  EXPECT_EQ(counts_of(*pool), (counts{0, 0, 0}));
  ASSERT_TRUE(pool->Allocate(0, alignment, &memory).ok());
  ASSERT_TRUE(pool->Reallocate(0, 10, alignment, &memory).ok());
  EXPECT_EQ(pool->Reallocate(10, -1, alignment, &memory).message(),
            "the size of a buffer can't be negative, got -1");
  ASSERT_TRUE(pool->Reallocate(10, 0, alignment, &memory).ok());
  pool->Free(memory, 0, alignment);
}

TEST(bounded_pool, does_not_count_failed_allocations) {
  const auto limit = budget::create("test");
  const auto pool = bounded_pool::make();
  pool->charge_to(limit);
  std::uint8_t* memory = nullptr;
  EXPECT_TRUE(pool->Allocate(more_than_there_is, alignment, &memory).IsOutOfMemory());
  EXPECT_TRUE(pool->Allocate(no_limit, alignment, &memory).IsOutOfMemory());
  EXPECT_EQ(counts_of(*pool), (counts{0, 0, 0}));
  EXPECT_EQ(limit->statistics().current, 0U);

  ASSERT_TRUE(pool->Allocate(100, alignment, &memory).ok());
  EXPECT_TRUE(pool->Reallocate(100, more_than_there_is, alignment, &memory).IsOutOfMemory());
  EXPECT_EQ(counts_of(*pool), (counts{100, 100, 1}));
  EXPECT_EQ(limit->statistics().current, 100U);
  pool->Free(memory, 100, alignment);
  EXPECT_EQ(limit->statistics().current, 0U);
}

TEST(bounded_pool, is_freed_with_its_owner_and_its_last_allocation) {
  constexpr int pools = 1000;
  const auto bytes_in_use = [] { return ::mallinfo2().uordblks; };
  const auto before = bytes_in_use();
  for (int i = 0; i < pools; ++i) {
    auto owner = bounded_pool::make();
    arrow::MemoryPool& pool = *owner;
    std::uint8_t* memory = nullptr;
    ASSERT_TRUE(pool.Allocate(10, alignment, &memory).ok());
    if (i % 2 == 0) {
      owner.reset();
      pool.Free(memory, 10, alignment);
    } else {
      pool.Free(memory, 10, alignment);
      EXPECT_EQ(pool.bytes_allocated(), 0);
    }
  }
  EXPECT_LT(bytes_in_use(), before + pools * sizeof(bounded_pool) / 4);
}

} // namespace
} // namespace saeta::bridge
