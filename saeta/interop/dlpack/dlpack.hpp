// DLPack: columns as tensors and tensors as columns, without a copy and in order.
//
// What      Tensors of numeric, bool8 and boolean columns, legacy (DLManagedTensor) and versioned
//           (DLManagedTensorVersioned, 1.x). They have one dimension, and more for fixed-size lists,
//           arrow.fixed_shape_tensor, structs whose fields have one type, and tables. Nulls are refused
//           unless the caller says what replaces them.
// Owner     An export returns the owner of a tensor, whose deleter is called once, on any thread. An import
//           takes the tensor on success and leaves it with the caller on failure.
// Order     Export: the consumer's stream waits for our last write. After the deleter, any reuse of the
//           memory waits for all work of the device (memory/export_hold.hpp). Import: the column's first use
//           waits for the producer's work on `ready`. The producer's deleter runs after our last use has
//           finished.
// Failure   exchange (nulls, a type without a DLPack code, a copy that `copy_policy::never` forbids), format
//           (a tensor that breaks the standard: names the field and the numbers), invalid_argument (stream).
// Standard  DLPack 1.3, dmlc.github.io/dlpack, and the Python array API's __dlpack__.
//
// @code
// dlpack_tensor tensor = export_dlpack(price);                      // a view: the column's memory stays
// const column again = import_dlpack(ctx, std::move(tensor));       // owned by the column on success
// DLManagedTensorVersioned* for_c = export_dlpack(price).release(); // the consumer calls the deleter
// const column taken = import_dlpack(ctx, dlpack_tensor(for_c));
// @endcode
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/column/table.hpp"
#include "saeta/interop/dlpack/types.hpp"
#include "saeta/interop/options.hpp"
#include "saeta/memory/context.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>

extern "C" {
struct DLManagedTensor;
struct DLManagedTensorVersioned;
}

