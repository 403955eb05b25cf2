#include "saeta/resource/block.hpp"

#include <atomic>

namespace saeta {

std::uint64_t next_generation() noexcept {
  constexpr std::uint64_t at_a_time = 4096; // threads would contend for a counter of single numbers
  static std::atomic<std::uint64_t> ranges{0};
  thread_local constinit std::uint64_t last = 0;
  if (last % at_a_time == 0) [[unlikely]] {
    last = ranges.fetch_add(1, std::memory_order_relaxed) * at_a_time;
  }
  return ++last;
}

} // namespace saeta
