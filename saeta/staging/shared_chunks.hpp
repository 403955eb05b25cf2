// Assigns slices of chunks to threads that fill a few chunks together.
//
// What      Chunks have numbers and use the slots in turn: when a chunk ends, its slot goes to the next chunk
//           without one. The first thread that reaches a chunk begins it. Each thread fills the slice with
//           its own number, or the next free one if another thread was faster. The thread that finishes the
//           last slice ends the chunk. A thread thus works in the same few bytes of every slot, which stay in
//           the cache of its core, and the device still gets large copies. A slow thread delays only its own
//           chunk.
// Thread    Any number of threads call `take_part`, with tasks in increasing order of their start
//           (thread_pool.hpp). A waiting thread therefore waits for running threads. It spins for a while
//           before it sleeps: waking threads one by one takes longer than a chunk.
// Failure   An exception from a step ends everything: no thread waits any longer and no chunk is begun.
#pragma once

#include "saeta/observe/read_clock.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>

namespace saeta {

class shared_chunks {
public:
  using clock = std::chrono::steady_clock;

  static constexpr std::size_t most_slices = 16;

  /// @param slots   slots of the first chunks, in order; at least one
  /// @param chunks  maximum number of chunks (see `shorten`)
  /// @param slices  of each chunk, 1 to `most_slices`
  /// @param last    no chunk but the first is begun after this time
  shared_chunks(std::span<const std::size_t> slots, std::size_t chunks, std::size_t slices,
                clock::time_point last = clock::time_point::max())
      : chunks_(std::make_unique<chunk_state[]>(chunks)), count_(chunks), slices_(slices), last_(last),
        assigned_(std::min(slots.size(), chunks)) {
    for (std::size_t i = 0; i < assigned_; ++i) {
      chunks_[i].slot = slots[i];
      chunks_[i].stage = stage::ready;
    }
  }

  /// Task `number` is a slice of chunk `number / slices`. `begin(slot, chunk)` and `end(slot, chunk, next)`
  /// are called once for each chunk, while no other thread uses the slot. `fill(slot, chunk, slice)` is
  /// called between them. `next` is the chunk that gets the slot, or the number of chunks if none is left.
  /// @param member  number of the calling thread; it prefers the slice with this number
  template <class Begin, class Fill, class End>
  void take_part(std::size_t member, std::size_t number, const Begin& begin, const Fill& fill,
                 const End& end) {
    const std::size_t chunk = number / slices_;
    if (!admit(chunk)) {
      return;
    }
    chunk_state& mine = chunks_[chunk];
    try {
      stage seen = mine.stage.load(std::memory_order_acquire);
      while (seen != stage::filling) {
        if (failed_ || chunk >= count_) {
          return;
        }
        if (seen != stage::ready) {
          seen = await_other(seen, chunk);
        } else if (mine.stage.compare_exchange_strong(seen, stage::beginning)) {
          begin(mine.slot, chunk);
          mine.left.store(slices_, std::memory_order_relaxed);
          seen = stage::filling;
          enter(seen, mine);
        }
      }
      fill(mine.slot, chunk, take_slice(mine, member % slices_));
      if (mine.left.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        const std::size_t next = std::min(assigned_.fetch_add(1), count_.load());
        end(mine.slot, chunk, next);
        if (next < count_) {
          chunks_[next].slot = mine.slot;
          enter(stage::ready, chunks_[next]);
        }
      }
    } catch (...) {
      fail();
      throw;
    }
  }
  /// Lowers the number of chunks to `chunks`. Must be called before the first removed chunk has a slot: in
  /// `end`, where it is `next`, or before all tasks. Threads that wait for a removed chunk stop waiting.
  void shorten(std::size_t chunks) noexcept {
    {
      const std::lock_guard lock(mutex_); // a thread that is about to sleep must not miss the change
      count_ = std::min(count_.load(), chunks);
    }
    changed_.notify_all();
  }
  /// Number of chunks that were begun; they are the first ones. Call it after the last task.
  [[nodiscard]] std::size_t begun() const noexcept { return std::min(admitted_.load(), count_.load()); }

private:
  enum class stage { without_slot, ready, beginning, filling };

  struct chunk_state {
    std::atomic<shared_chunks::stage> stage{stage::without_slot};
    std::atomic<std::size_t> left{0};    ///< unfinished slices, while the chunk is filled
    std::atomic<std::uint32_t> taken{0}; ///< slices that a thread has taken, one bit each
    std::size_t slot = 0;                ///< valid from `ready` on
  };

  /// A chunk has as many tasks as slices, so a free slice exists.
  std::size_t take_slice(chunk_state& which, std::size_t wanted) const noexcept {
    std::uint32_t taken = which.taken.load(std::memory_order_relaxed);
    for (;;) {
      while ((taken >> wanted & 1U) != 0) {
        wanted = (wanted + 1) % slices_;
      }
      if (which.taken.compare_exchange_weak(taken, taken | 1U << wanted, std::memory_order_relaxed)) {
        return wanted;
      }
    }
  }

  void enter(stage next, chunk_state& which) {
    {
      const std::lock_guard lock(mutex_); // a thread that is about to sleep must not miss the change
      which.stage.store(next, std::memory_order_release);
    }
    changed_.notify_all();
  }
  stage await_other(stage seen, std::size_t chunk) {
    constexpr std::chrono::microseconds most_spinning{400}; // a chunk of 8 MiB is in flight for 155 us
    const chunk_state& which = chunks_[chunk];
    const auto changed = [&] {
      return which.stage.load(std::memory_order_acquire) != seen || failed_ || chunk >= count_;
    };
    std::optional<timed_part> timed;
    if (seen == stage::beginning) { // by a thread that waits until the slot's last chunk has arrived
      timed.emplace(read_part::link);
    }
    const auto spin_until = clock::now() + most_spinning;
    while (!changed()) {
      if (clock::now() >= spin_until) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, changed);
        break;
      }
      std::this_thread::yield();
    }
    return which.stage.load(std::memory_order_acquire);
  }

  /// A thread may reach a chunk before another one reaches the previous chunk. Both are admitted then.
  bool admit(std::size_t chunk) {
    if (chunk >= count_) {
      return false;
    }
    if (chunk < admitted_.load(std::memory_order_acquire)) {
      return true;
    }
    const std::lock_guard lock(mutex_);
    if (chunk < admitted_.load(std::memory_order_relaxed)) {
      return true;
    }
    closed_ = closed_ || (chunk != 0 && clock::now() >= last_);
    if (!closed_) {
      admitted_.store(chunk + 1, std::memory_order_release);
    }
    return !closed_;
  }

  void fail() noexcept {
    {
      const std::lock_guard lock(mutex_);
      failed_ = true;
    }
    changed_.notify_all();
  }

  std::unique_ptr<chunk_state[]> chunks_;
  std::atomic<std::size_t> count_;
  std::size_t slices_;
  clock::time_point last_;
  /// Chunks that have or had a slot. Exceeds the number of chunks at the end.
  std::atomic<std::size_t> assigned_;
  std::atomic<std::size_t> admitted_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
};

} // namespace saeta
