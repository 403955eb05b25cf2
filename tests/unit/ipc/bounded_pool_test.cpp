// Memory for decoding: counted to the byte, refused beyond the limit, there as long as anything of it.

#include "saeta/base/error.hpp"
#include "saeta/ipc/detail/bounded_pool.hpp"

#include <arrow/status.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <string>

#include <malloc.h>

namespace saeta::ipc::detail {
namespace {

constexpr std::int64_t alignment = 64;
constexpr std::int64_t more_than_there_is = std::int64_t{1} << 62;
constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();

using counts = std::array<std::int64_t, 3>;

/// Live bytes, all bytes ever and allocations, as libarrow asks for them.
counts counts_of(const arrow::MemoryPool& pool) {
  return {pool.bytes_allocated(), pool.total_bytes_allocated(), pool.num_allocations()};
}

TEST(bounded_pool, counts_what_is_live_and_what_was_given_out) {
  const auto before = arrow::default_memory_pool()->bytes_allocated();
  const auto pool = bounded_pool::make(1000);
  EXPECT_EQ(pool->limit(), 1000);
  EXPECT_EQ(counts_of(*pool), (counts{0, 0, 0}));
  std::uint8_t* memory = nullptr;
  ASSERT_TRUE(pool->Allocate(600, alignment, &memory).ok());
  EXPECT_EQ(counts_of(*pool), (counts{600, 600, 1}));
  ASSERT_TRUE(pool->Reallocate(600, 1000, alignment, &memory).ok()) << "all that the limit allows";
  EXPECT_EQ(counts_of(*pool), (counts{1000, 1000, 2}));
  ASSERT_TRUE(pool->Reallocate(1000, 200, alignment, &memory).ok());
  EXPECT_EQ(counts_of(*pool), (counts{200, 1000, 3}));
  std::uint8_t* second = nullptr;
  ASSERT_TRUE(pool->Allocate(800, alignment, &second).ok()) << "all that the limit allows";
  EXPECT_EQ(counts_of(*pool), (counts{1000, 1800, 4}));
  pool->Free(memory, 200, alignment);
  EXPECT_EQ(counts_of(*pool), (counts{800, 1800, 4}));
  pool->Free(second, 800, alignment);
  EXPECT_EQ(counts_of(*pool), (counts{0, 1800, 4}));
  EXPECT_EQ(arrow::default_memory_pool()->bytes_allocated(), before);
}

TEST(bounded_pool, refuses_what_goes_beyond_its_limit) {
  const auto pool = bounded_pool::make(1000);
  std::uint8_t* memory = nullptr;
  ASSERT_TRUE(pool->Allocate(600, alignment, &memory).ok());
  std::uint8_t* second = nullptr;
  const auto refused = pool->Allocate(401, alignment, &second);
  EXPECT_TRUE(refused.IsOutOfMemory());
  EXPECT_EQ(refused.message(), "decoding needs 401 bytes beside 600 in use");
  EXPECT_TRUE(pool->Reallocate(600, 1001, alignment, &memory).IsOutOfMemory());
  EXPECT_EQ(counts_of(*pool), (counts{600, 600, 1}));
  EXPECT_FALSE(pool->exhausted());
  pool->Free(memory, 600, alignment);
}

TEST(bounded_pool, has_buffers_of_no_bytes_but_none_of_fewer) {
  const auto pool = bounded_pool::make(1000);
  std::uint8_t* memory = nullptr;
  EXPECT_EQ(pool->Allocate(-1, alignment, &memory).message(), "a buffer of -1 bytes");
  EXPECT_EQ(counts_of(*pool), (counts{0, 0, 0}));
  EXPECT_FALSE(pool->exhausted());
  ASSERT_TRUE(pool->Allocate(0, alignment, &memory).ok());
  ASSERT_TRUE(pool->Reallocate(0, 10, alignment, &memory).ok());
  EXPECT_EQ(pool->Reallocate(10, -1, alignment, &memory).message(), "a buffer of -1 bytes");
  ASSERT_TRUE(pool->Reallocate(10, 0, alignment, &memory).ok());
  EXPECT_FALSE(pool->exhausted());
  pool->Free(memory, 0, alignment);
}

TEST(bounded_pool, remembers_that_the_system_had_no_memory) {
  const auto allocating = bounded_pool::make(no_limit);
  std::uint8_t* memory = nullptr;
  EXPECT_TRUE(allocating->Allocate(more_than_there_is, alignment, &memory).IsOutOfMemory());
  EXPECT_TRUE(allocating->exhausted());
  EXPECT_EQ(counts_of(*allocating), (counts{0, 0, 0}));

  const auto growing = bounded_pool::make(no_limit);
  ASSERT_TRUE(growing->Allocate(100, alignment, &memory).ok());
  EXPECT_FALSE(growing->exhausted());
  EXPECT_TRUE(growing->Reallocate(100, more_than_there_is, alignment, &memory).IsOutOfMemory());
  EXPECT_TRUE(growing->exhausted());
  EXPECT_EQ(counts_of(*growing), (counts{100, 100, 1}));
  growing->Free(memory, 100, alignment);
}

TEST(bounded_pool, lives_as_long_as_its_owner_and_its_memory) {
  constexpr int pools = 1000;
  const auto bytes_in_use = [] { return ::mallinfo2().uordblks; };
  const auto before = bytes_in_use();
  for (int i = 0; i < pools; ++i) {
    auto owner = bounded_pool::make(1000);
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

TEST(bounded_pool, its_limit_follows_the_source_from_one_mebibyte_on) {
  constexpr std::size_t mebibyte = std::size_t{1} << 20;
  constexpr std::size_t last = (std::size_t{1} << 53) - 1; // the next one times 1024 has no 63 bits
  EXPECT_EQ(default_decode_limit(0), std::int64_t{1} << 30);
  EXPECT_EQ(default_decode_limit(mebibyte), std::int64_t{1} << 30);
  EXPECT_EQ(default_decode_limit(mebibyte + 1), (std::int64_t{1} << 30) + 1024);
  EXPECT_EQ(default_decode_limit(last), static_cast<std::int64_t>(last) * 1024);
  EXPECT_EQ(default_decode_limit(last + 1), no_limit);
  EXPECT_EQ(default_decode_limit(std::numeric_limits<std::size_t>::max()), no_limit);
}

TEST(bounded_pool, a_refusal_is_the_fault_of_the_source_unless_the_system_has_no_memory) {
  const auto said = [](const arrow::Status& status, const bounded_pool& pool) {
    try {
      check_decoded(status, pool, 77, "here");
      return std::string("nothing");
    } catch (const error& failure) {
      return std::string(name_of(failure.code())) + ", " + failure.message();
    }
  };
  const auto pool = bounded_pool::make(1000);
  const auto beyond = arrow::Status::OutOfMemory("too much");
  EXPECT_EQ(said(arrow::Status::OK(), *pool), "nothing");
  EXPECT_EQ(said(beyond, *pool), std::string(name_of(errc::format)) +
                                     ", here: too much (decode_limit is 1000 bytes, for a source of 77)");
  EXPECT_EQ(said(arrow::Status::Invalid("wrong"), *pool),
            std::string(name_of(errc::format)) + ", here: wrong");

  const auto unlimited = bounded_pool::make(no_limit);
  std::uint8_t* memory = nullptr;
  ASSERT_FALSE(unlimited->Allocate(more_than_there_is, alignment, &memory).ok());
  EXPECT_EQ(said(beyond, *unlimited), std::string(name_of(errc::out_of_memory)) + ", here: too much");
}

} // namespace
} // namespace saeta::ipc::detail
