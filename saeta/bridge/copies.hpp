// Copies bytes between host memory and buffers, and between buffers, for libarrow. Copies are counted.
#pragma once

#include "saeta/memory/buffer.hpp"

#include <arrow/buffer.h>

#include <cstddef>
#include <memory>
#include <span>

namespace saeta {

/// The bytes of a buffer that the CPU can read.
inline std::span<const std::byte> host_bytes(const arrow::Buffer& of) {
  return {reinterpret_cast<const std::byte*>(of.data()), static_cast<std::size_t>(of.size())};
}

/// Copies into host memory by one planned transfer, which the host waits for.
/// @throws error out_of_range if the target is too small.
void download(const buffer& source, std::span<std::byte> target);

/// Allocates memory of a kind.
buffer allocate_memory(const std::shared_ptr<context>& ctx, std::size_t bytes, memory_kind kind);

/// Copies host memory into new memory of a kind by one transfer. `source` has been read when the call
/// returns.
buffer upload_bytes(const std::shared_ptr<context>& ctx, std::span<const std::byte> source, memory_kind kind);

/// Copies host memory into a buffer. The host waits for the copy.
void write_bytes(const buffer& target, std::span<const std::byte> source);

/// Copies the bytes into new memory of a kind, on the work stream of `ctx`.
/// @throws error unsupported between devices that can't reach each other.
buffer copy_bytes(const std::shared_ptr<context>& ctx, const buffer& source, memory_kind kind);

} // namespace saeta
