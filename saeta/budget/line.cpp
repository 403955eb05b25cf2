// The line of requests that wait for room.
#include "saeta/base/interruptible_wait.hpp"
#include "saeta/budget/tree.hpp"

#include <algorithm>

namespace saeta {

bool budget_tree::is_contested(const node& at) const noexcept {
  for (const node* n = &at; n != nullptr; n = n->parent) {
    if (n->contested == pass_) {
      return true;
    }
  }
  return false;
}

void budget_tree::mark_contested(const waiter& waits) noexcept {
  for (node* n = &waits.at; n != nullptr; n = n->parent) {
    if (room(*n) < waits.bytes) {
      n->contested = pass_;
    }
  }
}

/// True if an earlier request lacks room in a budget from `at` to the root.
bool budget_tree::is_held_up(const node& at) noexcept {
  ++pass_;
  for (const waiter* waits : line_) {
    mark_contested(*waits);
  }
  return is_contested(at);
}

/// Charges or promises a new request if it fits and takes no bytes that an earlier request waits for.
bool budget_tree::admit(node& at, std::uint64_t bytes, promise* into) noexcept {
  if ((bytes != 0 && is_held_up(at)) || !take(at, bytes, into)) {
    return false;
  }
  if (line_.empty()) {
    grant_credit(at);
  }
  return true;
}

/// Serves the waiting requests that fit now, ends those that can never fit, and wakes their threads. One pass
/// is enough, because serving one request makes no room for another.
void budget_tree::serve_line() noexcept {
  ++pass_;
  for (auto next = line_.begin(); next != line_.end();) {
    waiter& waits = **next;
    if (can_never_fit(waits.at, waits.bytes)) {
      waits.now = waiter::outcome::impossible;
    } else if (!is_contested(waits.at) && take(waits.at, waits.bytes, waits.into)) {
      waits.now = waiter::outcome::served;
    } else {
      mark_contested(waits);
      ++next;
      continue;
    }
    next = line_.erase(next);
    // under the mutex, because the waiter is destroyed as soon as its thread sees the outcome
    waits.changed.notify_one();
  }
}

void budget_tree::close(node& at) noexcept {
  if (inherited()) {
    return;
  }
  const std::lock_guard hold(mutex_);
  at.closed.store(true, std::memory_order_relaxed);
  serve_line();
}

std::size_t budget_tree::waiting() noexcept {
  const std::lock_guard hold(mutex_);
  return line_.size();
}

void budget_tree::leave_line(waiter& gone) noexcept {
  if (gone.now == waiter::outcome::waiting) {
    line_.remove(&gone);
    serve_line(); // this request may have been the only obstacle for those behind it
  }
}

bool budget_tree::wait_in_line(node& at, std::uint64_t bytes, time_point deadline, promise* into) {
  std::unique_lock<std::mutex> hold(mutex_);
  if (admit(at, bytes, into)) {
    return true;
  }
  if (can_never_fit(at, bytes) || deadline <= wait_now()) {
    return false;
  }
  waiter mine(at, bytes, deadline, into);
  line_.push_back(&mine);
  close_shards();
  serve_line(); // bytes may have been refunded just before the shards were closed
  try {
    wait_interruptibly(mine.changed, hold, mine.deadline,
                       [&] { return mine.now != waiter::outcome::waiting; });
  } catch (...) {
    leave_line(mine);
    if (mine.now == waiter::outcome::served && into == nullptr) { // charged while the hook ran
      give(at, bytes);
    } // promised bytes go back with the reservation that `into` belongs to
    throw;
  }
  leave_line(mine);
  return mine.now == waiter::outcome::served;
}

} // namespace saeta
