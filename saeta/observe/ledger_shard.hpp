// A part of the ledger: the entries that some threads have added, as sums under one lock.
//
// What      An entry counts in the sum of its tag at the charged budget, at each ancestor of that budget, and
//           at "everything". Each sum links to the one above it, so adding and removing only look up the
//           lowest.
// Idle      A sum without entries is kept until more than `most_idle` sums of a shard are idle. Then all idle
//           sums are dropped at once, so that no sum loses the one above it. Budgets are told apart by
//           serial, which is never reused: the sum of a budget that is gone is never found, and `account::of`
//           is read only while entries keep the budget alive.
// Thread    Only the thread that holds the lock.
#pragma once

#include "saeta/base/spin_lock.hpp"
#include "saeta/budget/budget.hpp"
#include "saeta/observe/ledger.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <unordered_map>

namespace saeta {

struct tag_key {
  std::uint64_t of = 0; ///< serial of the budget; 0: everything
  tag label;
  owner_kind kind = owner_kind::own;

  friend bool operator==(const tag_key&, const tag_key&) = default;

  [[nodiscard]] std::size_t hash() const noexcept {
    constexpr std::size_t spread = 0x9E3779B97F4A7C15; // mixes small serials and evenly spaced addresses
    const auto name = reinterpret_cast<std::uintptr_t>(&label.name());
    return ((of * spread ^ name) + static_cast<std::size_t>(kind)) * spread >> 32;
  }
};

struct account;

/// The sum of the entries of one tag at one budget, descendants included.
struct SAETA_LOCAL tag_sum {
  tag_key key;
  account* in = nullptr;
  ledger::shard* part = nullptr;
  tag_sum* above = nullptr; ///< same tag, budget above
  tag_sum* next = nullptr;  ///< another tag, same budget
  tag_sum* previous = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t buffers = 0;
};

/// The sums of one budget, or those of the whole ledger.
struct account {
  const budget* of = nullptr; ///< alive while `charged_buffers` is not 0
  tag_sum* first = nullptr;
  std::uint64_t charged_bytes = 0; ///< charged to this budget itself
  std::uint64_t charged_buffers = 0;
};

struct alignas(128) ledger::shard {
  static constexpr std::size_t count = 32;
  static constexpr std::size_t most_idle = 64;

  /// Returns the lowest sum that the entry counts in.
  tag_sum& add(owner_kind kind, tag label, std::uint64_t bytes, const budget* charged) {
    tag_sum& own = sum_of({charged == nullptr ? 0 : charged->serial(), label, kind}, charged);
    for (tag_sum* sum = &own; sum != nullptr; sum = sum->above) {
      idle -= static_cast<std::size_t>(sum->buffers == 0);
      sum->bytes += bytes;
      ++sum->buffers;
    }
    own.in->charged_bytes += bytes;
    ++own.in->charged_buffers;
    (kind == owner_kind::own ? totals.own : totals.external) += bytes;
    ++totals.buffers;
    ++(kind == owner_kind::own ? added.own : added.external);
    return own;
  }

  void remove(tag_sum& own, std::uint64_t bytes) noexcept {
    account& charged = *own.in;
    charged.charged_bytes -= bytes;
    --charged.charged_buffers;
    (own.key.kind == owner_kind::own ? totals.own : totals.external) -= bytes;
    --totals.buffers;
    for (tag_sum* sum = &own; sum != nullptr; sum = sum->above) {
      sum->bytes -= bytes;
      --sum->buffers;
      idle += static_cast<std::size_t>(sum->buffers == 0);
    }
    if (idle > most_idle) {
      forget_idle();
    }
  }

  spin_lock lock;
  ledger_totals totals;
  ledger_additions added;
  std::size_t idle = 0; ///< sums without entries
  struct hash_of_key {
    std::size_t operator()(const tag_key& key) const noexcept { return key.hash(); }
  };
  std::unordered_map<tag_key, tag_sum, hash_of_key> sums;
  std::unordered_map<std::uint64_t, account> accounts; ///< by the serial of the budget
  std::uint64_t visits = 0;                            ///< sums and accounts that reads have visited

private:
  tag_sum& sum_of(const tag_key& key, const budget* charged) {
    tag_sum*& last = recent_[key.hash() % recent_.size()];
    if (last == nullptr || last->key != key) {
      try {
        last = &find_or_make(key, charged);
      } catch (...) {
        forget_idle();
        throw;
      }
    }
    return *last;
  }

  tag_sum& find_or_make(const tag_key& key, const budget* charged) {
    if (const auto known = sums.find(key); known != sums.end()) {
      return known->second;
    }
    tag_sum* above = nullptr;
    if (charged != nullptr) {
      const budget* const parent = charged->parent().get();
      above = &find_or_make({parent == nullptr ? 0 : parent->serial(), key.label, key.kind}, parent);
    }
    account& in = accounts[key.of];
    in.of = charged;
    tag_sum& result = sums[key];
    ++idle;
    result = {.key = key, .in = &in, .part = this, .above = above, .next = in.first};
    if (in.first != nullptr) {
      in.first->previous = &result;
    }
    in.first = &result;
    return result;
  }

  void forget_idle() noexcept {
    recent_ = {};
    for (auto sum = sums.begin(); sum != sums.end();) {
      if (sum->second.buffers == 0) {
        unlink(sum->second);
        sum = sums.erase(sum);
      } else {
        ++sum;
      }
    }
    std::erase_if(accounts, [](const auto& account) { return account.second.first == nullptr; });
    idle = 0;
  }

  static void unlink(const tag_sum& gone) noexcept {
    (gone.previous != nullptr ? gone.previous->next : gone.in->first) = gone.next;
    if (gone.next != nullptr) {
      gone.next->previous = gone.previous;
    }
  }

  std::array<tag_sum*, 4> recent_{};
};

} // namespace saeta
