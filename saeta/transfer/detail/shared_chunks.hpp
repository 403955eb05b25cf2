// Who does what where threads fill a few chunks together.
//
// What      Chunks have numbers and use the slots in turn. A chunk is begun by the first thread that comes to it, when the chunk
//           before it in its slot has ended; its slices are done by whoever takes them; the last one ends it. So all threads
//           work in few megabytes, which stay in the processor's cache, and the device still gets large copies.
// Thread    `take_part` by any number of threads, for tasks in increasing order of their start (worker_team.hpp): then whoever waits
//           for a chunk waits for threads that are at work.
// Failure   What a step throws ends all: nobody waits any more, and nothing is begun.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <limits>
#include <memory>
#include <mutex>
#include <span>

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
      slots_[i].next = i;
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
      std::unique_lock lock(at.mutex);
      at.changed.wait(lock, [&] { return at.failed || at.now == chunk || at.next == chunk; });
      if (at.failed) {
        return;
      }
      if (at.now != chunk) {
        begin(slot, chunk);
        at.now = chunk;
        at.next = none;
        at.left = slices_;
      }
      lock.unlock();
      fill(slot, chunk, number % slices_);
      lock.lock();
      if (--at.left == 0) {
        end(slot, chunk);
        at.next = chunk + count_;
        at.changed.notify_all();
      }
    } catch (...) {
      fail();
      throw;
    }
  }
  /// Chunks that were begun, which are the first ones. After the last task.
  [[nodiscard]] std::size_t begun() const noexcept { return admitted_; }

private:
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  struct slot_state {
    std::mutex mutex;
    std::condition_variable changed;
    std::size_t now = none; ///< chunk that was begun last
    std::size_t next = 0;   ///< chunk that may begin, or none
    std::size_t left = 0;   ///< slices of `now`
    bool failed = false;
  };

  /// One thread may come to a chunk before another has come to the one before it: both are admitted then.
  bool admit(std::size_t chunk) {
    const std::lock_guard lock(mutex_);
    if (chunk < admitted_) {
      return true;
    }
    closed_ = closed_ || (chunk != 0 && clock::now() >= last_);
    admitted_ = closed_ ? admitted_ : chunk + 1;
    return !closed_;
  }

  void fail() noexcept {
    for (slot_state& each : std::span(slots_.get(), count_)) {
      {
        const std::lock_guard lock(each.mutex);
        each.failed = true;
      }
      each.changed.notify_all();
    }
  }

  std::unique_ptr<slot_state[]> slots_;
  std::size_t count_;
  std::size_t slices_;
  clock::time_point last_;
  std::mutex mutex_;
  std::size_t admitted_ = 0;
  bool closed_ = false;
};

} // namespace saeta
