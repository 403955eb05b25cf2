#include "saeta/base/interrupt.hpp"

#include "saeta/base/error.hpp"
#include "saeta/base/interruptible_wait.hpp"

#include <utility>

namespace saeta {
namespace {

std::atomic<interrupt_hook> installed{nullptr};
thread_local const std::atomic<bool>* cancelled_here = nullptr;
std::atomic<wait_clock> clock_of_waits{&std::chrono::steady_clock::now};

} // namespace

interrupt_hook set_interrupt_hook(interrupt_hook hook) noexcept { return installed.exchange(hook); }

cancellation_scope::cancellation_scope(const std::atomic<bool>* cancelled) noexcept
    : outer_(std::exchange(cancelled_here, cancelled)) {}

const std::atomic<bool>* cancellation_scope::current() noexcept { return cancelled_here; }

cancellation_scope::~cancellation_scope() { cancelled_here = outer_; }

void check_interrupt() {
  if (cancelled_here != nullptr && cancelled_here->load()) {
    cancelled_here = nullptr; // throws once, because undoing the work may wait as well
    throw error(errc::closed, "the object was closed while this thread was using it");
  }
  if (const interrupt_hook hook = installed.load()) {
    hook();
  }
}

bool has_interrupt_hook() noexcept { return cancelled_here != nullptr || installed.load() != nullptr; }

std::chrono::milliseconds wait_interval() noexcept {
  constexpr std::chrono::milliseconds of_cancelled{10};
  return cancelled_here != nullptr ? of_cancelled : interrupt_interval;
}

std::chrono::steady_clock::time_point wait_now() { return clock_of_waits.load()(); }

wait_clock set_wait_clock(wait_clock clock) noexcept {
  return clock_of_waits.exchange(clock == nullptr ? &std::chrono::steady_clock::now : clock);
}

} // namespace saeta
