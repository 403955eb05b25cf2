#include "saeta/base/thread_number.hpp"

#include <atomic>

namespace saeta {

std::size_t thread_number() noexcept {
  static std::atomic<std::size_t> taken{0};
  thread_local const std::size_t own = taken.fetch_add(1, std::memory_order_relaxed);
  return own;
}

} // namespace saeta
