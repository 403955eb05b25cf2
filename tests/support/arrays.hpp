// Random Arrow arrays for tests: in host memory, exported as C structs, compared row by row.
//
// Contents  `random_array` makes buffers with exactly the bytes that the rows need, so that a sanitizer
//           reports every access past them. Values and indices under a null are random, too.
// Owner     Structs made by `to_c` share ownership of the arrays and count their releases.
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
  absent, ///< no validity buffer
  none,   ///< a validity buffer without nulls
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
  std::int64_t null_count = 0;                   ///< for the C struct; -1: unknown
  std::vector<std::vector<std::byte>> buffers{}; ///< in Arrow's order; exported as null if empty
  std::shared_ptr<const plain_array> dictionary{};
  std::vector<std::shared_ptr<const plain_array>> children{};

  [[nodiscard]] bool valid(std::int64_t row) const;
  /// Counts the nulls in rows [first, first + rows).
  [[nodiscard]] std::int64_t nulls_in(std::int64_t first, std::int64_t rows) const;
};

using shared_array = std::shared_ptr<const plain_array>;

/// Makes a random array. The same seed gives the same array.
shared_array random_array(const data_type& type, const array_shape& shape, std::uint64_t seed);

/// Makes random dictionary indices with given dictionary values, which several arrays may share.
shared_array random_indices(const data_type& type, const array_shape& shape, shared_array dictionary,
                            std::uint64_t seed);

/// Every supported type with various parameters, including nested types and dictionaries of each index width.
const std::vector<data_type>& carried_types();

/// The types that a file can hold in several batches with different dictionaries: no dictionaries in
/// children.
const std::vector<data_type>& file_types();

/// Exports an array as a C struct, whose release callback increments `releases`.
arrow_array to_c(shared_array source, std::shared_ptr<std::atomic<int>> releases = nullptr);

/// Exports a record batch of the children: `length` rows from row `offset` of each.
arrow_array to_c_batch(std::vector<shared_array> children, std::int64_t length, std::int64_t offset = 0,
                       std::shared_ptr<std::atomic<int>> releases = nullptr);

/// Compares `seen` with rows [first, first + rows) of `expected`. For types without children and views it
/// also compares the values under nulls.
::testing::AssertionResult same_rows(const ArrowArray& seen, const plain_array& expected, std::int64_t first,
                                     std::int64_t rows);

/// Compares all rows.
inline ::testing::AssertionResult same_rows(const ArrowArray& seen, const plain_array& expected) {
  return same_rows(seen, expected, 0, expected.length);
}

} // namespace saeta::support
