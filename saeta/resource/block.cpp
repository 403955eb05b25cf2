#include "saeta/resource/block.hpp"

#include <atomic>

namespace saeta {

std::uint64_t& detail::last_generation() noexcept {
  thread_local constinit std::uint64_t own = 0;
  keep_own(thread_object::generation, &own);
  return own;
}

void detail::take_generations(std::uint64_t& last) noexcept {
  static std::atomic<std::uint64_t> ranges{0};
  last = ranges.fetch_add(1, std::memory_order_relaxed) * generations_at_a_time;
}

} // namespace saeta
