// The ledger: who holds which bytes of a context, by owner kind, by tag and by budget.
//
// What      Sums are kept as entries come and go: for each tag of a budget, descendants included, and for each budget.
//           Reading them costs by the number of tags that are reported, not by the number of live buffers.
// Order     Every answer is of one moment.
// Thread    Any. Entries are split up over several short locks by the thread that adds them: an entry takes one of them, an
//           answer takes all.
// Bound     Some sums that hold nothing are kept for the next entry, so that a buffer that comes and goes looks up and
//           allocates nothing; how many is bounded, and they refer to no budget that may have gone.
// Failure   `add` has no effect when it throws std::bad_alloc.
#pragma once

#include "saeta/observe/tag.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace saeta {

class budget;
struct tag_sum;

enum class owner_kind { own, external };

struct ledger_totals {
  std::uint64_t own = 0;      ///< bytes of live buffers from the context's resources
  std::uint64_t external = 0; ///< bytes of imported views
  std::uint64_t buffers = 0;  ///< live storages of both kinds

  friend bool operator==(const ledger_totals&, const ledger_totals&) = default;
};

/// Entries added since the ledger was made, those that have gone included.
struct ledger_additions {
  std::uint64_t own = 0;
  std::uint64_t external = 0;
};

/// Bytes by name, largest first, equal ones by name.
using bytes_by_name = std::vector<std::pair<std::string, std::uint64_t>>;

class ledger {
public:
  struct shard; // ledger_shard.hpp
  /// What the holder of the bytes keeps, to remove them again. Two words, so that it is returned in registers.
  class entry {
  public:
    entry() = default; ///< of nothing

  private:
    friend class ledger;
    entry(tag_sum& sum, std::uint64_t bytes) : sum_(&sum), bytes_(bytes) {}

    tag_sum* sum_ = nullptr;
    std::uint64_t bytes_ = 0;
  };

  ledger();
  ledger(const ledger&) = delete;
  ledger& operator=(const ledger&) = delete;
  ~ledger();

  /// @param charged  the budget that holds the charge; null for external memory. Outlives the entry.
  [[nodiscard]] entry add(owner_kind kind, tag label, std::uint64_t bytes, const budget* charged);
  /// Once for each entry. No effect for one of nothing.
  static void remove(const entry& gone) noexcept;

  [[nodiscard]] ledger_totals totals() const;
  [[nodiscard]] ledger_additions additions() const;
  /// Live bytes by tag; imported views as "external:TAG". @param within  only what this budget and its descendants hold;
  /// null: everything.
  [[nodiscard]] bytes_by_name by_tag(const budget* within = nullptr) const;
  /// Live bytes of own buffers by the name of the budget that holds the charge.
  [[nodiscard]] bytes_by_name by_budget() const;

  struct shares {
    bytes_by_name own;
    bytes_by_name others;
  };
  /// Live bytes by tag of `asked` and its descendants, and of whoever else holds bytes of `within`, which is `asked` itself
  /// or an ancestor.
  [[nodiscard]] shares split(const budget& asked, const budget& within) const;

private:
  friend struct ledger_probe; // tests/unit/observe
  class reading;

  std::unique_ptr<shard[]> shards_;
};

} // namespace saeta
