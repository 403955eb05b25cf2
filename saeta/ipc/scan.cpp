#include "saeta/ipc/scan.hpp"

#include "saeta/base/interrupt.hpp"
#include "saeta/base/interruptible_lock.hpp"
#include "saeta/base/interruptible_wait.hpp"
#include "saeta/base/process.hpp"
#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/compute/combine.hpp"
#include "saeta/compute/take.hpp"
#include "saeta/executor/background_thread.hpp"
#include "saeta/ipc/common.hpp"
#include "saeta/ipc/read/whole_plan.hpp"
#include "saeta/ipc/read/window_cutter.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/staging/staging_ring.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include <unistd.h>

namespace saeta::ipc {
namespace detail {
namespace {

/// A window that the budget refuses is not made smaller than this.
constexpr std::uint64_t least_window_bytes = 64u << 10;

/// Windows that are read, wait and are used at the same time must fit into the budget. With the chunks that
/// land while one is read, they take no more memory than as many windows of the requested size.
std::uint64_t fitting_bytes(const std::shared_ptr<context>& ctx, std::uint64_t movement_bytes,
                            std::uint64_t window_bytes, std::size_t windows) {
  const std::uint64_t landing = staging_ring::of(ctx)->landing_bytes(window_bytes, movement_bytes);
  const std::uint64_t wanted = window_bytes - std::min(landing / windows, window_bytes / 2);
  const std::uint64_t most = ctx->memory_budget()->statistics().limit / windows;
  return std::max(std::min(wanted, most), least_window_bytes);
}

} // namespace

/// A window, and the rows of each of its batches.
struct read_rows {
  table rows;
  std::vector<std::int64_t> batch_rows;
};

/// Reads the windows of a source ahead, in two threads, and gives them out in order.
///
/// One thread cuts and plans a window while the other's is on its way, so that the link does not wait for
/// plans. A source of one window is read by its consumer. Of compressed windows the ring decodes both at once
/// where one has no work for all of its threads (staging_ring.hpp). The scan calls `stop` before it drops it;
/// the threads keep it until they have ended.
class window_ahead : public std::enable_shared_from_this<window_ahead> {
public:
  window_ahead(std::shared_ptr<context> ctx, std::shared_ptr<const planned_source> from, scan_list list,
               const scan_options& options)
      : ctx_(std::move(ctx)), from_(std::move(from)), ahead_(std::max<std::size_t>(options.windows_ahead, 1)),
        most_whole_(ctx_->memory_budget()->statistics().limit / 2),
        window_bytes_(
            fitting_bytes(ctx_, from_->body_bytes(), options.window_bytes, ahead_ + reading_threads)),
        orders_(std::move(list.orders)), spans_(list.spans),
        cutter_(from_, std::move(list), ctx_->on_host() ? ctx_->memory_budget() : ctx_->pinned_budget()) {
    if (from_->fetches_ahead()) {
      fetched_.emplace(from_->messages_to_fetch(spans_), ctx_->memory_budget()->statistics().limit);
    }
  }
  window_ahead(const window_ahead&) = delete;
  window_ahead& operator=(const window_ahead&) = delete;
  ~window_ahead() = default;

  /// Returns the next window, or nullopt at the end.
  std::optional<read_rows> take() {
    const cancellation_scope ends_with(stopped_); // the caller may read a window itself
    std::unique_lock lock(mutex_);
    require_open();
    if (!taken_rows_ && !take_ready(lock)) {
      return std::nullopt;
    }
    // Kept until they are permuted, because the budget may have no room for that.
    read_rows rows = *taken_rows_;
    if (!ctx_->on_host()) {
      rows.rows = permuted(lock, rows.rows);
      if (paused_) {
        go_on_reading();
      }
    }
    taken_rows_.reset();
    return rows;
  }
  /// Ends all calls and reads within 50 ms, waits for them, and drops the windows that were not taken.
  void stop() noexcept {
    std::unique_lock lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
    lock.unlock();
    for (background_thread& thread : threads_) {
      // If a hook on this thread has closed the scan, the thread ends after the hook and keeps this object
      // until then.
      thread.join();
    }
    lock.lock();
    ready_.clear();
    taken_rows_.reset();
    lock.unlock();
    const std::lock_guard reading(reading_dictionaries_);
    dictionaries_ = nullptr;
  }
  /// @throws error closed: after `stop`.
  void require_open() const {
    if (stopped_) {
      throw error(errc::closed, "the scan is closed");
    }
  }

private:
  /// One thread plans while the window of the other is on its way. More threads were not faster.
  static constexpr std::size_t reading_threads = 2;

