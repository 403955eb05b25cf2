#include "saeta/base/thread_number.hpp"

namespace saeta {

std::size_t detail::look_up_thread_number() noexcept {
  static std::atomic<std::size_t> taken{0};
  thread_local std::size_t own = taken.fetch_add(1, std::memory_order_relaxed);
  keep_own(thread_object::number, &own);
  return own;
}

} // namespace saeta
