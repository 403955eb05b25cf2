#include "saeta/memory/ledger.hpp"

#include <algorithm>

namespace saeta {

void ledger::add(entry_id id, owner_kind kind, std::string tag, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  live_.emplace(id, entry{kind, std::move(tag), bytes});
}

void ledger::remove(entry_id id) noexcept {
  const std::lock_guard lock(mutex_);
  live_.erase(id);
}

ledger_totals ledger::totals() const {
  const std::lock_guard lock(mutex_);
  ledger_totals sum;
  sum.buffers = live_.size();
  for (const auto& [id, held] : live_) {
    (held.kind == owner_kind::own ? sum.own : sum.external) += held.bytes;
  }
  return sum;
}

std::vector<std::pair<std::string, std::uint64_t>> ledger::by_tag() const {
  std::map<std::string, std::uint64_t> sums;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, held] : live_) {
      sums[(held.kind == owner_kind::external ? "external:" : "") + held.tag] += held.bytes;
    }
  }
  std::vector<std::pair<std::string, std::uint64_t>> sorted(sums.begin(), sums.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return sorted;
}

} // namespace saeta
