// Who does what where threads fill a few chunks together.
//
// What      Chunks have numbers and use the slots in turn. A chunk is begun by the first thread that comes to it, when the chunk
//           before it in its slot has ended; its slices are done by whoever takes them; the last one ends it. So all threads
//           work in few megabytes, which stay in the processor's cache, and the device still gets large copies.
// Thread    `take_part` by any number of threads, for tasks in increasing order of their start (worker_team.hpp): then whoever waits
//           for a chunk waits for threads that are at work. They look for a while before they sleep: threads that
//           wake each other one by one take longer than a chunk.
// Failure   What a step throws ends all: nobody waits any more, and nothing is begun.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <thread>

namespace saeta {

class shared_chunks {
public:
  using clock = std::chrono::steady_clock;

  /// @param slots   more than 0
  /// @param slices  of each chunk, more than 0
  /// @param last    when no chunk is begun any more, but the first one
  shared_chunks(std::size_t slots, std::size_t slices, clock::time_point last = clock::time_point::max())
      : slots_(std::make_unique<slot_state[]>(slots)), count_(slots), slices_(slices), last_(last) {
    for (std::size_t i = 0; i < slots; ++i) {
      slots_[i].stage = free_for(i);
    }
  }

  /// Task `number` is slice `number % slices` of chunk `number / slices`. `begin(slot, chunk)` and `end(slot, chunk)` are called once
  /// a chunk and with nobody else at the slot, `fill(slot, chunk, slice)` between them.
  template <class Begin, class Fill, class End>
  void take_part(std::size_t number, const Begin& begin, const Fill& fill, const End& end) {
    const std::size_t chunk = number / slices_;
    if (!admit(chunk)) {
      return;
    }
    const std::size_t slot = chunk % count_;
    slot_state& at = slots_[slot];
    try {
      std::size_t seen = at.stage.load(std::memory_order_acquire);
      while (seen != filling(chunk)) {
        if (seen == failed) {
          return;
        }
        if (seen == free_for(chunk)) {
          if (at.stage.compare_exchange_strong(seen, beginning(chunk))) {
            begin(slot, chunk);
            at.left.store(slices_, std::memory_order_relaxed);
            seen = at.enter(filling(chunk));
          }
        } else {
          seen = at.other_than(seen);
        }
      }
      fill(slot, chunk, number % slices_);
      if (at.left.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        end(slot, chunk);
        at.enter(free_for(chunk + count_));
      }
    } catch (...) {
      fail();
      throw;
    }
  }
  /// Chunks that were begun, which are the first ones. After the last task.
  [[nodiscard]] std::size_t begun() const noexcept { return admitted_; }

private:
  // What a slot is doing, as a number: three for each chunk.
  static constexpr std::size_t free_for(std::size_t chunk) { return 3 * chunk; }
  static constexpr std::size_t beginning(std::size_t chunk) { return 3 * chunk + 1; }
  static constexpr std::size_t filling(std::size_t chunk) { return 3 * chunk + 2; }
  static constexpr std::size_t failed = std::numeric_limits<std::size_t>::max();

  struct slot_state {
    std::atomic<std::size_t> stage{0};
    std::atomic<std::size_t> left{0}; ///< slices of the chunk that is being filled
    std::mutex mutex;                 ///< of those who sleep; held where `stage` changes while somebody may
    std::condition_variable changed;

    /// A failure stays. Returns what the stage is now.
    std::size_t enter(std::size_t next) {
      {
        const std::lock_guard lock(mutex);
        std::size_t now = stage.load(std::memory_order_relaxed);
        while (now != failed && !stage.compare_exchange_weak(now, next, std::memory_order_release)) {
        }
        next = now == failed ? failed : next;
      }
      changed.notify_all();
      return next;
    }
    std::size_t other_than(std::size_t seen) {
      constexpr std::chrono::microseconds patience{200}; // a chunk of 4 MiB is on its way for 80
      const auto tired = clock::now() + patience;
      do {
        std::this_thread::yield();
        const std::size_t now = stage.load(std::memory_order_acquire);
        if (now != seen) {
          return now;
        }
      } while (clock::now() < tired);
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return stage.load(std::memory_order_acquire) != seen; });
      return stage.load(std::memory_order_acquire);
    }
  };

  /// One thread may come to a chunk before another has come to the one before it: both are admitted then.
  bool admit(std::size_t chunk) {
    if (chunk < admitted_.load(std::memory_order_acquire)) {
      return true;
    }
    const std::lock_guard lock(mutex_);
    const std::size_t admitted = admitted_.load(std::memory_order_relaxed);
    if (chunk < admitted) {
      return true;
    }
    closed_ = closed_ || (chunk != 0 && clock::now() >= last_);
    if (!closed_) {
      admitted_.store(chunk + 1, std::memory_order_release);
    }
    return !closed_;
  }

  void fail() noexcept {
    for (slot_state& each : std::span(slots_.get(), count_)) {
      each.enter(failed);
    }
  }

  std::unique_ptr<slot_state[]> slots_;
  std::size_t count_;
  std::size_t slices_;
  clock::time_point last_;
  std::mutex mutex_; ///< of those who admit
  std::atomic<std::size_t> admitted_{0};
  bool closed_ = false;
};

} // namespace saeta
