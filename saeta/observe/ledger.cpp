#include "saeta/observe/ledger.hpp"

#include "saeta/budget/budget.hpp"

#include <algorithm>
#include <map>

namespace saeta {
namespace {

bytes_by_name largest_first(const std::map<std::string, std::uint64_t>& sums) {
  bytes_by_name sorted(sums.begin(), sums.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return sorted;
}

} // namespace

ledger::shard& ledger::shard_of(entry_id id) const noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(id);
  return shards_[(address / 64 ^ address / 4096) % shards_.size()];
}

template <class Visit>
void ledger::for_each(Visit visit) const {
  std::array<std::unique_lock<std::mutex>, 16> locks;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    locks[i] = std::unique_lock(shards_[i].mutex);
  }
  for (const shard& part : shards_) {
    for (const auto& [id, held] : part.live) {
      visit(held);
    }
  }
}

void ledger::add(entry_id id, owner_kind kind, tag label, std::uint64_t bytes, const budget* charged) {
  shard& part = shard_of(id);
  const std::lock_guard lock(part.mutex);
  part.live.emplace(id, entry{kind, label, bytes, charged});
}

void ledger::remove(entry_id id) noexcept {
  shard& part = shard_of(id);
  const std::lock_guard lock(part.mutex);
  part.live.erase(id);
}

ledger_totals ledger::totals() const {
  ledger_totals sum;
  for_each([&](const entry& held) {
    ++sum.buffers;
    (held.kind == owner_kind::own ? sum.own : sum.external) += held.bytes;
  });
  return sum;
}

bytes_by_name ledger::by_tag(const budget* within) const {
  std::map<std::string, std::uint64_t> sums;
  for_each([&](const entry& held) {
    if (within == nullptr || (held.charged != nullptr && held.charged->is_within(*within))) {
      sums[(held.kind == owner_kind::external ? "external:" : "") + held.label.name()] += held.bytes;
    }
  });
  return largest_first(sums);
}

bytes_by_name ledger::by_budget() const {
  std::map<std::string, std::uint64_t> sums;
  for_each([&](const entry& held) {
    if (held.charged != nullptr) {
      sums[held.charged->name()] += held.bytes;
    }
  });
  return largest_first(sums);
}

} // namespace saeta
