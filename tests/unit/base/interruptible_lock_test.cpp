// The shared mutex of transfers: exclusive and shared ownership, and waits that an interrupt ends.
#include "saeta/base/interruptible_lock.hpp"
#include "support/interrupts.hpp"
#include "unit/base/raises.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <semaphore>
#include <thread>

namespace saeta {
namespace {

using support::interrupts;
using guard = interruptible_mutex::guard;

struct ended_wait {};

thread_local bool ends_waits = false; // the interrupt hook ends waits of this thread
void end_wait_if_told() {
  if (ends_waits) {
    throw ended_wait{};
  }
}

/// Holds the mutex on another thread.
class holder {
public:
  holder(interruptible_mutex& mutex, bool shared)
      : thread_([this, &mutex, shared] {
          const guard held = shared ? mutex.lock_shared("sharing") : mutex.lock("holding");
          has_it_ = true;
          taken_.release();
          leave_.acquire();
        }) {}
  holder(const holder&) = delete;
  holder& operator=(const holder&) = delete;
  ~holder() { leave(); }

  void await() { taken_.acquire(); }
  [[nodiscard]] bool has_it() const { return has_it_; }
  void leave() {
    if (thread_.joinable()) {
      leave_.release();
      thread_.join();
    }
  }

private:
  std::atomic<bool> has_it_{false};
  std::binary_semaphore taken_{0};
  std::binary_semaphore leave_{0};
  std::jthread thread_;
};

/// Returns whether this thread would have to wait for the mutex. Needs `end_wait_if_told` as the interrupt
/// hook.
bool waits(interruptible_mutex& mutex, bool shared) {
  ends_waits = true;
  bool waited = false;
  try {
    const guard held = shared ? mutex.lock_shared("sharing") : mutex.lock("holding");
  } catch (const ended_wait&) {
    waited = true;
  }
  ends_waits = false;
  return waited;
}

TEST(interruptible_mutex, is_exclusive_or_shared) {
  const interrupts hook(end_wait_if_told);
  interruptible_mutex mutex;
  {
    holder alone(mutex, false);
    alone.await();
    EXPECT_TRUE(waits(mutex, false));
    EXPECT_TRUE(waits(mutex, true));
  }
  {
    holder one(mutex, true);
    one.await();
    holder other(mutex, true);
    other.await();
    EXPECT_TRUE(waits(mutex, false));
    one.leave();
    EXPECT_TRUE(waits(mutex, false)) << "the other one has it still";
    EXPECT_FALSE(waits(mutex, true)) << "the wait that was ended lets others in again";
  }
  EXPECT_FALSE(waits(mutex, false));
}

TEST(interruptible_mutex, lets_a_waiting_exclusive_owner_go_first) {
  const interrupts hook(end_wait_if_told);
  interruptible_mutex mutex;
  holder shared(mutex, true);
  shared.await();
  holder alone(mutex, false);
  while (!waits(mutex, true)) { // until the other thread waits
    std::this_thread::yield();
  }
  EXPECT_FALSE(alone.has_it());
  shared.leave();
  alone.await();
  EXPECT_TRUE(waits(mutex, true));
  alone.leave();
  EXPECT_FALSE(waits(mutex, true));
}

TEST(interruptible_mutex, refuses_to_be_locked_twice_by_a_thread) {
  interruptible_mutex mutex;
  const auto refused = [&] {
    return unit::code_raised_by([&] { static_cast<void>(mutex.lock("a transfer")); }) == errc::busy &&
           unit::code_raised_by([&] { static_cast<void>(mutex.lock_shared("a transfer")); }) == errc::busy;
  };
  {
    const guard held = mutex.lock("a transfer");
    EXPECT_TRUE(refused());
  }
  {
    const guard held = mutex.lock_shared("a transfer");
    EXPECT_TRUE(refused());
    holder other(mutex, true);
    other.await();
  }
  holder shared(mutex, true);
  shared.await();
  int asked = 0;
  const interrupts hook([&] {
    ++asked;
    EXPECT_TRUE(refused()) << "it waits to hold it alone";
    shared.leave();
  });
  const guard held = mutex.lock("a transfer");
  EXPECT_EQ(asked, 1);
}

} // namespace
} // namespace saeta
