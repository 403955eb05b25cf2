// DLPack: columns as tensors and tensors as columns, without a copy and in order.
//
// What      1-D tensors of numeric and bool8 columns, legacy (DLManagedTensor) and versioned (DLManagedTensorVersioned,
//           1.x). Nulls are refused unless the caller says what stands for them.
// Owner     An exported tensor belongs to the consumer, who calls its deleter once, on any thread. An import takes the
//           tensor on success and leaves it with the caller on failure.
// Order     Export: the consumer's stream waits for our last write; the deleter puts one event over all work of the
//           context before any reuse (memory/export_hold.hpp). Import: the column's first use waits for the
//           producer's work on `ready`; the producer's deleter runs after our last use has finished.
// Failure   exchange (can't be carried: nulls, a type without a DLPack code, a copy that `copy_policy::never` forbids),
//           format (a tensor that breaks the standard: names the field and the numbers), invalid_argument (stream).
// Standard  DLPack 1.3, dmlc.github.io/dlpack, and the Python array API's __dlpack__.
#pragma once

#include "saeta/column/column.hpp"
#include "saeta/interop/copy_policy.hpp"
#include "saeta/interop/dlpack_types.hpp"

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
};

/// A value of the column's type. Integers must be exact; a double is rounded to a narrower float.
using tensor_fill = std::variant<std::int64_t, std::uint64_t, double>;

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
};

/// A byte_bool column: 1 where a row of `source` is valid, 0 where it is null. One kernel on the source's device; the mask that
/// belongs to an export with tensor_nulls::masked.
column is_valid(const column& source);

/// Device of the tensor that an export without `target` gives: as the kind of the memory has it (device/memory_kind.hpp).
tensor_device dlpack_device(const column& source);

/// Never null; the deleter frees the struct. Flags: READ_ONLY unless the memory was copied, IS_COPIED when it was.
DLManagedTensorVersioned* export_dlpack_versioned(const column& source, const dlpack_export& how = {});
/// The same without flags: the legacy struct can't say read-only.
DLManagedTensor* export_dlpack(const column& source, const dlpack_export& how = {});

/// The stream to pass to a producer's `__dlpack__` for an import into `where`: absent on the host.
std::optional<std::int64_t> dlpack_import_stream(const context& home);

struct dlpack_import {
  /// Stream on which the producer ordered its work, as passed to its `__dlpack__`; absent: nothing is known, so a device
  /// import waits for all work of the context.
  std::optional<std::int64_t> ready = std::nullopt;
  copy_policy copy = copy_policy::when_needed; ///< `always` copies into the context's own memory
};

/// A 1-D tensor as a column in `home`. A strided tensor of more than one element is gathered by one kernel, a host tensor
/// into a device context is one transfer; `never` refuses both. kDLBool becomes byte_bool: a view keeps the bytes, of which any
/// but 0 is true; a copy has 0 and 1.
column import_dlpack(const std::shared_ptr<context>& home, DLManagedTensorVersioned* source,
                     const dlpack_import& how = {});
column import_dlpack(const std::shared_ptr<context>& home, DLManagedTensor* source,
                     const dlpack_import& how = {});

} // namespace saeta
