// The bookkeeping behind budgets: one tree for a root and all its descendants.
//
// What      Each budget is a node; each node has a credit shard for each thread (threads share one beyond 32). What a
//           node has `granted` is what it has charged plus the credit that lies unspent in its subtree:
//               current = granted - sum of unspent credit in the subtree.
//           A charge takes from the thread's own shard and a refund adds to it: one short lock that nobody else wants.
//           Where a shard is short the tree is asked: it grants more, calling credit back from other shards.
// Cost      What visits shards visits the open ones, which are those in use: one that was visited often and never used
//           meanwhile is closed. At most `most_open` of a tree are open, so that a program which charges thousands of
//           budgets in turn stays bounded, too. Nothing else goes farther than from a budget to the root: sums are kept for
//           whole subtrees, and no budget knows its children.
// Exact     For every node granted <= limit - reserved, granted <= peak and granted <= the peak of each open window.
//           So spending credit can neither pass a limit nor raise a peak. Both are decided in the tree alone, from a
//           `granted` that is the true `current`: with all credit in question called back, its shards locked together.
// Line      While somebody waits in line all shards are closed, so that every charge and refund goes through the tree.
//           Nobody may take from a budget that has no room for somebody who came earlier.
// Fork      In a child a tree of its parent is only dropped, and that takes no lock, because another thread of the parent may
//           have held it.
// Thread    Any. Lock order: the tree's mutex, then shards, a second one only under the mutex. What the
//           mutex guards is marked by standing in `node` or being private in `budget_tree`.
#pragma once

#include "saeta/base/process.hpp"
#include "saeta/base/spin_lock.hpp"
#include "saeta/base/thread_number.hpp"
#include "saeta/budget/budget.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <vector>

namespace saeta {

/// Credit of one thread. Two cache lines: processors fetch them in pairs.
struct alignas(128) credit_shard {
  spin_lock lock;
  bool open = false;      ///< closed: the tree alone charges and refunds
  std::uint8_t idle = 0;  ///< visits of the tree since it was used last
  std::uint8_t place = 0; ///< in the tree's list of open shards; guarded by the tree's mutex
  std::uint64_t requests = 0;
  std::uint64_t credit = 0; ///< bytes, unspent

  bool spend(std::uint64_t bytes) noexcept {
    const std::lock_guard hold(lock);
    if (!open || bytes > credit) {
      return false;
    }
    credit -= bytes;
    ++requests;
    idle = 0;
    return true;
  }
  bool give_back(std::uint64_t bytes) noexcept {
    const std::lock_guard hold(lock);
    credit += open ? bytes : 0;
    idle = 0;
    return open;
  }
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
  credit_shard& mine() noexcept { return credit[thread_number() % shards]; }
  [[nodiscard]] node& root() noexcept { return parent == nullptr ? *this : parent->root(); }
  /// True for this node and for those below it.
  [[nodiscard]] bool contains(const node& other) const noexcept;

  const budget& self;
  node* const parent;
  std::atomic<std::uint64_t> limit; ///< written under the mutex
  std::atomic<bool> closed = false; ///< written under the mutex; nobody waits here or below
  std::uint64_t reserved = 0;
  std::uint64_t granted = 0;
  std::uint64_t peak = 0;
  std::vector<budget_window::state*> windows;
  std::uint64_t requests = 0; ///< of the subtree, but for those that an open shard still counts
  std::uint64_t refused = 0;
  std::uint64_t contested = 0; ///< the last pass over the line that found somebody short of room here
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

  /// More would make a refusal and a new peak slower; with fewer, many threads on several budgets would close each other's.
  static constexpr std::size_t most_open = 256;

  void remove(node& gone) noexcept;

  bool charge(node& at, std::uint64_t bytes) noexcept;
  /// Nothing when it was charged.
  std::optional<budget_refusal> charge_or_refuse(node& at, std::uint64_t bytes);
  bool charge_by(node& at, std::uint64_t bytes, time_point deadline);
  void close(node& at) noexcept;
  std::size_t waiting() noexcept;
  void refund(node& at, std::uint64_t bytes) noexcept;

