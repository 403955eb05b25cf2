#include "saeta/observe/ledger.hpp"

#include "saeta/base/thread_number.hpp"
#include "saeta/observe/ledger_shard.hpp"

#include <algorithm>
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

/// A consistent view of all shards: locks them until it is destroyed.
class SAETA_LOCAL ledger::reading {
public:
  explicit reading(const ledger& of) : shards_(of.shards_.get()) {
    for_each([](shard& part) { part.lock.lock(); });
  }
  reading(const reading&) = delete;
  reading& operator=(const reading&) = delete;
  ~reading() {
    for_each([](shard& part) { part.lock.unlock(); });
  }

  /// @param within  null: everything
  [[nodiscard]] sums_by_name by_tag(const budget* within) const {
    sums_by_name sums;
    for_each([&](shard& part) {
      const auto entry = part.accounts.find(within == nullptr ? 0 : within->serial());
      const tag_sum* held = entry == part.accounts.end() ? nullptr : entry->second.first;
      for (; held != nullptr; held = held->next) {
        ++part.visits;
        if (held->buffers != 0) {
          const tag_key& key = held->key;
          sums[(key.kind == owner_kind::external ? "external:" : "") + key.label.name()] += held->bytes;
        }
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
};

ledger::ledger() : shards_(std::make_unique<shard[]>(shard::count)) {}

ledger::~ledger() = default;

ledger::entry ledger::add(owner_kind kind, tag label, std::uint64_t bytes, const budget* charged) {
  shard& mine = shards_[thread_number() % shard::count];
  const std::lock_guard hold(mine.lock);
  return {mine.add(kind, label, bytes, charged), bytes};
}

void ledger::remove(const entry& gone) noexcept {
  if (gone.sum_ != nullptr) {
    shard& part = *gone.sum_->part;
    const std::lock_guard hold(part.lock);
    part.remove(*gone.sum_, gone.bytes_);
  }
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

ledger_additions ledger::additions() const {
  ledger_additions sum;
  reading(*this).for_each([&](const shard& part) {
    sum.own += part.added.own;
    sum.external += part.added.external;
  });
  return sum;
}

bytes_by_name ledger::by_tag(const budget* within) const {
  return largest_first(reading(*this).by_tag(within));
}

bytes_by_name ledger::by_budget() const {
  sums_by_name sums;
  reading(*this).for_each([&](shard& part) {
    for (const auto& [serial, held] : part.accounts) {
      ++part.visits;
      if (held.of != nullptr && held.charged_buffers != 0) {
        sums[held.of->name()] += held.charged_bytes;
      }
    }
  });
  return largest_first(sums);
}

ledger::shares ledger::split(const budget& charged, const budget& within) const {
  sums_by_name own;
  sums_by_name others;
  {
    const reading now(*this);
    own = now.by_tag(&charged);
    if (&charged != &within) {
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
