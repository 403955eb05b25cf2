// The ledger: who holds which bytes of a context, by owner kind, by tag and by budget. Counts are exact at any instant.
//
// Thread    Any. Entries are split up over several locks; totals take them all.
#pragma once

#include "saeta/observe/tag.hpp"

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace saeta {

class budget;

enum class owner_kind { own, external };

struct ledger_totals {
  std::uint64_t own = 0;      ///< bytes of live buffers from the context's resources
  std::uint64_t external = 0; ///< bytes of imported views
  std::uint64_t buffers = 0;  ///< live storages of both kinds
};

/// Bytes by name, largest first.
using bytes_by_name = std::vector<std::pair<std::string, std::uint64_t>>;

class ledger {
public:
  using entry_id = const void*;

  /// @param charged  the budget that holds the charge; null for external memory. Outlives the entry.
  void add(entry_id id, owner_kind kind, tag label, std::uint64_t bytes, const budget* charged);
  void remove(entry_id id) noexcept;

  [[nodiscard]] ledger_totals totals() const;
  /// Live bytes by tag; imported views as "external:TAG". @param within  only what this budget and its descendants hold;
  /// null: everything.
  [[nodiscard]] bytes_by_name by_tag(const budget* within = nullptr) const;
  /// Live bytes of own buffers by the name of the budget that holds the charge.
  [[nodiscard]] bytes_by_name by_budget() const;

private:
  struct entry {
    owner_kind kind;
    tag label;
    std::uint64_t bytes;
    const budget* charged;
  };
  struct alignas(64) shard {
    std::mutex mutex;
    std::unordered_map<entry_id, entry> live;
  };
  [[nodiscard]] shard& shard_of(entry_id id) const noexcept;
  /// Calls `visit` for every entry while all of them stand still.
  template <class Visit>
  void for_each(Visit visit) const;

  mutable std::array<shard, 16> shards_;
};

} // namespace saeta
