#include "saeta/ipc/read/window_ahead.hpp"

#include "saeta/base/interrupt.hpp"
#include "saeta/base/interruptible_wait.hpp"
#include "saeta/base/text.hpp"
#include "saeta/compute/take.hpp"
#include "saeta/ipc/common.hpp"
#include "saeta/ipc/read/whole_plan.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/staging/staging_ring.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

namespace saeta::ipc::detail {
namespace {

/// One thread plans while the other's window is on its way. More threads were not faster.
constexpr std::size_t reading_threads = 2;
/// A window that the budget refuses is not made smaller than this.
constexpr std::uint64_t least_window_bytes = 64u << 10;

/// Windows that are read, wait and are used at the same time must fit into the budget. With the chunks that
/// land while one is read, they take no more memory than as many windows of the requested size.
std::uint64_t fitting_bytes(const std::shared_ptr<context>& ctx, std::uint64_t movement_bytes,
                            std::uint64_t window_bytes, std::size_t ahead) {
  const std::size_t windows = ahead + reading_threads;
  const std::uint64_t landing = staging_ring::of(ctx)->landing_bytes(window_bytes, movement_bytes);
  const std::uint64_t wanted = window_bytes - std::min(landing / windows, window_bytes / 2);
  const std::uint64_t most = ctx->memory_budget()->statistics().limit / windows;
  return std::max(std::min(wanted, most), least_window_bytes);
}

} // namespace

window_ahead::window_ahead(std::shared_ptr<context> ctx, std::shared_ptr<const planned_source> from,
                           scan_list list, const scan_options& options)
    : ctx_(std::move(ctx)), from_(std::move(from)), ahead_(std::max<std::size_t>(options.windows_ahead, 1)),
      window_bytes_(fitting_bytes(ctx_, from_->body_bytes(), options.window_bytes, ahead_)),
      orders_(std::move(list.orders)), cutter_(from_, std::move(list)) {}

void window_ahead::stop() noexcept {
  std::unique_lock lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
  std::vector<std::thread> ending = std::exchange(threads_, {});
  lock.unlock();
  for (std::thread& each : ending) {
    if (each.get_id() == std::this_thread::get_id()) {
      each.detach(); // a hook that runs in it has closed the scan: it ends after the hook, and keeps this
    } else {
      each.join();
    }
  }
  lock.lock();
  ready_.clear();
  lock.unlock();
  const std::lock_guard reading(reading_dictionaries_);
  dictionaries_ = nullptr;
}

std::optional<read_rows> window_ahead::take() {
  const cancellation_scope ends_with(stopped_); // it may read itself
  std::unique_lock lock(mutex_);
  require_open();
  if (threads_.empty() && is_one_window()) {
    ready_.emplace(taken_, read_here(lock, window_bytes_));
    ++cut_;
  } else {
    start();
  }
  wait(lock, [&] { return ready_.contains(taken_); });
  if (ready_.at(taken_).refused) {
    outcome again = read_refused(lock);
    ready_.insert_or_assign(taken_, std::move(again));
  }
  outcome& made = ready_.at(taken_);
  if (made.failure) {
    ready_.erase(ready_.upper_bound(taken_), ready_.end());
    const std::exception_ptr failure = std::exchange(made, {}).failure; // it is then the end
    std::rethrow_exception(failure);
  }
  if (!made.read) {
    return std::nullopt;
  }
  std::optional<read_rows> rows = made.read; // it stays ready until it is in order: that may have no room
  if (!ctx_->on_host()) {
    const std::size_t window = made.begins_at.window;
    lock.unlock();
    rows->rows = in_order(rows->rows, window);
    lock.lock();
    require_open();
  }
  ready_.erase(taken_);
  ++taken_;
  changed_.notify_all();
  return rows;
}

void window_ahead::start() {
  if (threads_.empty()) {
    for (std::size_t i = 0; i < reading_threads; ++i) {
      threads_.emplace_back([kept = shared_from_this()] { kept->work(); });
    }
  }
}

/// Threads would have nothing to read ahead, and cost a small source a tenth of its time.
bool window_ahead::is_one_window() const noexcept {
  return cutter_.is_one(window_bytes_) && (cut_ == 0 || cutter_.at_end());
}

void window_ahead::work() {
  const cancellation_scope ends_with(stopped_);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock,
                  [&] { return stopped_ || (!ended_ && !paused_ && !cutting_ && cut_ - taken_ < ahead_); });
    if (stopped_) {
      return;
    }
    const std::uint64_t number = cut_++;
    outcome made = read_next(lock, window_bytes_);
    paused_ = paused_ || made.refused;
    ready_.emplace(number, std::move(made));
    changed_.notify_all();
  }
}

