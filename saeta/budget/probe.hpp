// For tests: what can't be seen of a tree of budgets from outside.
#pragma once

#include "saeta/budget/tree.hpp"

#include <cstdint>
#include <mutex>
#include <vector>

namespace saeta {

struct budget_probe {
  /// How many open shards the tree has looked at so far.
  static std::uint64_t visits(const budget& of);
  /// How often the tree was locked so far, this time included.
  static std::uint64_t locks(const budget& of);
  /// Of those who wait in line, first come first.
  static std::vector<budget::time_point> deadlines(const budget& of);
  /// Windows that are open on this budget itself.
  static std::size_t windows(const budget& of);
  /// Holds back whatever needs more than the thread's own credit.
  static std::unique_lock<std::mutex> hold(const budget& of);
};

} // namespace saeta
