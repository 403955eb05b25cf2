// Seeded Arrow arrays for tests: made in plain memory, handed out as C structs, compared row by row.
//
// What      `random_array` fills every buffer of a type with exactly the bytes that the rows need, so that a
//           sanitizer sees an access past them. Values and indices under a null are random too.
// Owner     Structs made by `to_c` share the arrays and count their releases.
#pragma once

#include "saeta/column/data_type.hpp"
#include "saeta/interop/arrow/owned.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

namespace saeta::support {

enum class nulls {
  absent, ///< no validity at all
  none,   ///< a validity without a null
  some,
  all,
};

struct array_shape {
  std::int64_t length = 0;
  std::int64_t offset = 0;
  nulls pattern = nulls::some;
  bool count_known = true;
};

struct plain_array {
  data_type type;
  std::int64_t length = 0;
  std::int64_t offset = 0;
  std::int64_t null_count = 0;                   ///< as the struct says it: -1 for unknown
  std::vector<std::vector<std::byte>> buffers{}; ///< in Arrow's order; an empty one is handed out as null
  std::shared_ptr<const plain_array> dictionary{};
  std::vector<std::shared_ptr<const plain_array>> children{};

  [[nodiscard]] bool valid(std::int64_t row) const;
  /// Nulls among rows [first, first + rows), counted.
  [[nodiscard]] std::int64_t nulls_in(std::int64_t first, std::int64_t rows) const;
};

using shared_array = std::shared_ptr<const plain_array>;

/// The same seed gives the same array.
shared_array random_array(const data_type& type, const array_shape& shape, std::uint64_t seed);

/// The same with dictionary values that others share.
shared_array random_indices(const data_type& type, const array_shape& shape, shared_array dictionary,
                            std::uint64_t seed);

/// Every type, parameters varied, dictionaries of each index width and nested ones included.
const std::vector<data_type>& carried_types();

/// Types that a file can hold in several batches of random arrays: no dictionaries inside of other types.
const std::vector<data_type>& file_types();

/// A struct over the array; its release adds one to `releases`.
owned_array to_c(shared_array source, std::shared_ptr<std::atomic<int>> releases = nullptr);

/// A struct array (record batch) over the children; `length` rows from row `offset` of each.
owned_array to_c_batch(std::vector<shared_array> children, std::int64_t length, std::int64_t offset = 0,
                       std::shared_ptr<std::atomic<int>> releases = nullptr);

/// True when `seen` has exactly the rows [first, first + rows) of `expected`. Also compares the values under
/// nulls, for types without children and without views.
::testing::AssertionResult same_rows(const ArrowArray& seen, const plain_array& expected, std::int64_t first,
                                     std::int64_t rows);

/// All rows.
inline ::testing::AssertionResult same_rows(const ArrowArray& seen, const plain_array& expected) {
  return same_rows(seen, expected, 0, expected.length);
}

} // namespace saeta::support
