// Random bytes from a seed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <random>
#include <vector>

namespace saeta::support {

inline std::vector<std::byte> random_bytes(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> made(count);
  std::generate(made.begin(), made.end(), [&] { return static_cast<std::byte>(random()); });
  return made;
}

} // namespace saeta::support
