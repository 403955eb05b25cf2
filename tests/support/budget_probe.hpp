// Internals of a tree of budgets that its interface does not show.
#pragma once

#include "saeta/budget/tree.hpp"

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace saeta {

struct budget_probe {
  /// How many open shards the tree has looked at so far.
  static std::uint64_t visits(const budget& of) {
    const std::lock_guard hold(of.tree_->mutex_);
    return of.tree_->visits_;
  }
  /// How often the tree was locked so far, including this call.
  static std::uint64_t locks(const budget& of) {
    const std::lock_guard hold(of.tree_->mutex_);
    return of.tree_->mutex_.taken;
  }
  /// The deadlines of the requests in line, first come first.
  static std::vector<budget::time_point> deadlines(const budget& of) {
    const std::lock_guard hold(of.tree_->mutex_);
    std::vector<budget::time_point> found;
    for (const auto* waits : of.tree_->line_) {
      found.push_back(waits->deadline);
    }
    return found;
  }
  /// Windows that are open on this budget itself.
  static std::size_t windows(const budget& of) {
    const std::lock_guard hold(of.tree_->mutex_);
    return of.node_->windows.size();
  }
  /// Blocks every operation that needs more than the thread's own credit.
  static std::unique_lock<std::mutex> hold(const budget& of) {
    return std::unique_lock<std::mutex>(of.tree_->mutex_);
  }
};

} // namespace saeta
