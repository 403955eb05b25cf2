#include "saeta/base/thread_number.hpp"

namespace saeta {

std::size_t detail::look_up_thread_number() noexcept {
  static std::atomic<std::size_t> taken{0};
  thread_local constinit std::size_t from_one = 0; // 0 until it is taken
  thread_local constinit std::size_t own = 0;
  if (from_one == 0) {
    from_one = taken.fetch_add(1, std::memory_order_relaxed) + 1;
    own = from_one - 1;
  }
  keep_own(thread_object::number, &own);
  return own;
}

} // namespace saeta
