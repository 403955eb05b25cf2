// What must hold of every context when a test ends: its numbers agree with each other and with what is alive.
//
// What      A fixture adds each context that it makes. `check` compares the budget with the ledger, by tag
//           and by budget, and asks the guard, the cache and the statistics of its stack; `check_gone`
//           expects that nothing is left of it.
// Owner     Contexts are watched, not kept. Their budgets are kept, so that leftover charges show.
// Thread    The test's own.
// Failure   A number that does not agree fails the test.
#pragma once

#include "saeta/memory/context.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace saeta::conformance {

/// Waits until it is true, for at most twenty seconds: another thread may be about to finish.
bool comes_true(const std::function<bool()>& condition);

class context_watch {
public:
  /// Returns the context, so that creating and adding it are one expression.
  [[nodiscard]] std::shared_ptr<context> add(std::shared_ptr<context> made);
  /// Waits for the pending releases of the contexts that are still there.
  void check() const;
  /// Called after the last user of every context. A release on another thread may take a little longer.
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
