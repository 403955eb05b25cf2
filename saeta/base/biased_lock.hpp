// A lock that one thread takes again and again, each time for two stores.
//
// Why       A lock that threads share costs a locked instruction, which waits until all earlier stores are done: as long as
//           everything else that is done under it. What is split up by thread (credit, free lists, the ledger) is
//           nearly always taken by the same thread.
// What      Once a thread has taken the lock often enough in a row, the lock is biased to it. From then on the thread says
//           in a place of its own that it is inside, and looks whether the lock is still biased to it. Anybody else takes
//           the bias away first: he changes the word, has every running thread of the process pass a barrier
//           (membarrier(2), some microseconds), and waits until the owner is not inside. Then the lock is an ordinary one
//           until it is biased again, so that barriers are rare wherever threads do share.
//           As in K. Kawachiya et al., "Lock reservation: Java locks can mostly do without atomic operations", OOPSLA 2002.
// Thread    Any. `own` is for the thread that takes the lock most; while it is held, no other lock may be taken, because
//           others wait for its end with locks in their hands. `lock` is for everybody else.
// Without   Where the system has no membarrier, or forbids it, no lock is ever biased.
// Fork      A child must not use a lock of its parent (base/process.hpp).
#pragma once

#include "saeta/base/thread_objects.hpp"

#include <atomic>
#include <cstdint>

namespace saeta {

class biased_lock {
public:
  /// Takes the lock until the end of its scope.
  class own {
  public:
    explicit own(biased_lock& lock) noexcept : lock_(lock), place_(lock.enter()) {}
    own(const own&) = delete;
    own& operator=(const own&) = delete;
    ~own() {
      if (place_ != nullptr) [[likely]] {
        place_->inside.store(nullptr, std::memory_order_release);
      } else {
        lock_.unlock();
      }
    }

  private:
    biased_lock& lock_;
    detail::thread_place* place_; ///< null: taken as an ordinary lock
  };

  void lock() noexcept {
    if (begin_lock()) {
      pass_barrier();
      finish_lock();
    }
  }
  /// False only while somebody holds it as an ordinary lock.
  [[nodiscard]] bool try_lock() noexcept;
  void unlock() noexcept { word_.store(free, std::memory_order_release); }

  /// Whether it is biased to some thread.
  [[nodiscard]] bool biased() const noexcept { return word_.load(std::memory_order_relaxed) > held; }

  /// Takes several locks with one barrier. @param visit  calls what it is given with each of them; it runs twice, over the
  /// same ones.
  template <class Visit>
  static void lock_all(Visit visit) noexcept {
    bool from_owners = false;
    visit([&](biased_lock& each) { from_owners |= each.begin_lock(); });
    if (from_owners) {
      pass_barrier();
    }
    visit([](const biased_lock& each) { each.finish_lock(); });
  }

  /// The parts of `lock`: where `begin_lock` says true, `pass_barrier` comes next; `finish_lock` is the end in any case.
  [[nodiscard]] bool begin_lock() noexcept;
  void finish_lock() const noexcept;
  static void pass_barrier() noexcept;

  /// Times in a row that a thread takes the lock as its own before it is biased to it: for each of them, others may spend
  /// some nanoseconds on a barrier.
  static constexpr std::uint32_t enough = 1024;

private:
  static constexpr std::uintptr_t free = 0;
  static constexpr std::uintptr_t held = 1;

  enum class taken { no, yes, from_owner };
  [[nodiscard]] taken take() noexcept;

  static std::uintptr_t key_of(const detail::thread_place& place) noexcept {
    return reinterpret_cast<std::uintptr_t>(&place);
  }

  detail::thread_place* enter() noexcept {
    const std::uintptr_t thread = detail::thread_key();
    detail::thread_place& mine = detail::place_of(thread);
    if (word_.load(std::memory_order_relaxed) == key_of(mine) &&
        mine.owner.load(std::memory_order_relaxed) == thread) [[likely]] {
      mine.inside.store(this, std::memory_order_relaxed);
      std::atomic_signal_fence(
          std::memory_order_seq_cst); // the processor's part is done by who takes the bias
      if (word_.load(std::memory_order_acquire) == key_of(mine)) [[likely]] {
        return &mine;
      }
      mine.inside.store(nullptr, std::memory_order_release);
    }
    return enter_unbiased();
  }
  detail::thread_place* enter_unbiased() noexcept;

  std::atomic<std::uintptr_t> word_{free}; ///< or held, or the place of the thread that it is biased to
  // Whoever holds the lock:
  detail::thread_place* last_ = nullptr;  ///< who took it last as its own
  detail::thread_place* owner_ = nullptr; ///< whose bias is being taken away; he may be inside
  std::uint32_t in_a_row_ = 0;
};

} // namespace saeta
