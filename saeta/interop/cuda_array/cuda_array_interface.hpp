// The CUDA Array Interface: arrays of other libraries as columns, and columns as arrays.
//
// What      Imports arrays of version 2 and newer, with strides and with a mask of rows, which becomes the
//           validity. Each dimension after the first becomes a fixed-size list, as for DLPack. Exports
//           columns without nulls only, because consumers silently ignore a mask.
// Owner     An imported view keeps `cuda_array::owner` until our last work on the memory has finished; a copy
//           drops it after the copy. The owner of an exported array is an export hold: it must live as long
//           as the array is used.
// Order     Import: the column's first use waits for the stream of the array and for that of the mask. If no
//           stream is given, version 3 says that nothing is pending. Version 2 says nothing, so the import
//           waits for all work of the device. Export: the context's work stream waits for the last write. The
//           array names this stream, and the consumer waits for it.
// Failure   format (a field that breaks the standard: names it and the numbers), exchange (no dimension, a
//           dtype without a column type, a copy that `copy_policy::never` forbids), invalid_argument
//           (stream).
// Standard  numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/column/column.hpp"
#include "saeta/interop/options.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace SAETA_EXPORT saeta {

/// The dictionary `__cuda_array_interface__`, field by field, without the mask.
struct cuda_array {
  std::uintptr_t data = 0;
  bool read_only = false;
  std::string typestr; ///< as in NumPy's array interface: "<f4", "|b1"
  std::vector<std::int64_t> shape;
  std::optional<std::vector<std::int64_t>> strides; ///< bytes; absent: contiguous
  std::int32_t version = 3;
  std::optional<std::int64_t> stream; ///< 1 legacy, 2 per-thread, else a handle; 0 is refused
  std::shared_ptr<void> owner;
};

/// Imports the array as a column of `ctx`. Its memory must be on the context's device. `mask` may be null. It
/// has one element per row, of bool or a one-byte integer, and a nonzero element marks a valid row. One
/// kernel packs it into a validity. `never` refuses a mask, and refuses to gather a strided array.
[[nodiscard]] column import_cuda_array(const std::shared_ptr<context>& ctx, const cuda_array& values,
                                       const cuda_array* mask = nullptr,
                                       copy_policy copy = copy_policy::when_needed);

/// Exports a read-only view of the column's rows. On the host nothing is pending when the call returns, and
/// the array names no stream.
/// @throws error exchange for nulls, for a type without a tensor type, and if the values do not form one
///         array.
cuda_array export_cuda_array(const column& source);

} // namespace saeta
