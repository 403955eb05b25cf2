// Columns and tables as the numbers of one tensor: in which columns the numbers lie, and which shape they have.
//
// What      A column of numbers has one dimension. A fixed-size list adds one, arrow.fixed_shape_tensor as many as it says, a
//           struct of fields of one type the dimension of its fields, a table the dimension of its columns.
// Owner     A plain value that shares its columns. Nothing is copied here.
// Failure   exchange for types without a tensor, and for nulls that no row has but a value inside of it; type_mismatch for
//           columns of several types.
#pragma once

#include "saeta/column/table.hpp"
#include "saeta/interop/dlpack/dlpack.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace saeta {

/// Numbers that follow one another in each of some columns; of a table one block a batch.
struct number_block {
  std::int64_t rows = 0;
  std::vector<column> columns; ///< of numbers, bool8 or boolean
};

struct tensor_numbers {
  std::shared_ptr<context> ctx;
  data_type shown;                  ///< of the tensor: a number or bool8
  std::vector<number_block> blocks; ///< blocks without rows are left out
  std::vector<std::int64_t>
      extents; ///< the first dimension counts rows; with `by_columns` the last one columns
  std::vector<std::int64_t> order; ///< dimension i of the tensor is extents[order[i]]; empty: as they are
  bool by_columns = false;
  /// Of a column: its own rows, which share the numbers of the block evenly and whose nulls count. Of a table nothing: the nulls
  /// of each of its columns count.
  std::optional<column> rows;
  std::int64_t numbers_a_row = 1;

  [[nodiscard]] bool empty() const noexcept { return blocks.empty(); }
  /// Nulls that somebody has to speak of, counted on the device where they are unknown.
  [[nodiscard]] std::int64_t null_count() const;
  /// Values of the tensor.
  [[nodiscard]] std::int64_t size() const;
};

tensor_numbers numbers_of_column(const column& source, const dlpack_export& how);
tensor_numbers numbers_of_table(const table& source, const dlpack_export& how);

/// Where the numbers lie if they can be seen as the tensor without a copy.
struct numbers_in_place {
  buffer first;                      ///< from the first number on
  std::vector<std::int64_t> strides; ///< in values, of `extents`
};

/// Nothing where bits have to become bytes, where columns are not equally spaced in one allocation or of another type than the
/// tensor, and where they lie in another order than `wanted`.
std::optional<numbers_in_place> find_in_place(const tensor_numbers& of, tensor_order wanted);

/// The numbers as one buffer, row-major or, where `wanted` says so, column-major, with `fill` in place of nulls; a transfer where
/// they lie side by side, else one kernel a block. @param only_mask  1 where a row is valid, 0 where it is null.
buffer gathered(const tensor_numbers& from, tensor_order wanted, std::optional<std::uint64_t> fill,
                bool only_mask);

/// How many nulls a column has in rows that are valid: `values` has as many values for each row of `rows`. What lies under a
/// null is nobody's value.
std::int64_t nulls_in_valid_rows(const column& values, const column& rows);

/// Extents or strides in the order of the tensor's dimensions.
std::vector<std::int64_t> ordered(const std::vector<std::int64_t>& values,
                                  const std::vector<std::int64_t>& order);

/// Strides in values of extents that lie without gaps, the last dimension densest, or for two dimensions the first one.
std::vector<std::int64_t> dense_strides(const std::vector<std::int64_t>& extents, tensor_order order);

} // namespace saeta
