#include "saeta/base/biased_lock.hpp"

#include "saeta/base/report.hpp"

#include <cstdlib>
#include <thread>

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace saeta {
namespace {

constexpr int spins = 64; ///< before others may have the core

bool ask_kernel(int command) noexcept { return ::syscall(SYS_membarrier, command, 0, 0) == 0; }

/// False before the library's initialisers ran, and where the system refuses. While the process has one thread, which it
/// often has when the library is loaded, registering takes no time.
const bool barriers_available = ask_kernel(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);

} // namespace

void biased_lock::pass_barrier() noexcept {
  if (!ask_kernel(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) {
    report("biased_lock", "the system allowed membarrier and now refuses it: threads can't be kept apart");
    std::abort();
  }
}

biased_lock::taken biased_lock::take() noexcept {
  std::uintptr_t seen = word_.load(std::memory_order_relaxed);
  if (seen == held || !word_.compare_exchange_strong(seen, held, std::memory_order_acq_rel)) {
    return taken::no;
  }
  auto* const biased_to = reinterpret_cast<detail::thread_place*>(seen);
  owner_ =
      biased_to == detail::find_place() ? nullptr : biased_to; // a thread is not inside its own meanwhile
  return owner_ == nullptr ? taken::yes : taken::from_owner;
}

bool biased_lock::begin_lock() noexcept {
  taken outcome = take();
  for (int tries = 0; outcome == taken::no; ++tries) {
    if (tries > spins) {
      std::this_thread::yield(); // the holder may have lost its core
    }
    outcome = take();
  }
  return outcome == taken::from_owner;
}

void biased_lock::finish_lock() const noexcept {
  for (int tries = 0; owner_ != nullptr && owner_->inside.load(std::memory_order_acquire) == this; ++tries) {
    if (tries > spins) {
      std::this_thread::yield();
    }
  }
}

bool biased_lock::try_lock() noexcept {
  const taken outcome = take();
  if (outcome == taken::from_owner) {
    pass_barrier();
    finish_lock();
  }
  return outcome != taken::no;
}

detail::thread_place* biased_lock::enter_unbiased() noexcept {
  lock();
  detail::thread_place* const mine = detail::find_place();
  if (mine == nullptr || mine != last_) {
    last_ = mine;
    in_a_row_ = 0;
    return nullptr;
  }
  if (++in_a_row_ < enough || !barriers_available) {
    return nullptr;
  }
  in_a_row_ = 0;
  mine->inside.store(this, std::memory_order_relaxed);
  word_.store(key_of(*mine), std::memory_order_release);
  return mine;
}

} // namespace saeta
