// Bytes between host memory and buffers, and between buffers, for libarrow: counted, through use tokens.
#pragma once

#include "saeta/memory/buffer.hpp"

#include <cstddef>
#include <memory>
#include <span>

namespace saeta {

/// Into host memory: one planned transfer, which the host waits for. @throws error out_of_range where there is too little room.
void download(const buffer& source, std::span<std::byte> target);

/// New memory of a kind.
buffer allocate_memory(const std::shared_ptr<context>& ctx, std::size_t bytes, memory_kind kind);

/// Host memory in new memory of a kind: one planned transfer. `source` has been read when it returns.
buffer upload_bytes(const std::shared_ptr<context>& ctx, std::span<const std::byte> source, memory_kind kind);

/// Host memory into a buffer. The host waits.
void write_bytes(const buffer& target, std::span<const std::byte> source);

/// A copy of the bytes in new memory of a kind, on the work stream of `ctx`.
/// @throws error unsupported between devices of which one can't reach the other.
buffer copy_bytes(const std::shared_ptr<context>& ctx, const buffer& source, memory_kind kind);

} // namespace saeta
