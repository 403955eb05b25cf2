// Columns and tables as the numbers of one tensor: which columns have the numbers, and the tensor's shape.
//
// What      A column of numbers has one dimension. A fixed-size list adds one dimension,
//           arrow.fixed_shape_tensor those of its shape, a struct of fields of one type the dimension of its
//           fields, and a table the dimension of its columns.
// Owner     A plain value that shares its columns. Only `gathered` copies numbers.
// Failure   exchange for types without a tensor, and for null values inside valid rows; type_mismatch for
//           columns of several types.

#pragma once

#include "saeta/column/column.hpp"
#include "saeta/column/data_type.hpp"
#include "saeta/column/table.hpp"
#include "saeta/device/gather.hpp"
#include "saeta/interop/dlpack/abi.hpp"
#include "saeta/interop/dlpack/dlpack.hpp"
#include "saeta/interop/dlpack/types.hpp"
#include "saeta/memory/buffer.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace saeta {

/// The metadata of the canonical extension `arrow.fixed_shape_tensor`: JSON with the shape of a row's tensor.
///
/// Failure   error format (names what is wrong). Unknown keys are skipped.
/// Standard  arrow.apache.org/docs/format/CanonicalExtensions.html#fixed-shape-tensor
inline constexpr std::string_view fixed_shape_tensor = "arrow.fixed_shape_tensor";

struct tensor_metadata {
  std::vector<std::int64_t> shape; ///< in memory order: the last dimension varies fastest
  /// Dimension i of the tensor is dimension permutation[i] of `shape`. Always as long as `shape`.
  std::vector<std::int64_t> permutation;
};

/// @throws error format for text that is not such metadata, negative extents, and an invalid permutation.
tensor_metadata parse_tensor_metadata(std::string_view json);

// Where the values of a foreign tensor are. Its fields are checked before any of its addresses is used.
//
// Owner     Nothing is taken. The result is valid as long as the tensor is.
// Failure   format (a field that breaks the standard: names it and its numbers), exchange (a shape or type
//           that no column has).

/// A tensor whose fields have been checked.
struct foreign_values {
  const data_type* type = nullptr;       ///< never null after the check
  std::span<const std::int64_t> shape;   ///< the tensor's own
  std::span<const std::int64_t> strides; ///< in values; empty if the tensor names none
  strided_values found;                  ///< dimensions in the wanted order; contiguous ones are merged
  std::size_t bytes = 0;                 ///< of the values without gaps
  std::byte* first = nullptr;
  std::byte* lowest = nullptr;
  std::size_t reach = 0; ///< bytes from the lowest address to the end of the highest value
  tensor_device device;
  mutability access = mutability::writable;

  [[nodiscard]] bool strided() const {
    return found.dimensions > 1 || (found.dimensions == 1 && found.strides[0] != type->byte_width());
  }
};

/// The order in which the values of a tensor become contiguous.
enum class tensor_layout {
  rows,    ///< row after row, for one column
  columns, ///< column after column, for a table
};

foreign_values check_tensor(const DLTensor& tensor, mutability access, tensor_layout wanted);

/// Text such as "(2, 3)".
std::string numbers_text(std::span<const std::int64_t> numbers);

// Columns as the plain numbers of a tensor: the integers behind a type, and the values that replace nulls.
//
// Order     Kernels run on the context's work stream, between the waits and the records of a use token.
// Failure   type_mismatch and out_of_range for a replacement value that the type does not have,
//           budget_exceeded.

/// The column as `how` asks for it: the integers of a temporal type with `reinterpret`, the indices of a
/// dictionary or the numbers of symbols with `codes`, else the column itself. The result shares the memory,
/// unless `becomes_numbers` is true.
column numbers_of(const column& source, const dlpack_export& how);

/// Whether `numbers_of` copies the values: decimals to the type that `how` names, and numbers of runs to one
/// for each row.
bool becomes_numbers(const data_type& type, const dlpack_export& how) noexcept;

/// The type of the tensor over a column of numbers: the column's own type, or bool8 for booleans of one bit.
/// @throws error exchange for types without a tensor.
data_type number_type_of(const column& numbers);
/// The same for kernels. @throws error exchange for types other than numbers and bool8.
number_kind number_kind_of(const data_type& type);
/// The bytes of the rows of a fixed-width column; absent if there are none.
buffer row_values(const column& source);

/// The bytes of a number as a value of `type`, in the low bytes of the result. The type is an integer, a
/// float or bool8.
/// @throws error type_mismatch for a float that should be an integer, out_of_range naming the number.
std::uint64_t value_bits(const data_type& type, const tensor_fill& number);
/// The same for a quiet NaN. @throws error exchange unless the type is a float.
std::uint64_t nan_bits(const data_type& type);

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
