// DLPack: columns as tensors and tensors as columns, without a copy and in order.
//
// What      Tensors of numeric, bool8 and boolean columns, legacy (DLManagedTensor) and versioned (DLManagedTensorVersioned,
//           1.x): 1-D, and with more dimensions for fixed-size lists, arrow.fixed_shape_tensor, structs of fields of one type
//           and tables. Nulls are refused unless the caller says what stands for them.
// Owner     An exported tensor belongs to the consumer, who calls its deleter once, on any thread. An import takes the
//           tensor on success and leaves it with the caller on failure.
// Order     Export: the consumer's stream waits for our last write; the deleter puts one event over all work of the
//           context before any reuse (memory/export_hold.hpp). Import: the column's first use waits for the
//           producer's work on `ready`; the producer's deleter runs after our last use has finished.
// Failure   exchange (can't be carried: nulls, a type without a DLPack code, a copy that `copy_policy::never` forbids),
//           format (a tensor that breaks the standard: names the field and the numbers), invalid_argument (stream).
// Standard  DLPack 1.3, dmlc.github.io/dlpack, and the Python array API's __dlpack__.
#pragma once

#include "saeta/column/table.hpp"
#include "saeta/interop/copy_policy.hpp"
#include "saeta/interop/dlpack/types.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <variant>

extern "C" {
struct DLManagedTensor;
struct DLManagedTensorVersioned;
}

namespace saeta {

/// What a tensor shows where the column has nulls, which a tensor can't say.
enum class tensor_nulls {
  refuse, ///< error exchange where there are any
  nan,    ///< NaN, for floats
  fill,   ///< the value `dlpack_export::fill`
  masked, ///< whatever lies there: the caller exports is_valid() beside the values
  mask,   ///< no values but a tensor of bools: true where one is valid
};

/// A value of the column's type. Integers must be exact; a double is rounded to a narrower float.
using tensor_fill = std::variant<std::int64_t, std::uint64_t, double>;

/// How the rows and columns of a table lie in a tensor that is a copy, and which tensors need none.
enum class tensor_order {
  any,    ///< as it is where no copy is needed, else as `row`
  row,    ///< the values of a row side by side
  column, ///< the values of a column side by side; there may be space between the columns
};

/// What `__dlpack__(stream=)` means on the column's device: absent = the legacy default stream, 1 = legacy, 2 = per-thread,
/// -1 = no ordering wanted, above 2 a stream handle. 0 and other negatives are refused (ambiguous by the standard).
/// On the host it must be absent. For page-locked memory absent means that the CPU reads it, so the host waits.
struct dlpack_export {
  std::optional<std::int64_t> stream = std::nullopt;
  std::optional<tensor_device> target = std::nullopt; ///< where the consumer wants it; absent: where it is
  copy_policy copy = copy_policy::when_needed;
  tensor_nulls nulls = tensor_nulls::refuse; ///< nan and fill copy where there are nulls
  tensor_fill fill = std::int64_t{0};
  bool reinterpret = false; ///< dates, times, timestamps and durations as their integers
  bool codes = false;       ///< dictionaries as their indices
  /// Type of the tensor; absent: the type that all columns have. Another type is a copy: any float, rounded to the nearest, or an
  /// integer type that has all values of the columns' types.
  std::optional<data_type> type = std::nullopt;
  tensor_order order = tensor_order::any; ///< of tables
  bool owned = false; ///< nobody else has the memory of the source: handing it out counts as a copy
};

/// A byte_bool column: 1 where a row of `source` is valid, 0 where it is null. One kernel on the source's device; the mask that
/// belongs to an export of the column with tensor_nulls::masked.
column is_valid(const column& source);

/// Device of the tensor that an export without `target` gives: as the kind of the memory has it (device/memory_kind.hpp).
tensor_device dlpack_device(const column& source);

/// Never null; the deleter frees the struct. Flags: READ_ONLY unless the memory was copied, IS_COPIED when it was.
DLManagedTensorVersioned* export_dlpack_versioned(const column& source, const dlpack_export& how = {});
/// The same without flags: the legacy struct can't say read-only.
DLManagedTensor* export_dlpack(const column& source, const dlpack_export& how = {});

/// A tensor of rows and columns. Without a copy where the columns are equally spaced in one allocation, which strides can say;
/// else one kernel a batch gathers them.
/// @throws error type_mismatch where columns of several types are to become a tensor whose type nobody named, and for a type that
///         does not have all values.
DLManagedTensorVersioned* export_dlpack_versioned(const table& source, const dlpack_export& how = {});
DLManagedTensor* export_dlpack(const table& source, const dlpack_export& how = {});

tensor_device dlpack_device(const table& source);

/// A column of strings, binaries, lists or maps as two columns, which are tensors where their types are: row i has the values
/// [offsets[i], offsets[i + 1]). Nulls are not in them: is_valid() is.
struct offset_parts {
  column offsets; ///< int32 or int64, one more than there are rows
  column
      values; ///< uint8 for strings and binaries, else the child; all of them, so the offsets of a slice need not begin at 0
};

/// The same memory; where there are no rows and no offsets a new offset of 0.
/// @throws error exchange for other types, views included, whose bytes lie in several buffers.
offset_parts offsets_and_values(const column& source);

/// The stream to pass to a producer's `__dlpack__` for an import into `where`: absent on the host.
std::optional<std::int64_t> dlpack_import_stream(const context& ctx);

struct dlpack_import {
  /// Stream on which the producer ordered its work, as passed to its `__dlpack__`; absent: nothing is known, so a device
  /// import waits for all work of the context.
  std::optional<std::int64_t> ready = std::nullopt;
  copy_policy copy = copy_policy::when_needed; ///< `always` copies into the context's own memory
};

/// A tensor as a column in `ctx`: of one dimension a column of its numbers, of more a column of fixed-size lists, nested as
/// deeply as there are dimensions behind the first. A strided tensor is gathered by one kernel, a host tensor into a device
/// context is one transfer; `never` refuses both. kDLBool becomes byte_bool: a view keeps the bytes, of which any but 0 is true; a
/// copy has 0 and 1.
column import_dlpack(const std::shared_ptr<context>& ctx, DLManagedTensorVersioned* source,
                     const dlpack_import& how = {});
column import_dlpack(const std::shared_ptr<context>& ctx, DLManagedTensor* source,
                     const dlpack_import& how = {});

struct dlpack_table_import : dlpack_import {
  /// Names and types of the columns; absent: col_0, col_1 ... of the tensor's type.
  std::optional<schema> fields = std::nullopt;
  bool reinterpret =
      false; ///< integers for those of the same width that are signed where they are not, and the reverse
};

/// A tensor of two dimensions as a table of its columns. Columns whose values lie side by side are views, whatever is between
/// them; any other tensor is gathered by one kernel into memory in which they are equally spaced.
table import_dlpack_columns(const std::shared_ptr<context>& ctx, DLManagedTensorVersioned* source,
                            const dlpack_table_import& how = {});
table import_dlpack_columns(const std::shared_ptr<context>& ctx, DLManagedTensor* source,
                            const dlpack_table_import& how = {});

} // namespace saeta
