// Taking a lock that another thread may hold for long, such as that of a movement of gigabytes (base/interrupt.hpp).
#pragma once

#include "saeta/base/interrupt.hpp"

#include <mutex>

namespace saeta {

/// @throws whatever the hook throws; the lock is not taken then.
[[nodiscard]] inline std::unique_lock<std::timed_mutex> lock_interruptibly(std::timed_mutex& mutex) {
  std::unique_lock lock(mutex, std::try_to_lock);
  while (!lock) {
    check_interrupt();
    static_cast<void>(lock.try_lock_for(interrupt_interval));
  }
  return lock;
}

} // namespace saeta
