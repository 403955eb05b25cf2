// Builds Arrow C structs from arrays in any memory. Exports to the host and to devices share this code.
#pragma once

#include "saeta/interop/arrow/owned.hpp"
#include "saeta/transfer/host_array.hpp"

#include <memory>
#include <vector>

namespace saeta {

/// 64 bytes of zeros in host memory.
const void* no_bytes() noexcept;

/// Exports one array. Its struct and those of its children and its dictionary each share `keepalive`, so a
/// consumer may move a child away and release the rest. An array without rows has no buffers and offset 0.
/// @param nothing  64 bytes of zeros in the memory of the array, used for a buffer without bytes. Consumers
///                 expect a pointer that is not null, and may read the offsets of an array without rows.
owned_array build_array(const host_array& source, const std::shared_ptr<void>& keepalive,
                        const void* nothing);

/// Exports a struct array whose children are the arrays of a batch.
owned_array exported_struct(const host_batch& source, const void* nothing);

/// The null count of an exported struct: -1 if it is not known.
std::int64_t null_count_of(const host_array& source);

/// Appends all buffers of a column, of its children and of its dictionary.
void append_buffers(const column& from, std::vector<buffer>& views);

} // namespace saeta