namespace SAETA_EXPORT saeta {

/// Calls the deleter of a tensor, if it has one.
struct dlpack_deleter {
  void operator()(DLManagedTensorVersioned* tensor) const noexcept;
  void operator()(DLManagedTensor* tensor) const noexcept;
};
/// The owner of a tensor of DLPack 1.x, ours or another library's. `release` gives it up to a C consumer.
using dlpack_tensor = std::unique_ptr<DLManagedTensorVersioned, dlpack_deleter>;
/// The owner of a tensor in the struct that DLPack had before 1.0.
using dlpack_legacy_tensor = std::unique_ptr<DLManagedTensor, dlpack_deleter>;

/// What a tensor shows for nulls of the column, which a tensor can't express.
enum class tensor_nulls {
  refuse, ///< error exchange if there are any
  nan,    ///< NaN, for floats
  fill,   ///< the value `dlpack_export::fill`
  masked, ///< the bytes under the null; the caller exports is_valid() beside the values
  mask,   ///< a tensor of bools instead of the values: true if valid
};

/// A value of the column's type. Integers must be exact; a double is rounded to a narrower float.
using tensor_fill = std::variant<std::int64_t, std::uint64_t, double>;

/// How a tensor that is a copy of a table is laid out, which also decides whether a copy is needed.
enum class tensor_order {
  any,    ///< unchanged if no copy is needed, else as `row`
  row,    ///< the values of a row are contiguous
  column, ///< the values of a column are contiguous; there may be space between the columns
};

/// `stream` is the argument of `__dlpack__(stream=)`. On a device, absent and 1 mean the legacy default
/// stream, 2 the per-thread default stream, -1 no ordering, and a number above 2 is a stream handle. 0 and
/// other negative numbers are refused (the standard calls 0 ambiguous). On the host the stream must be
/// absent. For page-locked memory an absent stream means that the CPU reads it, so the host waits.
struct dlpack_export {
  std::optional<std::int64_t> stream = std::nullopt;
  std::optional<tensor_device> target = std::nullopt; ///< wanted device; absent: the column's own
  copy_policy copy = copy_policy::when_needed;
  tensor_nulls nulls = tensor_nulls::refuse; ///< nan and fill copy if there are nulls
  tensor_fill fill = std::int64_t{0};
  bool reinterpret = false; ///< export dates, times, timestamps and durations as their integers
  /// Export dictionaries as their indices, symbols as their numbers. The index of a null value is a null.
  bool codes = false;
  /// Type of the tensor; absent: the type that all columns have. Another type needs a copy. It is any float
  /// type (values are rounded to the nearest), or an integer type that has all values of the columns' types.
  /// Decimals need one. They become integers only if they have no fraction, else the error is out_of_range.
  std::optional<data_type> type = std::nullopt;
  tensor_order order = tensor_order::any; ///< tables only
  bool owned = false; ///< the source's memory has no other user: its hand-over counts as a copy
};

/// A byte_bool column: 1 if a row of `source` is valid, 0 if it is null (compute/nulls.hpp), made on
/// the source's device. It is the mask for an export of the column with tensor_nulls::masked.
[[nodiscard]] column is_valid(const column& source);

/// Device of the tensor from an export without `target`. It follows from the kind of the memory
/// (device/device_id.hpp).
[[nodiscard]] tensor_device dlpack_device(const column& source);

/// Exports the column. The result is never null. Flags: READ_ONLY unless the memory was copied, IS_COPIED if
/// it was.
[[nodiscard]] dlpack_tensor export_dlpack(const column& source, const dlpack_export& how = {});
/// The same without flags: the legacy struct can't express read-only.
[[nodiscard]] dlpack_legacy_tensor export_dlpack_legacy(const column& source, const dlpack_export& how = {});

/// Exports a tensor of rows and columns. No copy is needed if the columns are equally spaced in one
/// allocation, which strides can express. Otherwise one kernel per batch gathers them.
/// @throws error type_mismatch if the columns have several types and the caller named none, and for a type
///         that does not have all values.
[[nodiscard]] dlpack_tensor export_dlpack(const table& source, const dlpack_export& how = {});
[[nodiscard]] dlpack_legacy_tensor export_dlpack_legacy(const table& source, const dlpack_export& how = {});

[[nodiscard]] tensor_device dlpack_device(const table& source);

/// A column of strings, binaries, lists or maps as two columns, each exportable as a tensor if its type is.
/// Row i has the values [offsets[i], offsets[i + 1]). The nulls of the rows are not included: use is_valid().
struct offset_parts {
  column offsets; ///< int32 or int64, one more than there are rows
  /// uint8 for strings and binaries, else the child. All values are included, so the offsets of a slice need
  /// not begin at 0.
  column values;
};

/// Shares the memory of the source. If there are no rows and no offsets, a new offset of 0 is allocated.
/// @throws error exchange for other types, also for views, whose bytes are in several buffers.
[[nodiscard]] offset_parts offsets_and_values(const column& source);

/// The stream to pass to a producer's `__dlpack__` for an import into `ctx`; absent on the host.
[[nodiscard]] std::optional<std::int64_t> dlpack_import_stream(const context& ctx);

struct dlpack_import {
  /// Stream on which the producer ordered its work, as passed to its `__dlpack__`. If it is absent, nothing
  /// is known, so a device import waits for all work of the device.
  std::optional<std::int64_t> ready = std::nullopt;
  copy_policy copy = copy_policy::when_needed; ///< `always` copies into the context's own memory
};

/// Imports a tensor as a column of `ctx`. A tensor of one dimension becomes a column of its numbers. A tensor
/// of more becomes fixed-size lists, with one level of nesting for each dimension after the first. One kernel
/// gathers a strided tensor. A host tensor enters a device context by one transfer. `never` refuses both.
/// kDLBool becomes byte_bool: a view keeps the bytes, of which any nonzero one is true; a copy has 0 and 1.
/// The deleter is called after the last use.
[[nodiscard]] column import_dlpack(const std::shared_ptr<context>& ctx, dlpack_tensor&& source,
                                   const dlpack_import& how = {});
[[nodiscard]] column import_dlpack(const std::shared_ptr<context>& ctx, dlpack_legacy_tensor&& source,
                                   const dlpack_import& how = {});
/// The same for a tensor that stays the caller's, whose deleter is never called.
/// @param keepalive  keeps the tensor's memory, and is dropped after the last use. The struct may end with
///                   the call.
[[nodiscard]] column import_dlpack(const std::shared_ptr<context>& ctx,
                                   const DLManagedTensorVersioned& source,
                                   const std::shared_ptr<void>& keepalive, const dlpack_import& how = {});
[[nodiscard]] column import_dlpack(const std::shared_ptr<context>& ctx, const DLManagedTensor& source,
                                   const std::shared_ptr<void>& keepalive, const dlpack_import& how = {});

struct dlpack_table_import : dlpack_import {
  /// Names and types of the columns. If absent: col_0, col_1 ... of the tensor's type.
  std::optional<schema> fields = std::nullopt;
  /// Allows fields with integers of the same width as the tensor's but the other signedness.
  bool reinterpret = false;
};

/// Imports a tensor of two dimensions as a table of its columns. Columns whose values are contiguous become
/// views, whatever is between the columns. One kernel gathers any other tensor into memory in which the
/// columns are equally spaced.
[[nodiscard]] table import_dlpack_columns(const std::shared_ptr<context>& ctx, dlpack_tensor&& source,
                                          const dlpack_table_import& how = {});
[[nodiscard]] table import_dlpack_columns(const std::shared_ptr<context>& ctx, dlpack_legacy_tensor&& source,
                                          const dlpack_table_import& how = {});
/// The same for a tensor that stays the caller's, as above.
[[nodiscard]] table import_dlpack_columns(const std::shared_ptr<context>& ctx,
                                          const DLManagedTensorVersioned& source,
                                          const std::shared_ptr<void>& keepalive,
                                          const dlpack_table_import& how = {});
[[nodiscard]] table import_dlpack_columns(const std::shared_ptr<context>& ctx, const DLManagedTensor& source,
                                          const std::shared_ptr<void>& keepalive,
                                          const dlpack_table_import& how = {});

/// Allocates memory of a context as a contiguous row-major tensor of any type, for consumers that ask a
/// producer's library for one (DLPackManagedTensorAllocator). Its values are undefined. Until the deleter is
/// called, the memory is charged to the budget; it is released after all device work that was queued by then.
/// It is ready on the context's work stream.
/// @throws error format (a negative extent), overflow, budget_exceeded, out_of_memory, closed.
[[nodiscard]] dlpack_tensor allocate_dlpack(const std::shared_ptr<context>& ctx, tensor_type type,
                                            std::span<const std::int64_t> shape);

} // namespace saeta
