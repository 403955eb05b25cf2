#include "saeta/observe/ledger.hpp"

#include "saeta/budget/budget.hpp"
#include "saeta/observe/detail/ledger_shard.hpp"

#include <algorithm>
#include <array>
#include <map>

namespace saeta {
namespace {

using sums_by_name = std::map<std::string, std::uint64_t>;

bytes_by_name largest_first(const sums_by_name& sums) {
  bytes_by_name sorted(sums.begin(), sums.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return sorted;
}

} // namespace

/// All shards at one moment: locked until the reading ends.
class ledger::reading {
public:
  explicit reading(const ledger& of) : shards_(of.shards_.get()) {
    for (std::size_t i = 0; i < shard::count; ++i) {
      locks_[i] = std::unique_lock(shards_[i].mutex);
    }
  }

  [[nodiscard]] sums_by_name by_tag(const budget* within) const {
    sums_by_name sums;
    for_each([&](shard& part) {
      const account* const found = part.accounts.find(within);
      for (const tag_sum* held = found == nullptr ? nullptr : found->first; held != nullptr;
           held = held->next) {
        ++part.visits;
        const tag_key& key = held->key;
        sums[(key.kind == owner_kind::external ? "external:" : "") + key.label.name()] += held->bytes;
      }
    });
    return sums;
  }
  template <class Visit>
  void for_each(Visit visit) const {
    for (std::size_t i = 0; i < shard::count; ++i) {
      visit(shards_[i]);
    }
  }

private:
  shard* shards_;
  std::array<std::unique_lock<std::mutex>, shard::count> locks_;
};

ledger::ledger() : shards_(std::make_unique<shard[]>(shard::count)) {}

ledger::~ledger() = default;

void ledger::add(entry_id id, owner_kind kind, tag label, std::uint64_t bytes, const budget* charged) {
  shard& part = shard::of(shards_.get(), id);
  const std::lock_guard lock(part.mutex);
  part.add(id, {charged, label, kind}, bytes);
}

void ledger::remove(entry_id id) noexcept {
  shard& part = shard::of(shards_.get(), id);
  const std::lock_guard lock(part.mutex);
  part.remove(id);
}

ledger_totals ledger::totals() const {
  ledger_totals sum;
  reading(*this).for_each([&](const shard& part) {
    sum.own += part.totals.own;
    sum.external += part.totals.external;
    sum.buffers += part.totals.buffers;
  });
  return sum;
}

bytes_by_name ledger::by_tag(const budget* within) const {
  return largest_first(reading(*this).by_tag(within));
}

bytes_by_name ledger::by_budget() const {
  sums_by_name sums;
  reading(*this).for_each([&](shard& part) {
    for (const auto& [of, held] : part.accounts) {
      ++part.visits;
      if (of != nullptr && held.charged_buffers != 0) {
        sums[of->name()] += held.charged_bytes;
      }
    }
  });
  return largest_first(sums);
}

ledger::shares ledger::split(const budget& asked, const budget& within) const {
  sums_by_name own;
  sums_by_name others;
  {
    const reading now(*this);
    own = now.by_tag(&asked);
    if (&asked != &within) {
      others = now.by_tag(&within);
    }
  }
  for (const auto& [name, bytes] : own) {
    if (const auto all = others.find(name); all != others.end() && (all->second -= bytes) == 0) {
      others.erase(all);
    }
  }
  return {largest_first(own), largest_first(others)};
}

} // namespace saeta
