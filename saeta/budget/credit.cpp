// Credit: how it is called back from the shards and granted to them.
#include "saeta/base/thread_number.hpp"
#include "saeta/budget/detail/tree.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace saeta {
namespace {

using node = budget_tree::node;

/// A grant takes this part of what could be granted at most, so that other threads find some too.
constexpr std::uint64_t share_of_a_grant = 64;

template <class Node, class Action>
void for_each_open(Node& of, Action action) noexcept {
  for (std::uint32_t rest = of.open_shards.load(std::memory_order_relaxed); rest != 0; rest &= rest - 1) {
    action(of.credit[static_cast<std::size_t>(std::countr_zero(rest))]);
  }
}

/// Bytes that can be granted without passing the limit or the peak.
std::uint64_t slack(const node& in) noexcept {
  std::uint64_t ceiling = std::min(in.granted + room(in), in.peak);
  for (const auto* window : in.windows) {
    ceiling = std::min(ceiling, window->peak);
  }
  return ceiling - in.granted;
}

/// What a grant of `bytes` lacks where it lacks most.
std::uint64_t shortfall(const node& at, std::uint64_t bytes) noexcept {
  std::uint64_t most = 0;
  for (const node* n = &at; n != nullptr; n = n->parent) {
    most = std::max(most, bytes - std::min(bytes, slack(*n)));
  }
  return most;
}

} // namespace

credit_shard& budget::node::mine() noexcept { return credit[thread_number() % shards]; }

bool budget::node::spend_borrowed(std::uint64_t bytes) noexcept {
  const std::size_t own = thread_number() % shards;
  credit_shard& borrower = credit[own];
  const std::lock_guard hold(borrower.lock);
  if (!borrower.open) {
    return false;
  }
  const std::uint64_t missing = bytes - std::min(bytes, borrower.credit());
  // Each thread begins with another neighbour. Its own shard is locked, so it lends nothing.
  const std::uint32_t all = open_shards.load(std::memory_order_relaxed);
  for (std::uint32_t rest = std::rotr(all, static_cast<int>(own)); rest != 0; rest &= rest - 1) {
    const std::size_t lender = (own + static_cast<std::size_t>(std::countr_zero(rest))) % shards;
    if (const std::uint64_t lent = credit[lender].lend(missing); lent != 0) {
      borrower.set_credit(borrower.credit() + lent);
      break;
    }
  }
  return borrower.spend_locked(bytes);
}

void budget_tree::lock_shards(node& top) noexcept {
  for_each_open(top, [](credit_shard& shard) { shard.lock.lock(); });
  for (node* child : top.children) {
    lock_shards(*child);
  }
}

void budget_tree::unlock_shards(node& top) noexcept {
  for_each_open(top, [](credit_shard& shard) { shard.lock.unlock(); });
  for (node* child : top.children) {
    unlock_shards(*child);
  }
}

budget_tree::totals budget_tree::count_locked(const node& top) noexcept {
  totals sum{.requests = top.requests};
  for_each_open(top, [&](const credit_shard& shard) {
    sum.unspent += shard.credit();
    sum.requests += shard.requests;
  });
  for (const node* child : top.children) {
    const totals below = count_locked(*child);
    sum.unspent += below.unspent;
    sum.requests += below.requests;
  }
  return sum;
}

void budget_tree::take_credit(node& from, credit_shard& shard, std::uint64_t bytes) noexcept {
  shard.set_credit(shard.credit() - bytes);
  for (node* n = &from; n != nullptr; n = n->parent) {
    n->granted -= bytes;
  }
}

/// Takes credit from one locked shard after the other until `wanted()` is 0, and half of what a shard has if that is
/// more: the thread that is short of credit now will be again.
template <class Wanted>
void budget_tree::call_back_within(node& top, Wanted& wanted) noexcept {
  for_each_open(top, [&](credit_shard& shard) {
    const std::uint64_t has = shard.credit();
    const std::uint64_t missing = has == 0 ? 0 : wanted();
    if (missing != 0) {
      take_credit(top, shard, std::min(has, std::max(missing, has / 2)));
    }
  });
  for (node* child : top.children) {
    call_back_within(*child, wanted);
  }
}

/// Afterwards `granted` is the true `current` of `top` and all below it, at the moment of the totals returned.
budget_tree::totals budget_tree::call_back_all(node& top) noexcept {
  const auto everything = [] { return std::numeric_limits<std::uint64_t>::max(); };
  lock_shards(top);
  const totals before = count_locked(top);
  call_back_within(top, everything);
  unlock_shards(top);
  return before;
}

/// Afterwards a budget from `at` to the root can grant `bytes`, or its `granted` is its true `current`.
void budget_tree::call_back_for(node& at, std::uint64_t bytes) noexcept {
  node* top = nullptr;
  for (node* n = &at; n != nullptr; n = n->parent) {
    top = slack(*n) < bytes ? n : top;
  }
  if (top == nullptr) {
    return;
  }
  const auto missing = [&] { return shortfall(at, bytes); };
  lock_shards(*top);
  call_back_within(*top, missing);
  unlock_shards(*top);
}

void budget_tree::close_shards(node& top) noexcept {
  for_each_open(top, [&](credit_shard& shard) {
    const std::lock_guard hold(shard.lock);
    take_credit(top, shard, shard.credit());
    top.requests += std::exchange(shard.requests, 0);
    shard.open = false;
  });
  top.open_shards = 0;
  for (node* child : top.children) {
    close_shards(*child);
  }
}

void budget_tree::grant_credit(node& at) noexcept {
  std::uint64_t bytes = slack(at);
  for (node* n = at.parent; n != nullptr; n = n->parent) {
    bytes = std::min(bytes, slack(*n));
  }
  bytes /= share_of_a_grant;
  for (node* n = &at; n != nullptr; n = n->parent) {
    n->granted += bytes;
  }
  credit_shard& shard = at.mine();
  at.open_shards.fetch_or(std::uint32_t{1} << (&shard - at.credit.data()), std::memory_order_relaxed);
  const std::lock_guard hold(shard.lock);
  shard.open = true;
  shard.set_credit(shard.credit() + bytes);
}

} // namespace saeta
