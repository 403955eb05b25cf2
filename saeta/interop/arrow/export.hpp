// Arrays as Arrow C structs, whatever memory their ranges are in: what exports to the host and to devices share.
#pragma once

#include "saeta/interop/arrow/owned.hpp"
#include "saeta/transfer/host_array.hpp"

#include <memory>
#include <vector>

namespace saeta {

/// Zeros in host memory.
const void* no_bytes() noexcept;

/// An array whose struct shares `keepalive`, as do those of its children and of its dictionary: a consumer may move a child
/// away and release the rest. Without rows it has no buffers and offset 0.
/// @param nothing  what stands for a buffer without bytes: consumers want a pointer that is not null, and offsets of an array
///                 without rows may be read, so 64 bytes of zeros where the array is.
owned_array exported(const host_array& source, const std::shared_ptr<void>& keepalive, const void* nothing);

/// A struct array whose children are the arrays of a batch.
owned_array exported_struct(const host_batch& source, const void* nothing);

/// As an exported struct says it: -1 where it is not known.
std::int64_t null_count_of(const host_array& source);

/// All buffers of a column, of its children and of its dictionary.
void append_buffers(const column& from, std::vector<buffer>& views);

} // namespace saeta
