#include "saeta/budget/detail/tree.hpp"

#include "saeta/base/text.hpp"

#include <algorithm>

namespace saeta {
namespace {

using node = budget_tree::node;

/// Adds to what was granted; a peak moves only where all credit was called back (budget_credit.cpp).
void add_charge(node& at, std::uint64_t bytes) noexcept {
  for (node* n = &at; n != nullptr; n = n->parent) {
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

/// The budget that has no room for `bytes`; if all have some by now, the one with the least.
node& tightest(node& at, std::uint64_t bytes) noexcept {
  node* least = &at;
  for (node* n = &at; n != nullptr; n = n->parent) {
    if (room(*n) < bytes) {
      return *n;
    }
    least = room(*n) < room(*least) ? n : least;
  }
  return *least;
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

bool can_never_fit(const node& at, std::uint64_t bytes) noexcept {
  for (const node* n = &at; n != nullptr; n = n->parent) {
    if (bytes > n->limit.load(std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

void budget_tree::add(node& made) {
  const std::lock_guard hold(mutex_);
  if (made.parent == nullptr) {
    root_ = &made;
  } else {
    made.parent->children.push_back(&made);
  }
}

void budget_tree::remove(node& gone) noexcept {
  const std::lock_guard hold(mutex_);
  close_shards(gone);
  if (gone.parent != nullptr) {
    gone.parent->requests += gone.requests;
    std::erase(gone.parent->children, &gone);
  }
}

bool budget_tree::take(node& at, std::uint64_t bytes) noexcept {
  call_back_for(at, bytes);
  if (!fits(at, bytes)) {
    return false;
  }
  add_charge(at, bytes);
  ++at.requests;
  return true;
}

bool budget_tree::charge(node& at, std::uint64_t bytes) noexcept {
  const std::lock_guard hold(mutex_);
  return admit(at, bytes);
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

void budget_tree::count_refusal(node& at) noexcept {
  const std::lock_guard hold(mutex_);
  ++at.refused;
}

budget_refusal budget_tree::refuse(node& at, std::uint64_t bytes) noexcept {
  const std::lock_guard hold(mutex_);
  call_back_all(*root_);
  return refuse_locked(at, bytes);
}

budget_refusal budget_tree::refuse_locked(node& at, std::uint64_t bytes) noexcept {
  node& by = tightest(at, bytes);
  ++at.refused;
  by.refused += &by == &at ? 0U : 1U;
  budget_refusal numbers;
  numbers.layer = by.self.name();
  numbers.requested = bytes;
  numbers.current = by.granted;
  numbers.reserved = by.reserved;
  numbers.required = uint128{by.granted} + by.reserved + bytes;
  numbers.limit = by.limit.load(std::memory_order_relaxed);
  numbers.remaining = room(by);
  numbers.peak = by.peak;
  return numbers;
}

budget_tree::promise budget_tree::reserve(node& at, std::uint64_t bytes, bool overbook) {
  const std::lock_guard hold(mutex_);
  call_back_all(*root_);
  const std::uint64_t available = is_held_up(at) ? 0 : least_room(at);
  if (bytes > available && !overbook) {
    throw error(refuse_locked(at, bytes));
  }
  promise made;
  made.firm = std::min(bytes, available);
  made.overbooked = bytes - made.firm;
  add_reserved(at, made.firm);
  return made;
}

bool budget_tree::draw(node& at, promise& from, std::uint64_t bytes) noexcept {
  const std::lock_guard hold(mutex_);
  if (bytes > from.firm && bytes - from.firm > from.overbooked) {
    return false;
  }
  const std::uint64_t firm = std::min(bytes, from.firm);
  if (bytes != firm && is_held_up(at)) { // firm bytes are the holder's already and need no place in line
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

void budget_tree::put_back(node& at, promise& to, std::uint64_t bytes) noexcept {
  const std::lock_guard hold(mutex_);
  for (node* n = &at; n != nullptr; n = n->parent) {
    n->granted -= bytes;
    n->reserved += bytes;
  }
  to.firm += bytes;
}

void budget_tree::release(node& at, promise& what) noexcept {
  const std::lock_guard hold(mutex_);
  sub_reserved(at, what.firm);
  what = {};
  serve_line();
}

budget_tree::promise budget_tree::read(const promise& what) noexcept {
  const std::lock_guard hold(mutex_);
  return what;
}

budget_statistics budget_tree::statistics(node& of) noexcept {
  const std::lock_guard hold(mutex_);
  lock_shards(*root_);
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
  unlock_shards(*root_);
  return now;
}

void budget_tree::reset_peak(node& of) noexcept {
  const std::lock_guard hold(mutex_);
  call_back_all(of);
  of.peak = of.granted;
}

void budget_tree::set_limit(node& of, std::uint64_t limit) {
  const std::lock_guard hold(mutex_);
  call_back_all(of);
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
  const totals sum = call_back_all(of);
  window.at_start = {.start = of.granted, .requests = sum.requests, .refused = of.refused};
  window.peak = of.granted;
}

void budget_tree::close(node& of, budget_window::state& window) noexcept {
  const std::lock_guard hold(mutex_);
  std::erase(of.windows, &window);
}

budget_window::values budget_tree::read(node& of, const budget_window::state& window) noexcept {
  const std::lock_guard hold(mutex_);
  lock_shards(of);
  const totals sum = count_locked(of);
  unlock_shards(of);
  return {.start = window.at_start.start,
          .current = of.granted - sum.unspent,
          .peak = window.peak,
          .requests = sum.requests - window.at_start.requests,
          .refused = of.refused - window.at_start.refused};
}

} // namespace saeta
