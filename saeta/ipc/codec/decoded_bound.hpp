// How many bytes a compressed buffer can hold at most, by the headers of its own blocks.
//
// What      Compressed bodies say how large they are when decoded, and a hostile file says anything. The frames of LZ4 and ZSTD
//           bound it: each block says its size or has a largest one. The blocks are walked, not decoded.
// Standard  LZ4 Frame Format 1.6.2; RFC 8878 (Zstandard).
#pragma once

#include "saeta/ipc/format/message_metadata.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

namespace saeta::ipc::detail {

/// Bytes that the decoder can make of these; where the frames are broken, of those before. @param codec  "lz4" or "zstd".
std::uint64_t most_decoded(std::string_view codec, std::span<const std::byte> compressed);
/// The same of bytes that are somewhere else. @param read  some of them, at most 8; valid until the next call.
std::uint64_t
most_decoded(std::string_view codec, std::uint64_t bytes,
             const std::function<std::span<const std::byte>(std::uint64_t at, std::size_t bytes)>& read);

/// Checks the sizes that the compressed buffers of a record batch claim, before memory is asked for.
/// @param body  a buffer of which only zeros are there claims nothing.
/// @throws error format naming the buffer.
void require_honest_sizes(const batch_metadata& batch, std::span<const std::byte> body);

} // namespace saeta::ipc::detail