window_ahead::outcome window_ahead::read_next(std::unique_lock<std::mutex>& lock, std::uint64_t bytes) {
  outcome made;
  made.begins_at = cutter_.at();
  cutting_ = true;
  ++busy_;
  lock.unlock();
  std::optional<piece_table> window;
  try {
    window = cutter_.next(bytes);
    if (!window) {
      rethrow(mixed_messages(), cutter_.label());
    }
  } catch (const error&) {
    made.failure = std::current_exception();
  } catch (...) {
    made.interrupted = true;
    made.failure = std::current_exception();
  }
  const bool more = !made.failure && !window->messages.empty();
  lock.lock();
  cutting_ = false;
  ended_ = ended_ || !more;
  if (more) {
    changed_.notify_all();
    lock.unlock();
    try {
      std::vector<std::int64_t> batch_rows = window->rows;
      const auto dictionaries = dictionaries_of(*window);
      table rows = read_window(ctx_, *from_, std::move(*window), *dictionaries);
      if (ctx_->on_host()) {
        const std::lock_guard permuting(permuting_);
        require_open();
        rows = in_order(rows, made.begins_at.window);
      }
      made.read = read_rows{std::move(rows), std::move(batch_rows)};
    } catch (const error& failure) {
      made.refused = is_lack_of_room(failure.code());
      made.failure = std::current_exception();
    } catch (...) {
      made.interrupted = true;
      made.failure = std::current_exception();
    }
    lock.lock();
    ended_ = ended_ || (made.failure && !made.refused);
  }
  --busy_;
  changed_.notify_all();
  return made;
}

/// Reads the next window in the caller, who can request it again after an interrupt.
window_ahead::outcome window_ahead::read_here(std::unique_lock<std::mutex>& lock, std::uint64_t bytes) {
  outcome made = read_next(lock, bytes);
  require_open(); // a thread or a hook may have closed the scan meanwhile
  if (made.interrupted) {
    cutter_.go_to(made.begins_at);
    ended_ = false;
    std::rethrow_exception(made.failure);
  }
  return made;
}

/// Reads the window that the budget refused in the caller, when those that follow it are gone. The window
/// before it may be gone by now, too.
window_ahead::outcome window_ahead::read_refused(std::unique_lock<std::mutex>& lock) {
  wait(lock, [&] { return busy_ == 0; });
  const window_cutter::position begin = ready_.at(taken_).begins_at;
  ready_.erase(ready_.upper_bound(taken_), ready_.end());
  cut_ = taken_ + 1;
  for (std::uint64_t bytes = window_bytes_;; bytes /= 2) {
    cutter_.go_to(begin);
    ended_ = false;
    outcome made = read_here(lock, bytes);
    if (!made.refused) {
      window_bytes_ = bytes;
      paused_ = false;
      return made;
    }
    if (cutter_.has_windows() || bytes / 2 < least_window_bytes) {
      std::rethrow_exception(made.failure); // the window stays refused, and can be requested again
    }
  }
}

table window_ahead::in_order(const table& rows, std::size_t window) const {
  return orders_.empty() ? rows : take_permuted(rows, orders_[window].key, orders_[window].numbers);
}

std::shared_ptr<const planned_dictionaries> window_ahead::dictionaries_of(const piece_table& window) {
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

void window_ahead::wait(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done) {
  wait_interruptibly(changed_, lock, std::chrono::steady_clock::time_point::max(),
                     [&] { return stopped_ || done(); });
  require_open();
}

void window_ahead::require_open() const {
  if (stopped_) {
    throw error(errc::closed, "the scan is closed");
  }
}

} // namespace saeta::ipc::detail
