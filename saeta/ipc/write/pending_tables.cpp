#include "saeta/ipc/write/pending_tables.hpp"

#include "saeta/base/interruptible_wait.hpp"
#include "saeta/ipc/write/written_dictionaries.hpp"
#include "saeta/memory/context.hpp"

#include <utility>
#include <vector>

namespace saeta::ipc::detail {
namespace {

constexpr auto no_deadline = std::chrono::steady_clock::time_point::max();

} // namespace

bool pending_tables::put(const table& added) {
  const std::uint64_t bytes = added.byte_size();
  lock_type lock(mutex_);
  wait_interruptibly(changed_, lock, no_deadline, [&] {
    const std::uint64_t held = waiting_bytes_ + in_work_;
    return ended_ || held == 0 || (bytes <= most_ && held <= most_ - bytes);
  });
  if (ended_) {
    return false;
  }
  waiting_.push_back({added, bytes});
  waiting_bytes_ += bytes;
  idle_ = false;
  more_ = true;
  changed_.notify_all();
  return true;
}

bool pending_tables::wait_until_idle() {
  lock_type lock(mutex_);
  wait_interruptibly(changed_, lock, no_deadline, [&] { return ended_ || idle_; });
  return !ended_;
}

void pending_tables::finish() {
  const std::lock_guard lock(mutex_);
  finishing_ = true;
  more_ = true;
  changed_.notify_all();
}

void pending_tables::wait_until_ended() {
  lock_type lock(mutex_);
  wait_interruptibly(changed_, lock, no_deadline, [&] { return ended_; });
}

void pending_tables::cancel() noexcept {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  more_ = true;
  changed_.notify_all();
}

std::exception_ptr pending_tables::take_failure() {
  const std::lock_guard lock(mutex_);
  return std::exchange(failure_, nullptr);
}

std::optional<table> pending_tables::take() {
  lock_type lock(mutex_);
  changed_.wait(lock, [&] { return more_.load(); });
  if (cancelled_) {
    lock.unlock();
    check_interrupt();
  }
  if (waiting_.empty()) {
    return std::nullopt;
  }
  table first = std::move(waiting_.front().rows);
  in_work_ = waiting_.front().bytes;
  waiting_.pop_front();
  std::vector<batch> batches;
  const bool joins = taken_bytes_ != 0 && !waiting_.empty() && !has_dictionaries(first.fields());
  while (joins && joins_next(first, in_work_)) {
    if (batches.empty()) {
      batches.assign(first.batches().begin(), first.batches().end());
    }
    const auto more = waiting_.front().rows.batches();
    batches.insert(batches.end(), more.begin(), more.end());
    in_work_ += waiting_.front().bytes;
    waiting_.pop_front();
  }
  waiting_bytes_ -= in_work_;
  more_ = !waiting_.empty() || finishing_ || cancelled_;
  lock.unlock();
  return batches.empty() ? first : table::make(first.ctx(), first.fields(), std::move(batches));
}

bool pending_tables::joins_next(const table& first, std::uint64_t taken) const {
  if (waiting_.empty()) {
    return false;
  }
  const auto& [next, bytes] = waiting_.front();
  return taken < taken_bytes_ && bytes <= taken_bytes_ - taken && next.ctx() == first.ctx() &&
         next.fields() == first.fields();
}

void pending_tables::written() {
  const std::lock_guard lock(mutex_);
  in_work_ = 0;
  changed_.notify_all();
}

void pending_tables::rest() {
  const std::lock_guard lock(mutex_);
  idle_ = waiting_.empty();
  changed_.notify_all();
}

void pending_tables::end(std::exception_ptr failure) noexcept {
  std::deque<entry> dropped; // after the lock is released
  const std::lock_guard lock(mutex_);
  dropped.swap(waiting_);
  waiting_bytes_ = in_work_ = 0;
  failure_ = std::move(failure);
  ended_ = true;
  changed_.notify_all();
}

} // namespace saeta::ipc::detail
