// Checks the invariants of every context at the end of a test: its statistics agree with each other and with
// the live memory.
//
// Use       A fixture adds each context that it makes. `check` compares the budget with the ledger, by tag
//           and by budget, and checks the guard, the cache and the statistics of the stack. `check_gone`
//           expects that the context is destroyed and that its budget is not charged.
// Owner     Contexts are observed by weak pointers. Their budgets are kept alive, to detect remaining
//           charges.
// Thread    That of the test.
// Failure   An inconsistent number fails the test.
#pragma once

#include "saeta/memory/context.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace saeta::conformance {

/// Waits at most twenty seconds for a condition that another thread makes true. Returns whether it is true.
bool comes_true(const std::function<bool()>& condition);

class context_watch {
public:
  /// Adds a context and returns it.
  [[nodiscard]] std::shared_ptr<context> add(std::shared_ptr<context> made);
  /// Waits for the pending releases of the live contexts and checks their invariants.
  void check() const;
  /// Checks that all contexts are destroyed. Call it after the last user of each. Waits for releases on other
  /// threads.
  void check_gone() const;

private:
  struct entry {
    std::weak_ptr<context> made;
    std::shared_ptr<budget> limit;
    std::shared_ptr<budget> pinned;
  };
  std::vector<entry> entries_;
};

} // namespace saeta::conformance
