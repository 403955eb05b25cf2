// The CUDA Array Interface: arrays of other libraries as columns, and columns as arrays.
//
// What      Import of arrays of version 2 and 3, with strides and with a mask of rows, which becomes the validity; each dimension
//           behind the first becomes a fixed-size list, as of DLPack. Export of columns without nulls, because consumers drop a
//           mask silently.
// Owner     An imported view keeps `cuda_array::owner` until our last work on the memory has finished; a copy drops it after
//           the copy. The owner of an exported array is an export hold: it must live as long as anybody uses the array.
// Order     Import: the column's first use waits for the array's stream, and the mask's. Without one, version 3 says that
//           nothing is pending; version 2 says nothing, so the import waits for all work of the device. Export: the context's
//           work stream, which the array names, waits for the last write; the consumer waits for that stream.
// Failure   format (a field that breaks the standard: names it and the numbers), exchange (can't be carried: no dimension, a
//           dtype without a column type, a copy that `copy_policy::never` forbids), invalid_argument (stream).
// Standard  numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html
#pragma once

#include "saeta/column/column.hpp"
#include "saeta/interop/copy_policy.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace saeta {

/// The dictionary `__cuda_array_interface__`, field by field; the mask apart.
struct cuda_array {
  std::uintptr_t data = 0;
  bool read_only = false;
  std::string typestr; ///< as NumPy's array interface has it: "<f4", "|b1"
  std::vector<std::int64_t> shape;
  std::optional<std::vector<std::int64_t>> strides; ///< bytes; absent: contiguous
  std::int32_t version = 3;
  std::optional<std::int64_t> stream; ///< 1 legacy, 2 per-thread, else a handle; 0 is refused
  std::shared_ptr<void> owner;
};

/// The array as a column of `ctx`, on whose device its memory lies. `mask` may be null; it has as many elements as the array has
/// rows, of bool or of integers of one byte, and one that is not 0 stands for a valid row. One kernel packs it into a validity, which `never`
/// refuses, as it refuses to gather a strided array.
column import_cuda_array(const std::shared_ptr<context>& ctx, const cuda_array& values,
                         const cuda_array* mask = nullptr, copy_policy copy = copy_policy::when_needed);

/// A view of the column's rows, read-only. On the host nothing is pending when it returns, and no stream is named.
/// @throws error exchange for nulls, for a type without a tensor type, and where the values do not lie as one array.
cuda_array export_cuda_array(const column& source);

} // namespace saeta
