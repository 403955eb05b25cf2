#include "saeta/base/interrupt.hpp"

#include "saeta/base/interruptible_wait.hpp"

#include <atomic>

namespace saeta {
namespace {

std::atomic<interrupt_hook> installed{nullptr};
std::atomic<wait_clock> clock_of_waits{&std::chrono::steady_clock::now};

} // namespace

interrupt_hook set_interrupt_hook(interrupt_hook hook) noexcept { return installed.exchange(hook); }

void check_interrupt() {
  if (const interrupt_hook hook = installed.load()) {
    hook();
  }
}

bool has_interrupt_hook() noexcept { return installed.load() != nullptr; }

std::chrono::steady_clock::time_point wait_now() { return clock_of_waits.load()(); }

wait_clock set_wait_clock(wait_clock clock) noexcept {
  return clock_of_waits.exchange(clock == nullptr ? &std::chrono::steady_clock::now : clock);
}

} // namespace saeta