  /// The result of reading a window. Empty: the source has ended.
  struct outcome {
    std::optional<read_rows> read;
    std::exception_ptr failure;
    bool refused = false;              ///< the budget had no room
    bool interrupted = false;          ///< the failure is not an `error`: an interrupt, or no host memory
    window_cutter::position begins_at; ///< where the window begins

    template <class Action>
    void note_failure_of(Action action) {
      try {
        action();
      } catch (const error& thrown) {
        refused = is_lack_of_room(thrown.code());
        failure = std::current_exception();
      } catch (...) {
        interrupted = true;
        failure = std::current_exception();
      }
    }
  };

  /// Waits for the next window; false at the end. The threads go on reading as soon as it is taken.
  /// @param lock  held; released meanwhile.
  bool take_ready(std::unique_lock<std::mutex>& lock) {
    if (!started_ && is_one_window()) {
      ready_.emplace(taken_, read_here(lock, window_bytes_, most_whole_));
      ++cut_;
    } else {
      start();
    }
    wait(lock, [&] { return ready_.contains(taken_); });
    if (ready_.at(taken_).refused) {
      outcome again = read_refused(lock);
      ready_.insert_or_assign(taken_, std::move(again));
    }
    outcome& outcome = ready_.at(taken_);
    if (outcome.failure) {
      ready_.erase(ready_.upper_bound(taken_), ready_.end());
      const std::exception_ptr failure = std::exchange(outcome, {}).failure; // the scan ends here
      std::rethrow_exception(failure);
    }
    if (!outcome.read) {
      return false;
    }
    taken_rows_ = std::move(outcome.read);
    taken_window_ = outcome.begins_at.window;
    ready_.erase(taken_);
    ++taken_;
    changed_.notify_all();
    return true;
  }
  void start() {
    if (started_) {
      return;
    }
    for (background_thread& thread : threads_) {
      started_ = thread.start([kept = shared_from_this()] { kept->work(); }) || started_;
    }
    if (!started_) {
      throw error(errc::out_of_memory, "the system has no thread that reads windows ahead");
    }
  }
  void work() {
    const cancellation_scope ends_with(stopped_);
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock,
                    [&] { return stopped_ || (!ended_ && !paused_ && !cutting_ && cut_ - taken_ < ahead_); });
      if (stopped_) {
        return;
      }
      const std::uint64_t number = cut_++;
      outcome outcome = read_next(lock, window_bytes_, most_whole_);
      paused_ = paused_ || outcome.refused;
      ready_.emplace(number, std::move(outcome));
      changed_.notify_all();
    }
  }
  /// Threads would have nothing to read ahead, and cost a small source a tenth of its time.
  [[nodiscard]] bool is_one_window() const noexcept {
    return cutter_.is_one(window_bytes_) && (cut_ == 0 || cutter_.at_end());
  }
  /// Cuts and reads the next window. @param lock  held; released meanwhile.
  /// @param bytes, most_whole  as in window_cutter::next
  outcome read_next(std::unique_lock<std::mutex>& lock, std::uint64_t bytes, std::uint64_t most_whole) {
    outcome outcome;
    outcome.begins_at = cutter_.at();
    const auto own = reading_.insert(outcome.begins_at);
    const std::size_t oldest = reading_.begin()->span;
    cutting_ = true;
    ++busy_;
    lock.unlock();
    std::optional<piece_table> window;
    outcome.note_failure_of([&] {
      if (fetched_) {
        fetched_->go_on(oldest);
      }
      window = cutter_.next(bytes, most_whole);
      if (!window) {
        rethrow(mixed_messages(), cutter_.label());
      }
    });
    const bool more = !outcome.failure && !window->messages.empty();
    lock.lock();
    cutting_ = false;
    ended_ = ended_ || !more;
    if (more) {
      changed_.notify_all();
      if (!window->decoders.empty()) { // the decoders of parts go forward
        changed_.wait(lock, [&] { return stopped_ || own == reading_.begin(); });
      }
      lock.unlock();
      outcome.note_failure_of([&] {
        std::vector<std::int64_t> batch_rows = window->rows;
        const auto dictionaries = dictionaries_of(*window);
        table rows = read_window(ctx_, *from_, std::move(*window), *dictionaries);
        if (ctx_->on_host()) {
          const std::lock_guard permuting(permuting_);
          require_open();
          rows = in_order(rows, outcome.begins_at.window);
        }
        outcome.read = read_rows{std::move(rows), std::move(batch_rows)};
      });
      lock.lock();
      ended_ = ended_ || (outcome.failure && !outcome.refused);
    }
    reading_.erase(own);
    --busy_;
    changed_.notify_all();
    return outcome;
  }
  /// Reads the next window in the caller, who can request it again after an interrupt.
  outcome read_here(std::unique_lock<std::mutex>& lock, std::uint64_t bytes, std::uint64_t most_whole) {
    outcome outcome = read_next(lock, bytes, most_whole);
    require_open(); // a thread or a hook may have closed the scan meanwhile
    if (outcome.interrupted) {
      cutter_.go_to(outcome.begins_at);
      ended_ = false;
      std::rethrow_exception(outcome.failure);
    }
    return outcome;
  }
  /// Reads the window that the budget refused in the caller, when those that follow it are gone. The window
  /// before it may be gone by now, too.
  outcome read_refused(std::unique_lock<std::mutex>& lock) {
    wait(lock, [&] { return busy_ == 0; });
    const window_cutter::position begin = ready_.at(taken_).begins_at;
    ready_.erase(ready_.upper_bound(taken_), ready_.end());
    cut_ = taken_ + 1;
    std::uint64_t bytes = window_bytes_;
    for (std::uint64_t most_whole = most_whole_;; most_whole = bytes /= 2) {
      cutter_.go_to(begin);
      if (bytes == window_bytes_ / 4) {
        cutter_.drop_decoders(); // they keep offsets of the larger windows that were refused
      }
      ended_ = false;
      outcome outcome = read_here(lock, bytes, most_whole);
      if (!outcome.refused) {
        window_bytes_ = bytes;
        paused_ = false;
        return outcome;
      }
      if (cutter_.has_windows() || bytes / 2 < least_window_bytes) {
        std::rethrow_exception(outcome.failure); // the window stays refused, and can be requested again
      }
    }
  }
  /// Returns the taken rows in their order. If the budget has no room for that, windows behind them make room.
  /// @param lock  held; released meanwhile.
  table permuted(std::unique_lock<std::mutex>& lock, const table& rows) {
    for (bool has_dropped = false;; has_dropped = true) {
      const std::size_t window = taken_window_;
      std::exception_ptr refused;
      lock.unlock();
      try {
        table made = in_order(rows, window);
        lock.lock();
        require_open();
        return made;
      } catch (const error& failure) {
        if (!is_lack_of_room(failure.code())) {
          throw;
        }
        refused = std::current_exception();
      }
      lock.lock();
      if (has_dropped || !drop_windows_ahead(lock)) {
        std::rethrow_exception(refused);
      }
    }
  }
  /// Drops the windows that were read ahead. They are read again when the taken one has been put in order.
  /// False if there are none.
  bool drop_windows_ahead(std::unique_lock<std::mutex>& lock) {
    paused_ = true;
    wait(lock, [&] { return busy_ == 0; });
    if (std::ranges::none_of(ready_, [](const auto& each) { return each.second.read.has_value(); })) {
      go_on_reading();
      return false;
    }
    cutter_.go_to(ready_.begin()->second.begins_at);
    ready_.clear();
    cut_ = taken_;
    ended_ = false;
    return true;
  }
  /// Ends a pause, unless it is that of a window that was refused.
  void go_on_reading() {
    paused_ = std::ranges::any_of(ready_, [](const auto& each) { return each.second.refused; });
    changed_.notify_all();
  }
  /// Returns the rows of a window in the order that the caller gave, if any.
  [[nodiscard]] table in_order(const table& rows, std::size_t window) const {
    return orders_.empty() ? rows : take_permuted(rows, orders_[window].key, orders_[window].batches);
  }
  [[nodiscard]] std::shared_ptr<const planned_dictionaries> dictionaries_of(const piece_table& window) {
    const std::lock_guard lock(reading_dictionaries_);
    auto needed = std::make_shared<planned_dictionaries>(*from_, window.messages);
    if (dictionaries_ != nullptr && dictionaries_->same_messages(*needed)) {
      return dictionaries_;
    }
    if (!read_values(ctx_, *from_, *needed)) {
      throw error(errc::unsupported, concat(from_->name_at(window.messages.front().begin),
                                            ": a dictionary is larger than its offsets can count"));
    }
    dictionaries_ = std::move(needed);
    return dictionaries_;
  }
  void wait(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done) {
    wait_interruptibly(changed_, lock, [&] { return stopped_ || done(); });
    require_open();
  }

