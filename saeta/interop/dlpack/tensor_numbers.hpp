// Columns and tables as the numbers of one tensor: which columns have the numbers, and the tensor's shape.
//
// What      A column of numbers has one dimension. A fixed-size list adds one dimension,
//           arrow.fixed_shape_tensor those of its shape, a struct of fields of one type the dimension of its
//           fields, and a table the dimension of its columns.
// Owner     A plain value that shares its columns. Only `gathered` copies numbers.
// Failure   exchange for types without a tensor, and for null values inside valid rows; type_mismatch for
//           columns of several types.
#pragma once

#include "saeta/column/table.hpp"
#include "saeta/interop/dlpack/dlpack.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace saeta {

/// Columns of the same number of rows whose numbers are contiguous. A table has one block per batch.
struct number_block {
  std::int64_t rows = 0;
  std::vector<column> columns; ///< of type number, bool8 or boolean
};

struct tensor_numbers {
  std::shared_ptr<context> ctx;
  data_type shown;                  ///< type of the tensor: a number or bool8
  std::vector<number_block> blocks; ///< blocks without rows are left out
  std::vector<std::int64_t>
      extents;                     ///< the first counts rows; of a table or a struct, the last counts columns
  std::vector<std::int64_t> order; ///< dimension i of the tensor is extents[order[i]]; empty: unchanged
  /// For a column: its own rows. Each has the same share of the block's numbers, and their nulls count.
  /// Absent for a table: the nulls of each of its columns count.
  std::optional<column> rows;
  std::int64_t numbers_a_row = 1;
  /// Set if the values were converted to `shown` in new memory: their type before the conversion.
  std::optional<data_type> converted;

  [[nodiscard]] bool empty() const noexcept { return blocks.empty(); }
  /// Nulls that an export must refuse or replace. Unknown null counts are counted on the device.
  [[nodiscard]] std::int64_t null_count() const;
  /// Number of values in the tensor.
  [[nodiscard]] std::int64_t size() const;
};

tensor_numbers numbers_of_column(const column& source, const dlpack_export& how);
tensor_numbers numbers_of_table(const table& source, const dlpack_export& how);

/// Where the numbers are, if the tensor can show them without a copy.
struct numbers_in_place {
  buffer first;                      ///< from the first number on
  std::vector<std::int64_t> strides; ///< in values, one for each of `extents`
};

/// Returns nullopt if bits must become bytes, if the columns are not equally spaced in one allocation or have
/// another type than the tensor, or if they are in another order than `wanted`.
std::optional<numbers_in_place> find_in_place(const tensor_numbers& of, tensor_order wanted);

/// Copies the numbers into one buffer, row-major, or column-major if `wanted` says so. `fill` replaces nulls.
/// This is one transfer if the numbers are contiguous, else one kernel per block.
/// @param only_mask  instead of numbers, writes 1 if a row is valid and 0 if it is null.
buffer gather_tensor(const tensor_numbers& from, tensor_order wanted, std::optional<std::uint64_t> fill,
                     bool only_mask);

/// Counts the nulls of `values` in valid rows of `rows`. Each row has the same number of values. The values
/// of a null row have no meaning.
std::int64_t nulls_in_valid_rows(const column& values, const column& rows);

/// Extents or strides in the order of the tensor's dimensions.
std::vector<std::int64_t> reorder(const std::vector<std::int64_t>& values,
                                  const std::vector<std::int64_t>& order);

/// Strides, in values, of extents without gaps. The last dimension varies fastest, or the first one if
/// `order` is tensor_order::column.
std::vector<std::int64_t> dense_strides(const std::vector<std::int64_t>& extents, tensor_order order);

} // namespace saeta
