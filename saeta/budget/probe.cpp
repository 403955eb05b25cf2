#include "saeta/budget/probe.hpp"

namespace saeta {

std::uint64_t budget_probe::visits(const budget& of) {
  const std::lock_guard hold(of.tree_->mutex_);
  return of.tree_->visits_;
}

std::uint64_t budget_probe::locks(const budget& of) {
  const std::lock_guard hold(of.tree_->mutex_);
  return of.tree_->mutex_.taken;
}

std::size_t budget_probe::windows(const budget& of) {
  const std::lock_guard hold(of.tree_->mutex_);
  return of.node_->windows.size();
}

std::vector<budget::time_point> budget_probe::deadlines(const budget& of) {
  const std::lock_guard hold(of.tree_->mutex_);
  std::vector<budget::time_point> found;
  for (const auto* waits : of.tree_->line_) {
    found.push_back(waits->deadline);
  }
  return found;
}

std::unique_lock<std::mutex> budget_probe::hold(const budget& of) {
  return std::unique_lock<std::mutex>(of.tree_->mutex_);
}

} // namespace saeta