  std::shared_ptr<context> ctx_;
  std::shared_ptr<const planned_source> from_;
  std::size_t ahead_;
  const std::uint64_t most_whole_; ///< bytes of a compressed batch that is read as a whole
  std::uint64_t window_bytes_;
  std::vector<window_order> orders_;
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::vector<batch_span> spans_;
  std::optional<fetch_window> fetched_;            ///< of a source that fetches ahead; used like the cutter
  window_cutter cutter_;                           ///< used by the thread that has set `cutting_`
  std::multiset<window_cutter::position> reading_; ///< where the windows that are being read begin
  bool started_ = false;                           ///< at least one of the threads
  bool cutting_ = false;
  bool paused_ = false;     ///< a window was refused, or is put in order first: none is cut until it is taken
  bool ended_ = false;      ///< no further window is cut
  std::size_t busy_ = 0;    ///< threads that cut or read
  std::uint64_t cut_ = 0;   ///< windows that were begun
  std::uint64_t taken_ = 0; ///< windows that were given out
  std::map<std::uint64_t, outcome> ready_;
  std::optional<read_rows> taken_rows_; ///< taken from the ready ones, to be put in order
  std::size_t taken_window_ = 0;        ///< the number of their window
  /// Held to permute: one window at a time, so that the first is ready sooner.
  std::mutex permuting_;
  std::mutex reading_dictionaries_;
  std::shared_ptr<const planned_dictionaries> dictionaries_; ///< of the last window
  std::array<background_thread, reading_threads> threads_{background_thread("saeta-scan"),
                                                          background_thread("saeta-scan")};
};

} // namespace detail

