// LZ4: blocks, frames and their decoder, by the liblz4 that is compiled in.
//
// Thread    Any.
// Failure   Compressing fails only if the target is smaller than the `max_` function says: error
//           invalid_argument.
// Standard  LZ4 Block Format; LZ4 Frame Format 1.6.2.
#pragma once

#include "saeta/ipc/codec/frame_decoder.hpp"

#include <cstddef>
#include <memory>
#include <span>

namespace saeta::ipc::detail {

/// @param bytes  at most 2 GB.
std::size_t max_lz4_block_bytes(std::size_t bytes);
/// Compresses values to a block without a header. Returns its size.
std::size_t compress_lz4_block(std::span<const std::byte> values, std::span<std::byte> target);

std::size_t max_lz4_frame_bytes(std::size_t bytes);
/// Compresses values to a frame of linked blocks of 64 KiB without checksums. Returns its size.
std::size_t compress_lz4_frame(std::span<const std::byte> values, std::span<std::byte> target);

/// @throws error out_of_memory.
std::unique_ptr<frame_decoder> make_lz4_decoder();

} // namespace saeta::ipc::detail
