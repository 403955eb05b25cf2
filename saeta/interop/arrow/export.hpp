// Builds Arrow C structs from arrays in any memory. Exports to the host and to devices share this code.

#pragma once

#include "saeta/column/table.hpp"
#include "saeta/interop/arrow/abi.hpp"
#include "saeta/interop/arrow/owned.hpp"
#include "saeta/interop/dlpack/types.hpp"
#include "saeta/transfer/host_array.hpp"

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

namespace saeta {

/// 64 bytes of zeros in host memory.
const void* no_bytes() noexcept;

/// Exports one array. Its struct and those of its children and its dictionary each share `keepalive`, so a
/// consumer may move a child away and release the rest. An array without rows has no buffers and offset 0.
/// @param nothing  64 bytes of zeros in the memory of the array, used for a buffer without bytes. Consumers
///                 expect a pointer that is not null, and may read the offsets of an array without rows.
arrow_array build_array(const host_array& source, const std::shared_ptr<void>& keepalive,
                        const void* nothing);

/// Exports a struct array whose children are the arrays of a batch.
arrow_array exported_struct(const host_batch& source, const void* nothing);

/// The null count of an exported struct: -1 if it is not known.
std::int64_t null_count_of(const host_array& source);

/// Appends all buffers of a column, of its children and of its dictionary.
void append_buffers(const column& from, std::vector<buffer>& views);

// Converts bools of one byte for Arrow consumers, which get Arrow's bool: one bit per value.
//
// What      Columns of `data_type::byte_bool` are packed into memory of their context, with one kernel each.
//           All other columns are shared.
// Order     The kernel runs on the context's work stream, after the last write.
// Failure   budget_exceeded.

/// The type that consumers see.
data_type arrow_type(const data_type& type);
column as_arrow(const column& source);
batch as_arrow(const batch& source);

// Moves the offsets of exported structs, sparse unions and fixed-size lists into their children.
//
// What      The offset of such an array applies to its children as well, and some consumers ignore it there.
//           DuckDB refuses a struct inside an array with an offset. pyarrow shows wrong rows of a map whose
//           entries have one, and nanoarrow wrong rows of a sparse union. polars refuses a fixed-size list.
//           So the export moves the offset into the children, which have an offset field of their own.
// Owner     A validity that then begins inside a byte must be shifted into new memory, which the caller keeps
//           with the export.
using shifted_bitmaps = std::deque<std::vector<std::uint64_t>>;

/// Moves the offsets of an array that is about to be exported, and of all arrays in it. A top-level struct
/// keeps its offset if no child of it has one of these types: that is a plain slice, which all these
/// consumers read correctly.
/// @param shifted  receives the shifted bitmaps. Null if nothing may be copied or the CPU can't read the
///                 bitmaps: arrays that need a shift then keep their offset, which is valid Arrow.
void push_offsets_down(host_array& of, shifted_bitmaps* shifted);

/// The device that an export names; all arrays of a stream have one. If all buffers have one kind of memory,
/// the result names this kind, else the own kind of the context's device. The ordinal is -1 on the host, as
/// the standard recommends.
tensor_device device_for(const context& ctx, std::span<const column> parts);

arrow_device_array export_to_device(const std::shared_ptr<context>& ctx, const batch& source,
                                    tensor_device where);
arrow_device_array export_to_device(const column& source, tensor_device where);

} // namespace saeta
