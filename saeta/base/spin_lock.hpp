// A lock for a few instructions that is rarely contended. Locking is one exchange, unlocking one store. The
// holder must not call anything that blocks.
//
// @code
// spin_lock lock;
// std::uint64_t hits = 0;
// {
//   const std::lock_guard held(lock);
//   ++hits; // no call that may block
// }
// @endcode
#pragma once

#include "saeta/base/export.hpp"

#include <atomic>
#include <thread>

namespace SAETA_EXPORT saeta {

class spin_lock {
public:
  void lock() noexcept {
    for (int tries = 0; held_.exchange(true, std::memory_order_acquire); ++tries) {
      if (tries > spins) {
        std::this_thread::yield(); // the holder may have been preempted
      }
    }
  }
  bool try_lock() noexcept { return !held_.exchange(true, std::memory_order_acquire); }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

private:
  static constexpr int spins = 64;
  std::atomic<bool> held_{false};
};

} // namespace saeta
