// The sequences of requests ("patterns") that every peer serves.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

namespace saeta::bench {

inline constexpr std::size_t pairs_in_batch = 64;
inline constexpr std::uint64_t budget_bytes = std::uint64_t{2} << 30;

struct pattern {
  std::string_view name;
  bool mixed;           ///< random sizes from 256 bytes to 512 KiB, log-uniform; otherwise 64 KiB
  bool crossed;         ///< every fourth block is freed on the stream of another thread
  std::size_t held;     ///< blocks that each thread keeps, replacing one at a time
  bool settled = false; ///< before, each thread holds `settled_blocks` of the largest size at once
};

inline constexpr std::size_t settled_blocks = 32;
inline constexpr std::size_t largest_request = std::size_t{512} << 10;

inline constexpr std::array patterns{pattern{"same", false, false, 0}, pattern{"mixed", true, false, 0},
                                     pattern{"crossed", true, true, 0}, pattern{"held", true, false, 64},
                                     pattern{"settled", true, false, 0, true}};

/// Returns the sizes in bytes that one thread requests, in order and repeatedly. Every peer gets the same.
inline std::vector<std::size_t> request_sizes(const pattern& how, std::size_t thread) {
  std::vector<std::size_t> sizes(1024, std::size_t{64} << 10);
  if (how.mixed) {
    std::mt19937_64 random(thread + 1);
    for (std::size_t& bytes : sizes) {
      bytes = (std::size_t{256} << random() % 12) + random() % 256; // at most `largest_request` + 255
    }
  }
  return sizes;
}

} // namespace saeta::bench