  /// Promises `bytes`, with `overbook` as far as there is room. @throws error budget_exceeded without.
  promise reserve(node& at, std::uint64_t bytes, bool overbook);
  bool draw(node& at, promise& from, std::uint64_t bytes) noexcept;
  /// Nothing when it was drawn. @param promised  what the reservation was made with.
  std::optional<budget_refusal> draw_or_refuse(node& at, promise& from, std::uint64_t promised,
                                               std::uint64_t bytes);
  void put_back(node& at, promise& to, std::uint64_t bytes) noexcept;
  void release(node& at, promise& promised) noexcept;
  promise read(const promise& promised) noexcept;

  budget_statistics statistics(node& of) noexcept;
  void reset_peak(node& of) noexcept;
  void set_limit(node& of, std::uint64_t limit);
  void open(node& of, budget_window::state& window);
  void close(node& of, budget_window::state& window) noexcept;
  budget_window::values read(node& of, const budget_window::state& window) noexcept;

private:
  friend struct budget_probe;

  /// Somebody in line; lives on the stack of the thread that waits.
  struct waiter {
    enum class outcome { waiting, charged, impossible };
    waiter(node& in, std::uint64_t wanted, time_point until) : at(in), bytes(wanted), deadline(until) {}
    node& at;
    std::uint64_t bytes;
    time_point deadline;
    outcome now = outcome::waiting;
    std::condition_variable changed;
  };
  struct totals {
    std::uint64_t unspent = 0;
    std::uint64_t requests;
  };

  struct open_credit {
    node* of = nullptr;
    credit_shard* shard = nullptr;
  };

  // Credit (credit.cpp)
  template <class Action>
  void for_each_open(const node& top, Action action) noexcept;
  totals count_locked(const node& top) noexcept;
  void lock_shards(const node& top) noexcept;
  void unlock_shards(const node& top) noexcept;
  template <class Wanted>
  void call_back_within(const node& top, Wanted wanted) noexcept;
  totals call_back_all(const node& top) noexcept;
  void call_back_for(node& at, std::uint64_t bytes) noexcept;
  void open_shard(node& of, credit_shard& shard) noexcept;
  void close_shard(open_credit which) noexcept;
  void close_locked(open_credit which) noexcept;
  void close_an_idle_shard() noexcept;
  void close_shards() noexcept;
  void grant_credit(node& at) noexcept;

  // Charges (tree.cpp)
  bool take(node& at, std::uint64_t bytes) noexcept;
  bool draw_locked(node& at, promise& from, std::uint64_t bytes) noexcept;
  budget_refusal refuse_locked(node& at, std::uint64_t bytes);
  void give(node& at, std::uint64_t bytes) noexcept;

  // The line (line.cpp)
  bool admit(node& at, std::uint64_t bytes) noexcept;
  bool is_held_up(const node& at) noexcept;
  bool is_contested(const node& at) const noexcept;
  void contest(const waiter& waits) noexcept;
  void serve_line() noexcept;
  void leave_line(waiter& gone) noexcept;

  /// Counts for `budget_probe`: two looks at the tree are of two moments.
  struct counted_mutex : std::mutex {
    void lock() {
      std::mutex::lock();
      ++taken;
    }
    std::uint64_t taken = 0;
  };

  [[nodiscard]] bool inherited() const noexcept { return made_in_ != fork_generation(); }
  const std::uint64_t made_in_ = fork_generation();
  counted_mutex mutex_;
  std::array<open_credit, most_open> open_;
  std::size_t open_count_ = 0;
  std::size_t hand_ = 0; ///< where the search for an idle shard goes on
  std::list<waiter*> line_;
  std::uint64_t pass_ = 0;   ///< number of the latest pass over the line
  std::uint64_t visits_ = 0; ///< open shards looked at so far
};

/// Bytes that a node may still charge, once all credit within has been called back.
inline std::uint64_t room(const budget_tree::node& in) noexcept {
  return in.limit.load(std::memory_order_relaxed) - in.reserved - in.granted;
}
/// True when every budget from `at` to the root has room.
bool fits(const budget_tree::node& at, std::uint64_t bytes) noexcept;
bool is_closed(const budget_tree::node& at) noexcept; ///< here or above
/// True when a budget from `at` to the root is smaller than the request, or closed.
bool can_never_fit(const budget_tree::node& at, std::uint64_t bytes) noexcept;

} // namespace saeta
