#include "saeta/base/huge_pages.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace saeta {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t half = huge_page_bytes / 2;
constexpr std::size_t most = std::numeric_limits<std::size_t>::max();

std::uintptr_t address_of(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

/// Address space of the process; asks for no memory.
std::size_t mapped_by_process() {
  std::array<char, 64> text{};
  const int file = ::open("/proc/self/statm", O_RDONLY);
  const bool read = ::read(file, text.data(), text.size() - 1) > 0;
  ::close(file);
  const std::size_t pages = read ? std::strtoull(text.data(), nullptr, 10) : 0U;
  return pages * static_cast<std::size_t>(::getpagesize());
}

bool is_mapped(void* page_of) {
  unsigned char resident = 0;
  return ::mincore(page_of, page, &resident) == 0;
}

TEST(huge_pages, are_mapped_for_large_blocks_and_as_a_whole_where_half_of_one_is_used) {
  EXPECT_EQ(mapped_bytes(0), 0U);
  EXPECT_EQ(mapped_bytes(half - 1), 0U);
  EXPECT_EQ(mapped_bytes(half), huge_page_bytes);
  EXPECT_EQ(mapped_bytes(huge_page_bytes), huge_page_bytes);
  EXPECT_EQ(mapped_bytes(huge_page_bytes + 1), huge_page_bytes + page);
  EXPECT_EQ(mapped_bytes(huge_page_bytes + page), huge_page_bytes + page);
  EXPECT_EQ(mapped_bytes(huge_page_bytes + half - 1), huge_page_bytes + half);
  EXPECT_EQ(mapped_bytes(huge_page_bytes + half), 2 * huge_page_bytes);
  EXPECT_EQ(mapped_bytes(most), 0U); // which `operator new` refuses
}

TEST(huge_pages, begin_at_a_multiple_of_their_size_and_nothing_is_left_around_them) {
  const std::size_t bytes = 2 * huge_page_bytes + page;
  const std::size_t before = mapped_by_process();
  auto* const made = static_cast<std::byte*>(map_pages(bytes));
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(mapped_by_process() - before, bytes);
  EXPECT_EQ(address_of(made) % huge_page_bytes, 0U);
  for (std::size_t at = 0; at < bytes; at += page) {
    EXPECT_EQ(made[at], std::byte{0});
    made[at + page - 1] = std::byte{1};
  }
  unmap_pages(made, bytes);
  EXPECT_FALSE(is_mapped(made));
  EXPECT_FALSE(is_mapped(made + bytes - page));
}

TEST(huge_pages, of_a_system_without_memory_are_null) {
  EXPECT_EQ(map_pages(most / page * page), nullptr);
  EXPECT_EQ(map_pages(std::size_t{1} << 62), nullptr);
}

TEST(huge_pages, hold_the_values_of_large_containers_and_go_with_them) {
  void* memory = nullptr;
  {
    std::vector<std::uint64_t, huge_page_allocator<std::uint64_t>> values(half / sizeof(std::uint64_t) - 1,
                                                                          7);
    values.resize(half / sizeof(std::uint64_t), 8);
    values.shrink_to_fit();
    memory = values.data();
    EXPECT_EQ(address_of(memory) % huge_page_bytes, 0U);
    EXPECT_EQ(values.front(), 7U);
    EXPECT_EQ(values.back(), 8U);
  }
  EXPECT_FALSE(is_mapped(memory));
}

TEST(huge_pages, are_refused_as_new_refuses_memory) {
  huge_page_allocator<std::uint64_t> from;
  EXPECT_THROW(static_cast<void>(from.allocate(most / 4)), std::bad_array_new_length);
  EXPECT_THROW(static_cast<void>(from.allocate(std::size_t{1} << 59)), std::bad_alloc);
}

} // namespace
} // namespace saeta
