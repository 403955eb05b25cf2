// Processes the chunks of a scatter in time windows of some milliseconds.
//
// What      After each window the program can report progress and be interrupted, without the ring's lock.
//           Windows are long enough that threads seldom wait for each other. The longest chains of a window
//           begin first, so that all threads have work until its end. A chain that did not finish, or did not
//           begin, in its window continues in the next one. The time of a window begins with its first chain,
//           because the threads may still work on another scatter. Decoding readers are reused from chain to
//           chain: their state and input buffers would cost a page fault per page if they were made anew.
// Thread    Between `open` and `close` several threads may process different chains. Other calls: one thread.
#pragma once

#include "saeta/staging/chunk_cutter.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace saeta {

struct chain_begin {
  chunk_cursor at;
  std::uint64_t bytes = 0; ///< of the whole chain
};

/// Chunks that are transferred one after the other, and the position reached.
struct chunk_chain {
  chunk_cursor at;
  std::uint64_t bytes = 0;                            ///< of the whole chain
  std::unique_ptr<ordered_reader> decoding = nullptr; ///< made on first use
  bool done = false;
};

class chain_windows {
public:
  using clock = std::chrono::steady_clock;

  static constexpr std::chrono::milliseconds window_time{40};

  /// @param cutter  must outlive this object
  /// @param from    position of the first chunk; the caller transfers the chunks before it
  chain_windows(const chunk_cutter& cutter, std::size_t threads, chunk_cursor from = {});

  [[nodiscard]] std::size_t chains() const noexcept { return begins_.size(); }
  /// Opens the next window. Returns its number of chains; 0 at the end.
  std::size_t open();
  /// Calls `bring(chain)` for the chunks of chain `number` until the window ends. `bring` returns where the
  /// next chunk begins.
  template <class Bring>
  void process_chain(std::size_t number, Bring bring) {
    chunk_chain& chain = chains_[number];
    clock::time_point last{};
    if (const auto mine = clock::now() + window_time; last_.compare_exchange_strong(last, mine)) {
      last = mine;
    }
    if (number != 0 && clock::now() >= last) {
      return;
    }
    if (chain.decoding == nullptr) {
      chain.decoding = take_idle();
    }
    do {
      chain.at = bring(chain);
      chain.done = cutter_.begins_chain(chain.at);
    } while (!chain.done && clock::now() < last);
    if (chain.done && chain.decoding != nullptr) {
      chain.decoding->finish();
      keep_idle(std::move(chain.decoding));
    }
  }
  void close() noexcept;

private:
  /// Takes a reader whose chain has ended; null if there is none.
  std::unique_ptr<ordered_reader> take_idle();
  void keep_idle(std::unique_ptr<ordered_reader> reader);

  const chunk_cutter& cutter_;
  std::vector<chain_begin> begins_;
  std::size_t next_ = 0; ///< index in `begins_`
  std::size_t size_;     ///< maximum number of chains in a window
  std::vector<chunk_chain> chains_;
  std::mutex idle_mutex_;
  std::vector<std::unique_ptr<ordered_reader>> idle_;
  /// No chunk begins after this time; the default value until the first chunk has begun.
  std::atomic<clock::time_point> last_;
};

} // namespace saeta
