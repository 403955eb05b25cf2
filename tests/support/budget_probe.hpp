// Access to internals of a tree of budgets for tests.
#pragma once

#include "saeta/budget/tree.hpp"

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace saeta {

struct budget_probe {
  /// Returns the number of open shards that the tree has visited so far.
  static std::uint64_t visits(const budget& of) {
    const std::lock_guard hold(of.tree_->mutex_);
    return of.tree_->visits_;
  }
  /// Returns how often the tree was locked so far, including this call.
  static std::uint64_t locks(const budget& of) {
    const std::lock_guard hold(of.tree_->mutex_);
    return of.tree_->mutex_.taken;
  }
  /// Returns the deadlines of the waiting requests, in their order.
  static std::vector<budget::time_point> deadlines(const budget& of) {
    const std::lock_guard hold(of.tree_->mutex_);
    std::vector<budget::time_point> found;
    for (const auto* waits : of.tree_->line_) {
      found.push_back(waits->deadline);
    }
    return found;
  }
  /// Returns the number of windows that are open on this budget.
  static std::size_t windows(const budget& of) {
    const std::lock_guard hold(of.tree_->mutex_);
    return of.node_->windows.size();
  }
  /// Locks the tree, which blocks every operation that needs more than its thread's credit.
  static std::unique_lock<std::mutex> hold(const budget& of) {
    return std::unique_lock<std::mutex>(of.tree_->mutex_);
  }
};

} // namespace saeta
