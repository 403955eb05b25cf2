// Streaming copies write exactly the target bytes, at any alignment of source and target.

#include "saeta/staging/streaming_copy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace saeta {
namespace {

std::vector<std::byte> numbered(std::size_t bytes) {
  std::vector<std::byte> made(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    made[i] = static_cast<std::byte>(i * 7 + i / 256);
  }
  return made;
}

void require_copied(std::size_t to, std::size_t from, std::size_t bytes) {
  constexpr std::byte untouched{0xEE};
  const std::vector<std::byte> source = numbered(from + bytes + 1);
  std::vector<std::byte> target(to + bytes + 64, untouched);
  streaming_copy(target.data() + to, source.data() + from, bytes);
  const auto copied = target.begin() + static_cast<std::ptrdiff_t>(to);
  const auto end = copied + static_cast<std::ptrdiff_t>(bytes);
  ASSERT_TRUE(std::equal(copied, end, source.begin() + static_cast<std::ptrdiff_t>(from)))
      << bytes << " bytes from " << from << " to " << to;
  ASSERT_EQ(std::count(target.begin(), copied, untouched), static_cast<std::ptrdiff_t>(to));
  ASSERT_EQ(std::count(end, target.end(), untouched), 64) << bytes << " bytes to " << to;
}

TEST(streaming_copy, copies_every_length_at_every_alignment) {
  for (std::size_t to = 0; to < 64; ++to) {
    for (const std::size_t from : {std::size_t{0}, std::size_t{1}, std::size_t{16}, to}) {
      for (std::size_t bytes = 0; bytes <= 200; ++bytes) {
        require_copied(to, from, bytes);
      }
    }
  }
}

TEST(streaming_copy, copies_many_lines) { require_copied(3, 5, (std::size_t{1} << 20) + 17); }

} // namespace
} // namespace saeta
