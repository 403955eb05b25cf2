// The ledger: who holds which bytes of a context, by owner kind and by tag. Counts are exact at any instant.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace saeta {

enum class owner_kind { own, external };

struct ledger_totals {
  std::uint64_t own = 0;      ///< bytes of live buffers from the context's resources
  std::uint64_t external = 0; ///< bytes of imported views
  std::uint64_t buffers = 0;  ///< live storages of both kinds
};

class ledger {
public:
  using entry_id = const void*;

  void add(entry_id id, owner_kind kind, std::string tag, std::uint64_t bytes);
  void remove(entry_id id) noexcept;

  [[nodiscard]] ledger_totals totals() const;
  /// Live bytes by tag, largest first; imported views as "external:TAG".
  [[nodiscard]] std::vector<std::pair<std::string, std::uint64_t>> by_tag() const;

private:
  struct entry {
    owner_kind kind;
    std::string tag;
    std::uint64_t bytes;
  };

  mutable std::mutex mutex_;
  std::unordered_map<entry_id, entry> live_;
};

} // namespace saeta