namespace {

table joined(const table& first, const table& second) {
  std::vector<batch> batches(first.batches().begin(), first.batches().end());
  batches.insert(batches.end(), second.batches().begin(), second.batches().end());
  return table::make(first.ctx(), first.fields(), std::move(batches));
}

} // namespace

struct SAETA_LOCAL scan::impl {
  impl(std::shared_ptr<context> ctx, std::shared_ptr<const detail::planned_source> from, scan_list list,
       const scan_options& options)
      : batch_rows(options.batch_rows), whole_windows(!list.window_ends.empty()),
        windows(std::make_shared<detail::window_ahead>(std::move(ctx), std::move(from), std::move(list),
                                                       options)) {}

  void require_own_process() const {
    if (made_in != fork_generation()) {
      throw error(errc::closed, concat("the scan belongs to process ", process,
                                       ", the parent of this forked process: open its source again"));
    }
  }
  std::optional<table> next() {
    if (whole_windows) {
      auto window = windows->take();
      return window ? std::optional(std::move(window->rows)) : std::nullopt;
    }
    return batch_rows == 0 ? next_batch() : next_rows();
  }
  /// Returns the next batch as the source has it.
  std::optional<table> next_batch() {
    while (left_rows.empty()) {
      auto window = windows->take();
      if (!window) {
        return std::nullopt;
      }
      left = std::move(window->rows);
      left_rows.assign(window->batch_rows.rbegin(), window->batch_rows.rend());
    }
    const std::int64_t rows = left_rows.back();
    left_rows.pop_back();
    if (left_rows.empty()) { // the window lives no longer than the last view of it
      return std::exchange(left, std::nullopt);
    }
    std::optional<table> table = left->slice(0, rows);
    left = left->slice(rows, left->rows() - rows);
    return table;
  }
  /// Returns the next `batch_rows` rows. Rows of two windows are joined by a copy.
  std::optional<table> next_rows() {
    while (!left || left->rows() < batch_rows) {
      auto window = windows->take();
      if (!window) {
        break;
      }
      left = !left || left->rows() == 0 ? std::move(window->rows) : joined(*left, window->rows);
    }
    if (!left || left->rows() == 0) {
      return std::nullopt;
    }
    const std::int64_t rows = std::min(batch_rows, left->rows());
    table table = left->slice(0, rows);
    if (table.batches().size() > 1) {
      table = combine_chunks(table); // if it fails, nothing is lost
    }
    left = rows == left->rows() ? std::nullopt : std::optional(left->slice(rows, left->rows() - rows));
    return table;
  }

