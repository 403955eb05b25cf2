// The ledger: who holds which bytes of a context, by owner kind, by tag and by budget.
//
// @code
// ledger held;
// const ledger::entry entry = held.add(owner_kind::own, "orders", 4096, ctx->memory_budget().get());
// for (const auto& [tag, live] : held.by_tag()) {
//   std::cout << tag << ": " << live << '\n'; // orders: 4096
// }
// ledger::remove(entry); // once, when the memory is gone
// @endcode
//
// What      Sums are updated as entries are added and removed: one for each tag of a budget, descendants
//           included, and one for each budget. The cost of a read depends on the number of tags reported, not
//           on the number of live buffers.
// Order     Each read is a consistent snapshot.
// Thread    Any. Entries are spread over several short locks by the thread that adds them. Adding an entry
//           takes one lock; a read takes all of them.
// Bound     A bounded number of sums without bytes are kept for the next entry, so that a short-lived buffer
//           needs no lookup and no allocation. Kept sums never refer to a budget that is gone.
// Failure   `add` has no effect when it throws std::bad_alloc.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/observe/tag.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace SAETA_EXPORT saeta {

class budget;
struct tag_sum;

enum class owner_kind { own, external };

struct ledger_totals {
  std::uint64_t own = 0;      ///< bytes of live buffers from the context's resources
  std::uint64_t external = 0; ///< bytes of imported views
  std::uint64_t buffers = 0;  ///< live storages of both kinds

  friend bool operator==(const ledger_totals&, const ledger_totals&) = default;
};

/// Number of entries added since the ledger was made, removed ones included.
struct ledger_additions {
  std::uint64_t own = 0;
  std::uint64_t external = 0;
};

/// Bytes by name, largest first, ties in order of name.
using bytes_by_name = std::vector<std::pair<std::string, std::uint64_t>>;

class ledger {
public:
  struct shard; // ledger_shard.hpp
  /// The holder of the bytes keeps it to remove them later. Two words, so that it is returned in registers.
  class entry {
  public:
    entry() = default; ///< removing it has no effect

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
  /// Call it once for each entry. A default-made entry is ignored.
  static void remove(const entry& gone) noexcept;

  [[nodiscard]] ledger_totals totals() const;
  [[nodiscard]] ledger_additions additions() const;
  /// Live bytes by tag; imported views as "external:TAG".
  /// @param within  reports only what this budget and its descendants hold; null: everything.
  [[nodiscard]] bytes_by_name by_tag(const budget* within = nullptr) const;
  /// Live bytes of own buffers by the name of the charged budget.
  [[nodiscard]] bytes_by_name by_budget() const;

  struct shares {
    bytes_by_name own;
    bytes_by_name others;
  };
  /// Live bytes by tag: those of `asked` and its descendants, and those that others hold of `within`, which
  /// is `asked` itself or an ancestor.
  [[nodiscard]] shares split(const budget& charged, const budget& within) const;

private:
  friend struct ledger_probe; // tests/unit/observe
  class reading;

  std::unique_ptr<shard[]> shards_;
};

} // namespace saeta
