// The bookkeeping behind budgets: one tree for a root and all its descendants.
//
// What      Each budget is a node; each node has a credit shard for each thread (threads share one beyond 32). What a
//           node has `granted` is what it has charged plus the credit that lies unspent in its subtree:
//               current = granted - sum of unspent credit in the subtree.
//           A charge takes from the thread's own shard and a refund adds to it: one short lock that nobody else wants.
//           A shard that is short borrows from another one of its node that can spare all it lacks, which changes no
//           sum; only then is the tree asked: it grants more, calling credit back from all shards.
// Exact     For every node granted <= limit - reserved, granted <= peak and granted <= the peak of each open window.
//           So spending credit can neither pass a limit nor raise a peak. Both are decided in the tree alone, from a
//           `granted` that is the true `current`: with all credit in question called back, its shards locked together.
// Line      While somebody waits in line all shards are closed, so that every charge and refund goes through the tree.
//           A request, new or waiting, may not take from a budget that has no room for somebody who came earlier.
// Thread    Any. Lock order: the tree's mutex, then shards, a second one only under the mutex or by try_lock. What the
//           mutex guards is marked by standing in `node` or being private in `budget_tree`.
#pragma once

#include "saeta/base/spin_lock.hpp"
#include "saeta/budget/budget.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <list>
#include <mutex>
#include <vector>

namespace saeta {

/// Credit of one thread. Two cache lines: processors fetch them in pairs.
struct alignas(128) credit_shard {
  spin_lock lock;
  bool open = false; ///< closed: the tree alone charges and refunds
  std::uint64_t requests = 0;

  [[nodiscard]] std::uint64_t credit() const noexcept { return unspent_.load(std::memory_order_relaxed); }
  void set_credit(std::uint64_t bytes) noexcept { unspent_.store(bytes, std::memory_order_relaxed); }

  bool spend(std::uint64_t bytes) noexcept {
    const std::lock_guard hold(lock);
    return open && spend_locked(bytes);
  }
  bool spend_locked(std::uint64_t bytes) noexcept {
    const std::uint64_t has = credit();
    if (bytes > has) {
      return false;
    }
    set_credit(has - bytes);
    ++requests;
    return true;
  }
  bool give_back(std::uint64_t bytes) noexcept {
    const std::lock_guard hold(lock);
    set_credit(credit() + (open ? bytes : 0));
    return open;
  }
  /// Hands another shard at least `missing`, half of the credit if that is more: the one that is short now will be
  /// again. 0 when there is not enough, or the lock is taken.
  std::uint64_t lend(std::uint64_t missing) noexcept {
    if (credit() < missing || !lock.try_lock()) {
      return 0;
    }
    const std::uint64_t has = credit();
    const std::uint64_t lent = has < missing ? 0 : std::max(missing, has / 2);
    set_credit(has - lent);
    lock.unlock();
    return lent;
  }

private:
  std::atomic<std::uint64_t> unspent_ = 0; ///< written under the lock; others look before they take it
};

struct budget_window::state {
  std::shared_ptr<budget> of;
  values at_start; ///< `requests` and `refused` are totals of the budget
  std::uint64_t peak = 0;
};

struct budget::node {
  static constexpr std::size_t shards = 32;

  node(const budget& described, node* above, std::uint64_t bytes)
      : self(described), parent(above), limit(bytes) {}
  credit_shard& mine() noexcept;
  /// As `mine().spend`, with what another shard can spare.
  bool spend_borrowed(std::uint64_t bytes) noexcept;

  const budget& self;
  node* const parent;
  std::vector<node*> children;
  std::atomic<std::uint64_t> limit; ///< written under the mutex
  std::uint64_t reserved = 0;
  std::uint64_t granted = 0;
  std::uint64_t peak = 0;
  std::vector<budget_window::state*> windows;
  std::uint64_t requests = 0; ///< those that no shard has counted, and those of former children
  std::uint64_t refused = 0;
  std::uint64_t contested = 0; ///< the last pass over the line that found somebody short of room here
  std::atomic<std::uint32_t> open_shards = 0; ///< a bit for each; who borrows reads it without the mutex
  std::array<credit_shard, shards> credit;
};

class budget_tree {
public:
  using node = budget::node;
  using time_point = budget::time_point;
  /// What is left of a reservation.
  struct promise {
    std::uint64_t firm = 0;
    std::uint64_t overbooked = 0;
  };

