// Reads the windows of a source ahead, in two threads, and gives them out in order.
//
// What      One thread cuts and plans a window while the other's is on its way, so that the link does not
//           wait for plans. A source of one window is read by its consumer. Of compressed windows the ring
//           decodes both at once where one has no work for all of its threads (staging_ring.hpp).
// Owner     The scan, which calls `stop` before it drops it. Its threads keep it until they have ended.
// Budget, Order, Thread, Failure  see ipc/scan.hpp.
#pragma once

#include "saeta/column/table.hpp"
#include "saeta/ipc/read/window_cutter.hpp"
#include "saeta/ipc/scan.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace saeta::ipc::detail {

/// A window, and the rows of each of its batches.
struct read_rows {
  table rows;
  std::vector<std::int64_t> batch_rows;
};

class window_ahead : public std::enable_shared_from_this<window_ahead> {
public:
  window_ahead(std::shared_ptr<context> ctx, std::shared_ptr<const planned_source> from, scan_list list,
               const scan_options& options);
  window_ahead(const window_ahead&) = delete;
  window_ahead& operator=(const window_ahead&) = delete;
  ~window_ahead() = default;

  /// Returns the next window, or nullopt at the end.
  std::optional<read_rows> take();
  /// Ends all calls and reads within 50 ms, waits for them, and drops the windows that were not taken.
  void stop() noexcept;
  /// @throws error closed: after `stop`.
  void require_open() const;

private:
  /// What became of a window. Nothing in it: there was none, the source has ended.
  struct outcome {
    std::optional<read_rows> read;
    std::exception_ptr failure;
    bool refused = false;              ///< the budget had no room
    bool interrupted = false;          ///< the failure is not one of the source
    window_cutter::position begins_at; ///< of the window
  };

  void start();
  void work();
  [[nodiscard]] bool is_one_window() const noexcept;
  /// Cuts and reads window `number`. @param lock  held; released meanwhile.
  outcome read_next(std::unique_lock<std::mutex>& lock, std::uint64_t bytes);
  outcome read_here(std::unique_lock<std::mutex>& lock, std::uint64_t bytes);
  outcome read_refused(std::unique_lock<std::mutex>& lock);
  /// Returns the rows of a window in the order that the caller gave, if any.
  [[nodiscard]] table in_order(const table& rows, std::size_t window) const;
  [[nodiscard]] std::shared_ptr<const planned_dictionaries> dictionaries_of(const piece_table& window);
  void wait(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done);

  std::shared_ptr<context> ctx_;
  std::shared_ptr<const planned_source> from_;
  std::size_t ahead_;
  std::uint64_t window_bytes_;
  std::vector<window_order> orders_;
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  window_cutter cutter_; ///< used by the thread that has set `cutting_`
  bool cutting_ = false;
  bool paused_ = false;     ///< a window was refused: none is cut until it is taken
  bool ended_ = false;      ///< no further window is cut
  std::size_t busy_ = 0;    ///< threads that cut or read
  std::uint64_t cut_ = 0;   ///< windows that were begun
  std::uint64_t taken_ = 0; ///< windows that were given out
  std::map<std::uint64_t, outcome> ready_;
  std::mutex permuting_; ///< one window at a time, which is there the sooner
  std::mutex reading_dictionaries_;
  std::shared_ptr<const planned_dictionaries> dictionaries_; ///< of the last window
  std::vector<std::thread> threads_;
};

} // namespace saeta::ipc::detail