  const std::uint64_t made_in = fork_generation();
  const pid_t process = ::getpid();
  const std::int64_t batch_rows;
  const bool whole_windows; ///< the caller gave the windows
  interruptible_mutex turn; ///< one `next` at a time
  std::shared_ptr<detail::window_ahead> windows;
  std::optional<table> left;           ///< rows of windows that were not returned yet
  std::vector<std::int64_t> left_rows; ///< of each batch of the window, last first
  std::atomic<bool> ended{false};
};

scan::scan(std::shared_ptr<context> ctx, std::shared_ptr<const detail::planned_source> from, scan_list list,
           const scan_options& options)
    : impl_(std::make_unique<impl>(required(std::move(ctx), "ctx"), required(std::move(from), "from"),
                                   std::move(list), options)) {}

scan::~scan() {
  if (impl_->made_in != fork_generation()) {
    static_cast<void>(impl_.release()); // the threads and locks belong to the parent
    return;
  }
  impl_->windows->stop();
}

std::optional<table> scan::next() {
  impl_->require_own_process(); // before any lock, which a thread of the parent may have held
  const auto turn = impl_->turn.lock("a scan");
  impl_->windows->require_open();
  try {
    std::optional<table> rows = impl_->next();
    impl_->ended = !rows.has_value();
    return rows;
  } catch (const error& failure) {
    impl_->ended = !is_lack_of_room(failure.code());
    throw;
  }
}

void scan::require_more() const {
  impl_->require_own_process();
  impl_->windows->require_open();
  if (impl_->ended) {
    throw error(errc::closed, "the scan is at its end: scan the source again");
  }
}

void scan::close() {
  if (impl_->made_in != fork_generation()) {
    return;
  }
  impl_->windows->stop();
  impl_->turn.run_if_free([this] { // a `next` that holds the turn is about to end, and drops the rows itself
    impl_->left = std::nullopt;
    impl_->left_rows.clear();
  });
}

} // namespace saeta::ipc
