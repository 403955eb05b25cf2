// The chunks of a scatter, worked off by windows of some milliseconds.
//
// What      After each window the program can be told and interrupted, without a lock of the ring; windows are long enough that
//           threads seldom wait for each other. A chain that lasts longer than its window, or has not begun in it, is one of the
//           next. Readers that decode go from chain to chain: each keeps its window and its input, in memory that costs a fault a page.
// Thread    Between `open` and `close` threads may work off different chains at once; all else is one thread's.
#pragma once

#include "saeta/staging/chunk_cutter.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace saeta {

/// Chunks that are brought one after the other, and how far they are.
struct chunk_chain {
  chunk_cursor at;
  std::unique_ptr<ordered_reader> decoding; ///< made when it is needed
  bool done = false;
};

class chain_windows {
public:
  using clock = std::chrono::steady_clock;

  static constexpr std::chrono::milliseconds window_time{40};

  /// @param cutter  outlives this
  /// @param from    chunks before it are somebody else's
  chain_windows(const chunk_cutter& cutter, std::size_t threads, chunk_cursor from = {});

  [[nodiscard]] std::size_t chains() const noexcept { return begins_.size(); }
  /// Chains of the next window; 0 at the end.
  std::size_t open();
  /// Calls `bring(chain)` for the chunks of chain `number` as long as the window lasts. It returns where the next chunk begins.
  template <class Bring>
  void work_off(std::size_t number, Bring bring) {
    chunk_chain& chain = chains_[number];
    if (number != 0 && clock::now() >= last_) {
      return;
    }
    if (chain.decoding == nullptr) {
      chain.decoding = take_idle();
    }
    do {
      chain.at = bring(chain);
      chain.done = cutter_.begins_chain(chain.at);
    } while (!chain.done && clock::now() < last_);
    if (chain.done && chain.decoding != nullptr) {
      chain.decoding->finish();
      keep_idle(std::move(chain.decoding));
    }
  }
  void close() noexcept;

private:
  /// One whose chain has ended; null where there is none.
  std::unique_ptr<ordered_reader> take_idle();
  void keep_idle(std::unique_ptr<ordered_reader> reader);

  const chunk_cutter& cutter_;
  std::vector<chunk_cursor> begins_;
  std::size_t next_ = 0; ///< of the begins
  std::size_t size_;     ///< chains in a window, at most
  std::vector<chunk_chain> chains_;
  std::mutex idle_mutex_;
  std::vector<std::unique_ptr<ordered_reader>> idle_;
  clock::time_point last_; ///< when no further chunk is begun
};

} // namespace saeta