  void add(node& made);
  void remove(node& gone) noexcept;

  bool charge(node& at, std::uint64_t bytes) noexcept;
  bool charge_by(node& at, std::uint64_t bytes, time_point deadline);
  std::size_t waiting() noexcept;
  void refund(node& at, std::uint64_t bytes) noexcept;
  budget_refusal refuse(node& at, std::uint64_t bytes) noexcept;

  /// Promises `bytes`, with `overbook` as far as there is room. @throws error budget_exceeded without.
  promise reserve(node& at, std::uint64_t bytes, bool overbook);
  bool draw(node& at, promise& from, std::uint64_t bytes) noexcept;
  void put_back(node& at, promise& to, std::uint64_t bytes) noexcept;
  void release(node& at, promise& what) noexcept;
  promise read(const promise& what) noexcept;
  /// Counts a refusal at `at`.
  void count_refusal(node& at) noexcept;

  budget_statistics statistics(node& of) noexcept;
  void reset_peak(node& of) noexcept;
  void set_limit(node& of, std::uint64_t limit);
  void open(node& of, budget_window::state& window);
  void close(node& of, budget_window::state& window) noexcept;
  budget_window::values read(node& of, const budget_window::state& window) noexcept;

private:
  /// Somebody in line; lives on the stack of the thread that waits.
  struct waiter {
    enum class outcome { waiting, charged, impossible };
    waiter(node& in, std::uint64_t wanted) : at(in), bytes(wanted) {}
    node& at;
    std::uint64_t bytes;
    outcome now = outcome::waiting;
    std::condition_variable changed;
  };
  struct totals {
    std::uint64_t unspent = 0;
    std::uint64_t requests = 0;
  };

  // Credit (budget_credit.cpp)
  static totals count_locked(const node& top) noexcept;
  static void lock_shards(node& top) noexcept;
  static void unlock_shards(node& top) noexcept;
  static void take_credit(node& from, credit_shard& shard, std::uint64_t bytes) noexcept;
  template <class Wanted>
  static void call_back_within(node& top, Wanted& wanted) noexcept;
  static totals call_back_all(node& top) noexcept;
  static void call_back_for(node& at, std::uint64_t bytes) noexcept;
  static void close_shards(node& top) noexcept;
  static void grant_credit(node& at) noexcept;

  // Charges (budget_tree.cpp)
  static bool take(node& at, std::uint64_t bytes) noexcept;
  budget_refusal refuse_locked(node& at, std::uint64_t bytes) noexcept;
  void give(node& at, std::uint64_t bytes) noexcept;

  // The line (budget_line.cpp)
  bool admit(node& at, std::uint64_t bytes) noexcept;
  bool is_held_up(const node& at) noexcept;
  bool is_contested(const node& at) const noexcept;
  void contest(const waiter& waits) noexcept;
  void serve_line() noexcept;

  std::mutex mutex_;
  node* root_ = nullptr;
  std::list<waiter*> line_;
  std::uint64_t pass_ = 0; ///< number of the latest pass over the line
};

/// Bytes that a node may still charge, once all credit within has been called back.
inline std::uint64_t room(const budget_tree::node& in) noexcept {
  return in.limit.load(std::memory_order_relaxed) - in.reserved - in.granted;
}
/// True when every budget from `at` to the root has room.
bool fits(const budget_tree::node& at, std::uint64_t bytes) noexcept;
/// True when a budget from `at` to the root is smaller than the request.
bool can_never_fit(const budget_tree::node& at, std::uint64_t bytes) noexcept;

} // namespace saeta
