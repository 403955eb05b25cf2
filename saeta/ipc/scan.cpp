#include "saeta/ipc/scan.hpp"

#include "saeta/base/interruptible_lock.hpp"
#include "saeta/base/process.hpp"
#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/compute/combine.hpp"
#include "saeta/ipc/read/window_ahead.hpp"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include <unistd.h>

namespace saeta::ipc {
namespace {

table joined(const table& first, const table& second) {
  std::vector<batch> batches(first.batches().begin(), first.batches().end());
  batches.insert(batches.end(), second.batches().begin(), second.batches().end());
  return table::make(first.ctx(), first.fields(), std::move(batches));
}

} // namespace

struct scan::impl {
  impl(std::shared_ptr<context> ctx, std::shared_ptr<const detail::planned_source> from, scan_list list,
       const scan_options& options)
      : batch_rows(options.batch_rows), whole_windows(!list.window_ends.empty()),
        windows(std::make_shared<detail::window_ahead>(std::move(ctx), std::move(from), std::move(list),
                                                       options)) {}

  void require_own_process() const;
  std::optional<table> next();
  std::optional<table> next_batch();
  std::optional<table> next_rows();

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

void scan::impl::require_own_process() const {
  if (made_in != fork_generation()) {
    throw error(errc::closed, concat("the scan belongs to process ", process,
                                     ", the parent of this forked process: open its source again"));
  }
}

std::optional<table> scan::impl::next() {
  if (whole_windows) {
    auto window = windows->take();
    return window ? std::optional(std::move(window->rows)) : std::nullopt;
  }
  return batch_rows == 0 ? next_batch() : next_rows();
}

/// Returns the next batch as the source has it.
std::optional<table> scan::impl::next_batch() {
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
  std::optional<table> made = left->slice(0, rows);
  left = left->slice(rows, left->rows() - rows);
  return made;
}

/// Returns the next `batch_rows` rows. Rows of two windows are joined by a copy.
std::optional<table> scan::impl::next_rows() {
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
  table made = left->slice(0, rows);
  if (made.batches().size() > 1) {
    made = combine_chunks(made); // if it fails, nothing is lost
  }
  left = rows == left->rows() ? std::nullopt : std::optional(left->slice(rows, left->rows() - rows));
  return made;
}

scan::scan(std::shared_ptr<context> ctx, std::shared_ptr<const detail::planned_source> from, scan_list list,
           const scan_options& options)
    : impl_(std::make_unique<impl>(required(std::move(ctx), "ctx"), required(std::move(from), "from"),
                                   std::move(list), options)) {}

scan::~scan() {
  if (impl_->made_in != fork_generation()) {
    static_cast<void>(impl_.release()); // its threads and locks are the parent's
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
  impl_->turn.run_if_free([this] { // else `next` is about to end, and drops them
    impl_->left = std::nullopt;
    impl_->left_rows.clear();
  });
}

} // namespace saeta::ipc
