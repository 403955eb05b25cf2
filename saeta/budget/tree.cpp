#include "saeta/budget/tree.hpp"

#include "saeta/base/text.hpp"

#include <algorithm>

namespace saeta {
namespace {

using node = budget_tree::node;

/// Adds to the granted bytes. A peak rises only when all credit in its subtree was called back (credit.cpp).
void add_charge(node& at, std::uint64_t bytes) noexcept {
  for (node* n = &at; n != nullptr; n = n->parent) {
    ++n->requests;
    n->granted += bytes;
    n->peak = std::max(n->peak, n->granted);
    for (auto* window : n->windows) {
      window->peak = std::max(window->peak, n->granted);
    }
  }
}

void add_reserved(node& at, std::uint64_t bytes) noexcept {
  for (node* n = &at; n != nullptr; n = n->parent) {
    n->reserved += bytes;
  }
}

void sub_reserved(node& at, std::uint64_t bytes) noexcept {
  for (node* n = &at; n != nullptr; n = n->parent) {
    n->reserved -= bytes;
  }
}

std::uint64_t least_room(const node& at) noexcept {
  std::uint64_t least = room(at);
  for (const node* n = at.parent; n != nullptr; n = n->parent) {
    least = std::min(least, room(*n));
  }
  return least;
}

} // namespace

bool fits(const node& at, std::uint64_t bytes) noexcept { return bytes <= least_room(at); }

bool is_closed(const node& at) noexcept {
  return at.closed.load(std::memory_order_relaxed) || (at.parent != nullptr && is_closed(*at.parent));
}

bool can_never_fit(const node& at, std::uint64_t bytes) noexcept {
  for (const node* n = &at; n != nullptr; n = n->parent) {
    if (n->closed.load(std::memory_order_relaxed) || bytes > n->limit.load(std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

bool budget_tree::take(node& at, std::uint64_t bytes) noexcept {
  recall_for(at, bytes);
  if (!fits(at, bytes)) {
    return false;
  }
  add_charge(at, bytes);
  return true;
}

/// Charges the bytes, or promises them to `into`.
bool budget_tree::take(node& at, std::uint64_t bytes, promise* into) noexcept {
  if (into == nullptr) {
    return take(at, bytes);
  }
  recall_for(at, bytes);
  if (!fits(at, bytes)) {
    return false;
  }
  add_reserved(at, bytes);
  into->firm += bytes;
  return true;
}

bool budget_tree::charge(node& at, std::uint64_t bytes) noexcept {
  const std::lock_guard hold(mutex_);
  return admit(at, bytes);
}

std::optional<budget_refusal> budget_tree::charge_or_refuse(node& at, std::uint64_t bytes) {
  const std::lock_guard hold(mutex_);
  if (admit(at, bytes)) {
    return std::nullopt;
  }
  return refuse_locked(at, bytes);
}

void budget_tree::refund(node& at, std::uint64_t bytes) noexcept {
  const std::lock_guard hold(mutex_);
  give(at, bytes);
}

void budget_tree::give(node& at, std::uint64_t bytes) noexcept {
  for (node* n = &at; n != nullptr; n = n->parent) {
    n->granted -= bytes;
  }
  if (line_.empty()) {
    grant_credit(at);
  } else {
    serve_line();
  }
}

/// Counts a refusal and returns its numbers. Call it after a failed attempt, with the mutex still held. At
/// that moment `granted` of the budget without room is its true `current`: all credit in its subtree was
/// called back before the attempt failed, or all shards are closed because a request waits in line.
budget_refusal budget_tree::refuse_locked(node& at, std::uint64_t bytes) {
  static_cast<void>(is_held_up(at)); // marks the budgets whose room is kept for requests in line
  budget_refusal numbers;
  node* by = &at;
  while (room(*by) >= bytes && by->contested != pass_ && by->parent != nullptr) {
    by = by->parent;
    ++numbers.levels_above;
  }
  numbers.layer = by->self.name();
  numbers.requested = bytes;
  numbers.current = by->granted;
  numbers.kept = by->contested == pass_ ? room(*by) : 0;
  numbers.reserved = by->reserved + numbers.kept;
  numbers.required = uint128{numbers.current} + numbers.reserved + bytes;
  numbers.limit = by->limit.load(std::memory_order_relaxed);
  numbers.remaining = room(*by) - numbers.kept;
  numbers.peak = by->peak;
  ++at.refused;
  by->refused += by == &at ? 0U : 1U;
  return numbers;
}

budget_tree::promise budget_tree::reserve(node& at, std::uint64_t bytes, bool overbook) {
  const std::lock_guard hold(mutex_);
  recall_all(at.root());
  const std::uint64_t available = is_held_up(at) ? 0 : least_room(at);
  if (bytes > available && !overbook) {
    throw error(refuse_locked(at, bytes));
  }
  promise promise;
  promise.firm = std::min(bytes, available);
  promise.overbooked = bytes - promise.firm;
  add_reserved(at, promise.firm);
  return promise;
}

bool budget_tree::draw_locked(node& at, promise& from, std::uint64_t bytes) noexcept {
  if (bytes > from.firm && bytes - from.firm > from.overbooked) {
    return false;
  }
  const std::uint64_t firm = std::min(bytes, from.firm);
  if (bytes != firm && is_held_up(at)) { // firm bytes already belong to the holder and need no place in line
    return false;
  }
  sub_reserved(at, firm);
  if (!take(at, bytes)) {
    add_reserved(at, firm);
    return false;
  }
  from.firm -= firm;
  from.overbooked -= bytes - firm;
  return true;
}

bool budget_tree::draw(node& at, promise& from, std::uint64_t bytes) noexcept {
  const std::lock_guard hold(mutex_);
  return draw_locked(at, from, bytes);
}

std::optional<budget_refusal> budget_tree::draw_or_refuse(node& at, promise& from, std::uint64_t promised,
                                                          std::uint64_t bytes) {
  const std::lock_guard hold(mutex_);
  if (draw_locked(at, from, bytes)) {
    return std::nullopt;
  }
  const std::uint64_t rest = from.firm + from.overbooked;
  if (bytes <= rest) { // the firm bytes were not refused
    return refuse_locked(at, bytes - from.firm);
  }
  budget_refusal numbers;
  numbers.layer = concat(at.self.name(), " (reservation)");
  numbers.requested = bytes;
  numbers.current = promised - rest;
  numbers.required = uint128{numbers.current} + bytes;
  numbers.limit = promised;
  numbers.remaining = rest;
  numbers.peak = numbers.current;
  ++at.refused;
  return numbers;
}

void budget_tree::put_back(node& at, promise& to, std::uint64_t bytes) noexcept {
  const std::lock_guard hold(mutex_);
  for (node* n = &at; n != nullptr; n = n->parent) {
    n->granted -= bytes;
    n->reserved += bytes;
  }
  to.firm += bytes;
}

void budget_tree::release(node& at, promise& promised) noexcept {
  if (inherited()) {
    return;
  }
  const std::lock_guard hold(mutex_);
  sub_reserved(at, promised.firm);
  promised = {};
  serve_line();
}

budget_tree::promise budget_tree::read(const promise& promised) noexcept {
  const std::lock_guard hold(mutex_);
  return promised;
}

budget_statistics budget_tree::statistics(node& of) noexcept {
  const std::lock_guard hold(mutex_);
  const node& root = of.root();
  lock_shards(root);
  const totals sum = count_locked(of);
  budget_statistics now;
  now.limit = of.limit.load(std::memory_order_relaxed);
  now.current = of.granted - sum.unspent;
  now.reserved = of.reserved;
  now.remaining = room(of) + sum.unspent;
  for (const node* n = of.parent; n != nullptr; n = n->parent) {
    now.remaining = std::min(now.remaining, room(*n) + count_locked(*n).unspent);
  }
  now.peak = of.peak;
  now.requests = sum.requests;
  now.refused = of.refused;
  unlock_shards(root);
  return now;
}

void budget_tree::reset_peak(node& of) noexcept {
  const std::lock_guard hold(mutex_);
  recall_all(of);
  of.peak = of.granted;
}

void budget_tree::set_limit(node& of, std::uint64_t limit) {
  const std::lock_guard hold(mutex_);
  recall_all(of);
  if (uint128{of.granted} + of.reserved > limit) {
    const std::string promised = of.reserved == 0 ? "" : concat(" and ", of.reserved, " reserved");
    throw error(errc::invalid_argument, concat("budget of ", of.self.name(), " can't be set to ", limit,
                                               " bytes: ", of.granted, " bytes are live", promised));
  }
  of.limit.store(limit, std::memory_order_relaxed);
  serve_line();
}

void budget_tree::open(node& of, budget_window::state& window) {
  const std::lock_guard hold(mutex_);
  of.windows.push_back(&window);
  const totals sum = recall_all(of);
  window.at_start = {.start = of.granted, .requests = sum.requests, .refused = of.refused};
  window.peak = of.granted;
}

void budget_tree::close(node& of, budget_window::state& window) noexcept {
  if (inherited()) {
    return;
  }
  const std::lock_guard hold(mutex_);
  std::erase(of.windows, &window);
}

budget_window::values budget_tree::read(node& of, const budget_window::state& window) noexcept {
  const std::lock_guard hold(mutex_);
  lock_shards(of);
  const totals sum = count_locked(of);
  const std::uint64_t current = of.granted - sum.unspent;
  unlock_shards(of); // may close idle shards; `granted` no longer counts their credit then
  return {.start = window.at_start.start,
          .current = current,
          .peak = window.peak,
          .requests = sum.requests - window.at_start.requests,
          .refused = of.refused - window.at_start.refused};
}

} // namespace saeta
