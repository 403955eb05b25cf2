// The bookkeeping behind budgets: one tree for a root and all its descendants.
//
// What      Each budget is a node. Each node has a credit shard per thread (beyond 32 threads, threads share
//           shards). `granted` of a node is what it has charged plus the unspent credit in its subtree:
//               current = granted - sum of unspent credit in the subtree.
//           A charge takes from the shard of its thread and a refund adds to it, under a short lock that is
//           rarely contended. When a shard has too little credit, the tree grants more and calls credit back
//           from other shards.
// Cost      Operations on shards visit only the open ones, which are those in use. A shard that is visited
//           often without being used is closed. At most `most_open` shards of a tree are open, which bounds
//           the cost for a program that charges thousands of budgets in turn. All other operations walk only
//           from a budget to the root: sums are kept for whole subtrees, and no budget knows its children.
// Exact     For every node: granted <= limit - reserved, granted <= peak, and granted <= the peak of each
//           open window. So spending credit can't exceed a limit or raise a peak. Only the tree refuses a
//           charge or raises a peak. It first locks the relevant shards together and calls back their credit,
//           so that `granted` is the true `current`.
// Line      While a request waits in line, all shards are closed, so that every charge and refund goes
//           through the tree. No request takes bytes from a budget that lacks room for an earlier one.
// Fork      A child process only drops the trees of its parent. That takes no lock, because another thread of
//           the parent may have held it.
// Thread    Any. Lock order: the tree's mutex, then shards. A second shard is locked only under the mutex.
//           The mutex guards the members of `node`, except shards, and the private members of `budget_tree`.
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

/// The credit of one thread. It takes two cache lines, because processors fetch them in pairs.
struct alignas(128) credit_shard {
  spin_lock lock;
  bool open = false;      ///< if closed, only the tree charges and refunds
  std::uint8_t idle = 0;  ///< visits by the tree since the last use
  std::uint8_t place = 0; ///< index in the tree's list of open shards; guarded by the tree's mutex
  std::uint64_t requests = 0;
  std::uint64_t credit = 0; ///< unspent bytes

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

struct SAETA_LOCAL budget_window::state {
  std::shared_ptr<budget> of;
  values at_start; ///< `requests` and `refused` are the totals of the budget
  std::uint64_t peak = 0;
};

struct SAETA_LOCAL budget::node {
  static constexpr std::size_t shards = 32;

  node(const budget& described, node* above, std::uint64_t bytes)
      : self(described), parent(above), limit(bytes) {}
  credit_shard& own_shard() noexcept { return credit[thread_number() % shards]; }
  [[nodiscard]] node& root() noexcept { return parent == nullptr ? *this : parent->root(); }
  /// True for this node and its descendants.
  [[nodiscard]] bool contains(const node& other) const noexcept;

  const budget& self;
  node* const parent;
  std::atomic<std::uint64_t> limit; ///< written under the mutex
  std::atomic<bool> closed = false; ///< written under the mutex; if set, no request waits here or below
  std::uint64_t reserved = 0;
  std::uint64_t granted = 0;
  std::uint64_t peak = 0;
  std::vector<budget_window::state*> windows;
  std::uint64_t requests = 0; ///< of the subtree, without those still counted in open shards
  std::uint64_t refused = 0;
  std::uint64_t contested = 0; ///< the last pass over the line that found a request without room here
  std::array<credit_shard, shards> credit;
};

class SAETA_LOCAL budget_tree {
public:
  using node = budget::node;
  using time_point = budget::time_point;
  /// The bytes of a reservation that were not drawn yet.
  struct promise {
    std::uint64_t firm = 0;
    std::uint64_t overbooked = 0;
  };

  /// With more, a refusal and a new peak take longer. With fewer, threads on several budgets would keep
  /// closing each other's shards.
  static constexpr std::size_t most_open = 256;

  void remove(node& gone) noexcept;

  bool charge(node& at, std::uint64_t bytes) noexcept;
  /// Returns nullopt if the bytes were charged.
  std::optional<budget_refusal> charge_or_refuse(node& at, std::uint64_t bytes);
  /// @param into  null: the bytes are charged, else promised to it
  bool wait_in_line(node& at, std::uint64_t bytes, time_point deadline, promise* into);
  void close(node& at) noexcept;
  std::size_t waiting() noexcept;
  void refund(node& at, std::uint64_t bytes) noexcept;

  /// Promises `bytes`. Those without room are overbooked, or refused without `overbook`.
  /// @throws error budget_exceeded if refused.
  promise reserve(node& at, std::uint64_t bytes, bool overbook);
  bool draw(node& at, promise& from, std::uint64_t bytes) noexcept;
  /// Returns nullopt if the bytes were drawn. @param promised  the size that the reservation was made with.
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

  /// A request in line. It is on the stack of the waiting thread.
  struct waiter {
    enum class outcome { waiting, served, impossible };
    waiter(node& in, std::uint64_t wanted, time_point until, promise* for_promise)
        : at(in), bytes(wanted), deadline(until), into(for_promise) {}
    node& at;
    std::uint64_t bytes;
    time_point deadline;
    promise* into;
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
  void recall_within(const node& top, Wanted wanted) noexcept;
  totals recall_all(const node& top) noexcept;
  void recall_for(node& at, std::uint64_t bytes) noexcept;
  void open_shard(node& of, credit_shard& shard) noexcept;
  void close_shard(open_credit which) noexcept;
  void close_locked(open_credit which) noexcept;
  void close_idle_shard() noexcept;
  void close_shards() noexcept;
  void grant_credit(node& at) noexcept;

  // Charges (tree.cpp)
  bool take(node& at, std::uint64_t bytes) noexcept;
  bool take(node& at, std::uint64_t bytes, promise* into) noexcept;
  bool draw_locked(node& at, promise& from, std::uint64_t bytes) noexcept;
  budget_refusal refuse_locked(node& at, std::uint64_t bytes);
  void give(node& at, std::uint64_t bytes) noexcept;

  // The waiting line (line.cpp)
  bool admit(node& at, std::uint64_t bytes, promise* into = nullptr) noexcept;
  bool is_held_up(const node& at) noexcept;
  bool is_contested(const node& at) const noexcept;
  void mark_contested(const waiter& waits) noexcept;
  void serve_line() noexcept;
  void leave_line(waiter& gone) noexcept;

  /// Counts locks for tests: numbers that are read under two locks are not a consistent snapshot.
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
  std::size_t hand_ = 0; ///< where the search for an idle shard continues
  std::list<waiter*> line_;
  std::uint64_t pass_ = 0;   ///< number of the last pass over the line
  std::uint64_t visits_ = 0; ///< open shards visited so far
};

/// Bytes that a node can still charge, once all credit in its subtree has been called back.
inline std::uint64_t room(const budget_tree::node& in) noexcept {
  return in.limit.load(std::memory_order_relaxed) - in.reserved - in.granted;
}
/// True if every budget from `at` to the root has room.
bool fits(const budget_tree::node& at, std::uint64_t bytes) noexcept;
bool is_closed(const budget_tree::node& at) noexcept; ///< here or above
/// True if a budget from `at` to the root is closed or has a limit below `bytes`.
bool can_never_fit(const budget_tree::node& at, std::uint64_t bytes) noexcept;

} // namespace saeta
