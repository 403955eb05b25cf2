// The dictionaries of an import of many batches.
#pragma once

#include "saeta/interop/arrow/import.hpp"

#include <memory>
#include <utility>

namespace saeta {

/// A cached dictionary keeps its batch alive, so the cache holds only the dictionaries of the previous batch.
class rolling_dictionaries {
public:
  [[nodiscard]] dictionary_cache& dictionaries() noexcept { return known_; }

  void roll_to(const placed_batch& placed) {
    dictionary_cache fresh;
    for (std::size_t i = 0; i < placed.view.arrays.size(); ++i) {
      remember(placed.view.arrays[i], placed.columns.columns[i], placed.view.keepalive, fresh);
    }
    known_ = std::move(fresh);
  }

private:
  /// Remembers the dictionaries of an array, of its children and of its dictionary.
  void remember(const host_array& seen, const column& made, const std::shared_ptr<void>& source,
                dictionary_cache& known) const {
    for (std::size_t i = 0; i < seen.children.size(); ++i) {
      remember(seen.children[i], made.children()[i], source, known);
    }
    if (seen.dictionary == nullptr) {
      return;
    }
    if (made.dictionary() == nullptr) { // converted to symbols
      known.remember(*seen.dictionary, known_.find_symbols(*seen.dictionary), source);
    } else {
      known.remember(*seen.dictionary, std::make_shared<const column>(*made.dictionary()), source);
      remember(*seen.dictionary, *made.dictionary(), source, known);
    }
  }

  dictionary_cache known_;
};

} // namespace saeta
