#include "saeta/base/pages.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace saeta {
namespace {

const std::size_t page = page_bytes();
constexpr std::size_t most_pages = std::numeric_limits<std::size_t>::max();

std::uintptr_t address_of(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

/// Returns the bytes of address space that the process has mapped. Allocates no memory itself.
std::size_t mapped_by_process() {
  std::array<char, 4096> text{};
  const int file = ::open("/proc/self/status", O_RDONLY);
  const bool read = ::read(file, text.data(), text.size() - 1) > 0;
  ::close(file);
  const char* const size = read ? std::strstr(text.data(), "VmSize:") : nullptr;
  return size == nullptr ? 0U : std::strtoull(size + std::strlen("VmSize:"), nullptr, 10) * 1024;
}

bool is_mapped(void* page_of) {
  unsigned char resident = 0;
  return ::mincore(page_of, page, &resident) == 0;
}

TEST(huge_pages, are_aligned_and_leave_no_other_pages_mapped) {
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

TEST(huge_pages, are_null_if_the_system_has_no_memory) {
  EXPECT_EQ(map_pages(most_pages / page * page), nullptr);
  EXPECT_EQ(map_pages(std::size_t{1} << 62), nullptr);
}

} // namespace
} // namespace saeta
