// A part of the ledger: the entries of some ids under one lock, with their sums.
//
// What      An entry counts in the sum of its tag at the budget that was charged, at each ancestor of that budget, and at
//           `null`, which stands for everything. A sum refers to the one above it, so that removing an entry looks nothing
//           up. Sums and accounts without an entry are dropped at once: their budget may be destroyed next.
// Thread    Whoever holds the mutex.
#pragma once

#include "saeta/budget/budget.hpp"
#include "saeta/observe/ledger.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace saeta {

/// A map that keeps some of the nodes it no longer needs, so that elements that come and go in turn allocate nothing.
template <class Key, class Value, class Hash = std::hash<Key>>
class recycling_map {
public:
  recycling_map() { spare_.reserve(most_spare); }

  /// The value of the key, and whether it is a new one.
  std::pair<Value*, bool> find_or_make(const Key& key) {
    if (Value* const known = find(key)) {
      return {known, false};
    }
    if (spare_.empty()) {
      return {&map_[key], true};
    }
    node reused = std::move(spare_.back());
    spare_.pop_back();
    reused.key() = key;
    reused.mapped() = Value{};
    return {&map_.insert(std::move(reused)).position->second, true};
  }
  [[nodiscard]] Value* find(const Key& key) noexcept {
    const auto found = map_.find(key);
    return found == map_.end() ? nullptr : &found->second;
  }
  void erase(const Key& key) noexcept {
    node gone = map_.extract(key);
    if (!gone.empty() && spare_.size() < most_spare) {
      spare_.push_back(std::move(gone));
    }
  }
  template <class Unwanted>
  void erase_if(Unwanted unwanted) noexcept {
    std::erase_if(map_, [&](auto& element) { return unwanted(element.second); });
  }
  [[nodiscard]] auto begin() const noexcept { return map_.begin(); }
  [[nodiscard]] auto end() const noexcept { return map_.end(); }
  [[nodiscard]] std::size_t size() const noexcept { return map_.size(); }

private:
  using node = typename std::unordered_map<Key, Value, Hash>::node_type;
  static constexpr std::size_t most_spare = 64;

  std::unordered_map<Key, Value, Hash> map_;
  std::vector<node> spare_;
};

struct tag_key {
  const budget* of = nullptr;
  tag label;
  owner_kind kind = owner_kind::own;

  friend bool operator==(const tag_key&, const tag_key&) = default;

  struct hash {
    std::size_t operator()(const tag_key& key) const noexcept {
      const std::hash<const void*> of_address;
      constexpr std::size_t spread = 0x9E3779B97F4A7C15; // budgets and names lie at similar distances
      return (of_address(key.of) * spread ^ of_address(&key.label.name())) +
             static_cast<std::size_t>(key.kind);
    }
  };
};

struct account;

/// What the entries of one tag hold of one budget, descendants included.
struct tag_sum {
  tag_key key;
  account* in = nullptr;
  tag_sum* above = nullptr; ///< of the same tag at the budget above
  tag_sum* next = nullptr;  ///< of another tag at the same budget
  tag_sum* previous = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t buffers = 0;
};

/// A budget, or everything.
struct account {
  tag_sum* first = nullptr;
  std::uint64_t charged_bytes = 0; ///< to this budget itself
  std::uint64_t charged_buffers = 0;
};

struct alignas(64) ledger::shard {
  static constexpr std::size_t count = 32;
  struct entry {
    tag_sum* sum = nullptr;
    std::uint64_t bytes = 0;
  };

  static shard& of(shard* all, entry_id id) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(id);
    return all[(address / 64 ^ address / 4096) % count];
  }

  void add(entry_id id, const tag_key& key, std::uint64_t bytes) {
    const auto [made, is_new] = live.find_or_make(id);
    if (!is_new) {
      return;
    }
    try {
      *made = {&sum_of(key), bytes};
    } catch (...) {
      live.erase(id);
      forget_unused();
      throw;
    }
    for (tag_sum* sum = made->sum; sum != nullptr; sum = sum->above) {
      sum->bytes += bytes;
      ++sum->buffers;
    }
    made->sum->in->charged_bytes += bytes;
    ++made->sum->in->charged_buffers;
    (key.kind == owner_kind::own ? totals.own : totals.external) += bytes;
    ++totals.buffers;
  }

  void remove(entry_id id) noexcept {
    const entry* const found = live.find(id);
    if (found == nullptr) {
      return;
    }
    const entry gone = *found;
    live.erase(id);
    gone.sum->in->charged_bytes -= gone.bytes;
    --gone.sum->in->charged_buffers;
    (gone.sum->key.kind == owner_kind::own ? totals.own : totals.external) -= gone.bytes;
    --totals.buffers;
    for (tag_sum* sum = gone.sum; sum != nullptr;) {
      tag_sum* const above = sum->above;
      sum->bytes -= gone.bytes;
      if (--sum->buffers == 0) {
        drop(*sum);
      }
      sum = above;
    }
  }

  std::mutex mutex;
  ledger_totals totals;
  recycling_map<entry_id, entry> live;
  recycling_map<const budget*, account> accounts;
  recycling_map<tag_key, tag_sum, tag_key::hash> sums;
  std::uint64_t visits = 0; ///< sums and accounts that answers have looked at

private:
  tag_sum& sum_of(const tag_key& key) {
    const auto [found, is_new] = sums.find_or_make(key);
    if (is_new) {
      found->key = key;
      account& mine = *accounts.find_or_make(key.of).first;
      found->in = &mine;
      found->next = mine.first;
      if (mine.first != nullptr) {
        mine.first->previous = found;
      }
      mine.first = found;
      found->above = key.of == nullptr ? nullptr : &sum_of({key.of->parent().get(), key.label, key.kind});
    }
    return *found;
  }

  void unlink(const tag_sum& gone) noexcept {
    (gone.previous != nullptr ? gone.previous->next : gone.in->first) = gone.next;
    if (gone.next != nullptr) {
      gone.next->previous = gone.previous;
    }
  }

  void drop(const tag_sum& gone) noexcept {
    const tag_key key = gone.key;
    unlink(gone);
    if (gone.in->first == nullptr) {
      accounts.erase(key.of);
    }
    sums.erase(key);
  }

  /// After an exception: what was made for an entry that did not come.
  void forget_unused() noexcept {
    sums.erase_if([&](const tag_sum& sum) {
      if (sum.buffers == 0 && sum.in != nullptr) {
        unlink(sum);
      }
      return sum.buffers == 0;
    });
    accounts.erase_if([](const account& of) { return of.first == nullptr; });
  }
};

} // namespace saeta
