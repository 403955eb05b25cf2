// A fixture for columns in several pieces, each imported from a separate array.
#pragma once

#include "conformance/harness/arrow_test.hpp"

#include <cstdint>
#include <vector>

namespace saeta::conformance {

/// Rows [first, first + rows) of an array.
struct part {
  support::shared_array source;
  std::int64_t first = 0;
  std::int64_t rows = 0;
};

class pieces_test : public arrow_test {
protected:
  using arrow_test::imported;
  [[nodiscard]] std::vector<column> imported(const std::vector<part>& parts) const {
    std::vector<column> made;
    for (const part& each : parts) {
      made.push_back(imported(each.source).slice(each.first, each.rows));
    }
    return made;
  }

  /// Returns various pieces of a type: with no, few and many rows, with offsets, and with known and unknown
  /// null counts.
  static std::vector<part> parts_of(const data_type& type, support::nulls pattern) {
    const auto whole = [&](std::int64_t length, std::int64_t offset, support::nulls kind, bool known,
                           std::uint64_t seed) {
      return part{support::random_array(type, {length, offset, kind, known}, seed), 0, length};
    };
    std::vector<part> made{whole(65, 9, pattern, true, 1),
                           whole(0, 3, support::nulls::none, true, 2),
                           whole(64, 0, support::nulls::absent, true, 3),
                           whole(7, 1, pattern, false, 4),
                           whole(1, 0, pattern, true, 5),
                           whole(131, 3, pattern, false, 6)};
    made.back().first = 5;
    made.back().rows = 101;
    return made;
  }
};

} // namespace saeta::conformance
