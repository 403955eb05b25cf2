// Common helpers of the tests about dictionaries in files.
#pragma once

#include "ipc_test.hpp"

#include <string_view>
#include <vector>

namespace saeta::ipc {

class dictionary_fixture : public ipc_test {
protected:
  /// Makes a table with the column "words"; each array is a batch.
  [[nodiscard]] table table_of(const std::vector<support::shared_array>& pieces) const {
    std::vector<std::vector<support::shared_array>> batches;
    for (const auto& piece : pieces) {
      batches.push_back({piece});
    }
    return support::table_of(ctx(), {{{"words", pieces.front()->type, true, {}}}, {}}, batches);
  }
  static std::size_t occurrences(std::string_view text, std::string_view word) {
    std::size_t count = 0;
    for (auto at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
      ++count;
    }
    return count;
  }
};

} // namespace saeta::ipc
