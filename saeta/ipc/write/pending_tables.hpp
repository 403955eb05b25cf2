// The tables that a writer was given and that are not written yet.
//
// What      `put` adds a table and waits for room; `take` returns those that are written next. The taker says
//           when they are written, and when it has nothing left to do.
// Owner     Keeps tables until they are written. `end` drops them.
// Thread    `take`, `written`, `rest` and `end`: the thread that writes. Other methods: any other thread, one
//           at a time, but `cancel` at any time.
// Failure   `put`, `wait_until_idle` and `wait_until_ended` check for an interrupt (base/interrupt.hpp).
#pragma once

#include "saeta/column/table.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>

namespace saeta::ipc::detail {

class pending_tables {
public:
  /// @param most         bytes of all tables; one table may have more
  /// @param taken_bytes  bytes of the tables that `take` joins; 0: it joins none
  pending_tables(std::uint64_t most, std::uint64_t taken_bytes) : most_(most), taken_bytes_(taken_bytes) {}

  /// Waits for room, then adds a table. Returns false if the taker has ended.
  [[nodiscard]] bool put(const table& added);
  /// Waits until everything is written. Returns false if the taker has ended.
  [[nodiscard]] bool wait_until_idle();
  /// Says that no table follows.
  void finish();
  void wait_until_ended();
  /// Makes every wait of the taker, and every scope of `cancelled()`, throw error closed.
  void cancel() noexcept;
  /// Returns why the taker has ended, once; null if it ended well.
  [[nodiscard]] std::exception_ptr take_failure();

  [[nodiscard]] const std::atomic<bool>& cancelled() const noexcept { return cancelled_; }
  /// Whether a table waits, or the end. Any thread.
  [[nodiscard]] bool has_more() const noexcept { return more_; }
  /// Waits for tables. Returns several as one if they have the same schema without dictionaries and the same
  /// context; nullopt at the end.
  [[nodiscard]] std::optional<table> take();
  /// Notes that the tables that `take` returned were written and dropped.
  void written();
  /// Notes that the target has all bytes of the tables taken so far.
  void rest();
  /// The last call.
  void end(std::exception_ptr failure) noexcept;

private:
  struct entry {
    table rows;
    std::uint64_t bytes;
  };
  using lock_type = std::unique_lock<std::mutex>;

  [[nodiscard]] bool joins_next(const table& first, std::uint64_t taken) const;

  std::uint64_t most_;
  std::uint64_t taken_bytes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<entry> waiting_;
  std::uint64_t waiting_bytes_ = 0;
  std::uint64_t in_work_ = 0; ///< bytes of the tables that `take` returned
  bool idle_ = true;
  bool finishing_ = false;
  bool ended_ = false;
  std::exception_ptr failure_;
  std::atomic<bool> more_{false};
  std::atomic<bool> cancelled_{false};
};

} // namespace saeta::ipc::detail
