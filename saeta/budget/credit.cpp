// Credit: how it is granted to shards and called back from them.
#include "saeta/base/thread_number.hpp"
#include "saeta/budget/tree.hpp"

#include <algorithm>
#include <utility>

namespace saeta {
namespace {

using node = budget_tree::node;

/// A grant takes this fraction of the available bytes, 1/64, so that other threads get some, too.
constexpr std::uint64_t share_of_a_grant = 64;

/// A shard is closed after this many visits without a use.
constexpr std::uint8_t most_idle_visits = 32;

/// Bytes that can be granted without exceeding the limit or the peaks of the budget and its open windows.
std::uint64_t slack(const node& in) noexcept {
  std::uint64_t ceiling = std::min(in.granted + room(in), in.peak);
  for (const auto* window : in.windows) {
    ceiling = std::min(ceiling, window->peak);
  }
  return ceiling - in.granted;
}

/// The largest number of bytes that a budget from `at` to the root lacks for a grant of `bytes`.
std::uint64_t shortfall(const node& at, std::uint64_t bytes) noexcept {
  std::uint64_t most = 0;
  for (const node* n = &at; n != nullptr; n = n->parent) {
    most = std::max(most, bytes - std::min(bytes, slack(*n)));
  }
  return most;
}

void take_credit(node& from, credit_shard& shard, std::uint64_t bytes) noexcept {
  shard.credit -= bytes;
  for (node* n = &from; n != nullptr; n = n->parent) {
    n->granted -= bytes;
  }
}

} // namespace

bool budget::node::contains(const node& other) const noexcept {
  const node* n = &other;
  while (n != nullptr && n != this) {
    n = n->parent;
  }
  return n != nullptr;
}

/// Calls `action` with the node and the shard for every open shard in the subtree of `top`.
template <class Action>
void budget_tree::for_each_open(const node& top, Action action) noexcept {
  for (std::size_t i = 0; i < open_count_; ++i) {
    ++visits_;
    if (top.contains(*open_[i].of)) {
      action(*open_[i].of, *open_[i].shard);
    }
  }
}

void budget_tree::lock_shards(const node& top) noexcept {
  for_each_open(top, [](node&, credit_shard& shard) { shard.lock.lock(); });
}

/// Also closes shards that have not been used for a while.
void budget_tree::unlock_shards(const node& top) noexcept {
  for (std::size_t i = 0; i < open_count_;) {
    ++visits_;
    const open_credit visited = open_[i];
    if (!top.contains(*visited.of)) {
      ++i;
      continue;
    }
    if (visited.shard->idle == most_idle_visits) {
      close_locked(visited); // moves the last open shard to index i
    } else {
      ++visited.shard->idle;
      ++i;
    }
    visited.shard->lock.unlock();
  }
}

budget_tree::totals budget_tree::count_locked(const node& top) noexcept {
  totals sum{.requests = top.requests};
  for_each_open(top, [&](node&, const credit_shard& shard) {
    sum.unspent += shard.credit;
    sum.requests += shard.requests;
  });
  return sum;
}

/// Takes credit from one locked shard after another until `wanted()` is 0. Takes at least half of a shard's
/// credit, because a thread that is short of credit now will be short again.
template <class Wanted>
void budget_tree::recall_within(const node& top, Wanted wanted) noexcept {
  for_each_open(top, [&](node& of, credit_shard& shard) {
    const std::uint64_t has = shard.credit;
    const std::uint64_t missing = has == 0 ? 0 : wanted();
    if (missing != 0) {
      take_credit(of, shard, std::min(has, std::max(missing, has / 2)));
    }
  });
}

/// Calls all credit in the subtree of `top` back, so that `granted` of these nodes is their true `current`.
/// Returns their totals at that moment.
budget_tree::totals budget_tree::recall_all(const node& top) noexcept {
  lock_shards(top);
  const totals before = count_locked(top);
  recall_within(top, [] { return std::numeric_limits<std::uint64_t>::max(); });
  unlock_shards(top);
  return before;
}

/// Calls credit back until each budget from `at` to the root can grant `bytes`, or its `granted` is its true
/// `current`.
void budget_tree::recall_for(node& at, std::uint64_t bytes) noexcept {
  const node* top = nullptr;
  for (const node* n = &at; n != nullptr; n = n->parent) {
    top = slack(*n) < bytes ? n : top;
  }
  if (top == nullptr) {
    return;
  }
  lock_shards(*top);
  recall_within(*top, [&] { return shortfall(at, bytes); });
  unlock_shards(*top);
}

void budget_tree::open_shard(node& of, credit_shard& shard) noexcept {
  if (open_count_ == most_open) {
    close_idle_shard();
  }
  shard.place = static_cast<std::uint8_t>(open_count_);
  open_[open_count_++] = {&of, &shard};
  const std::lock_guard hold(shard.lock);
  shard.open = true;
  shard.idle = 0;
}

void budget_tree::close_shard(open_credit which) noexcept {
  const std::lock_guard hold(which.shard->lock);
  close_locked(which);
}

void budget_tree::close_locked(open_credit which) noexcept {
  const auto& [of, shard] = which;
  take_credit(*of, *shard, shard->credit);
  for (node* n = of; n != nullptr; n = n->parent) {
    n->requests += shard->requests;
  }
  shard->requests = 0;
  shard->open = false;
  const open_credit last = open_[--open_count_];
  open_[shard->place] = last;
  last.shard->place = shard->place;
}

/// Closes the next shard that was not used since a search passed it. Starts where the last search ended.
void budget_tree::close_idle_shard() noexcept {
  for (std::size_t seen = 0; seen < 2 * open_count_;
       ++seen) { // bounded, because other threads may keep using their shards meanwhile
    ++visits_;
    hand_ = (hand_ + 1) % open_count_;
    credit_shard& next = *open_[hand_].shard;
    const std::lock_guard hold(next.lock);
    if (next.idle != 0) {
      break;
    }
    next.idle = 1;
  }
  close_shard(open_[hand_]);
}

void budget_tree::close_shards() noexcept {
  while (open_count_ != 0) {
    close_shard(open_[open_count_ - 1]);
  }
}

/// Closes the shards of a node that is being destroyed.
void budget_tree::remove(node& gone) noexcept {
  if (inherited()) {
    return;
  }
  const std::lock_guard hold(mutex_);
  for (credit_shard& shard : gone.credit) {
    if (shard.open) { // written only under the mutex
      close_shard({&gone, &shard});
    }
  }
}

void budget_tree::grant_credit(node& at) noexcept {
  credit_shard& shard = at.own_shard();
  if (!shard.open) { // written only under the mutex
    open_shard(at, shard);
  }
  std::uint64_t bytes = slack(at);
  for (const node* n = at.parent; n != nullptr; n = n->parent) {
    bytes = std::min(bytes, slack(*n));
  }
  bytes /= share_of_a_grant;
  for (node* n = &at; n != nullptr; n = n->parent) {
    n->granted += bytes;
  }
  const std::lock_guard hold(shard.lock);
  shard.credit += bytes;
}

} // namespace saeta
