// ZSTD: frames and their decoder, by the libzstd that is compiled in.
//
// Thread    Any.
// Failure   error out_of_memory; invalid_argument if the target is smaller than `max_zstd_frame_bytes`.
// Standard  RFC 8878 (Zstandard).
#pragma once

#include "saeta/ipc/codec/frame_decoder.hpp"

#include <cstddef>
#include <memory>
#include <span>

namespace saeta::ipc::detail {

std::size_t max_zstd_frame_bytes(std::size_t bytes);
/// Compresses values at level 1 to a frame that states their number. Returns its size.
std::size_t compress_zstd_frame(std::span<const std::byte> values, std::span<std::byte> target);

std::unique_ptr<frame_decoder> make_zstd_decoder();

} // namespace saeta::ipc::detail
