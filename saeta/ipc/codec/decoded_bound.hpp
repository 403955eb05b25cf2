// An upper bound of the decoded size of a compressed buffer, from its block headers.
//
// What      A compressed body states its decoded size, which a hostile file can make arbitrary. LZ4 and ZSTD
//           frames bound it: each block states its size or has a maximum. The block headers are read; nothing
//           is decoded.
// Standard  LZ4 Frame Format 1.6.2; RFC 8878 (Zstandard).
#pragma once

#include "saeta/ipc/format/message_layout.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

namespace saeta::ipc::detail {

/// Returns the most bytes that a decoder can produce; from a broken frame on, nothing is counted.
/// @param codec  "lz4" or "zstd".
std::uint64_t max_decoded_bytes(std::string_view codec, std::span<const std::byte> compressed);
/// The same for bytes that are read on demand.
/// @param read  returns at most 8 bytes, valid until the next call.
std::uint64_t
max_decoded_bytes(std::string_view codec, std::uint64_t bytes,
                  const std::function<std::span<const std::byte>(std::uint64_t at, std::size_t bytes)>& read);

/// Checks the decoded sizes that the compressed buffers of a record batch claim, before memory is allocated.
/// @param body  buffers that were not read are zeros there and claim nothing.
/// @throws error format naming the buffer.
void require_honest_sizes(const batch_layout& batch, std::span<const std::byte> body);

} // namespace saeta::ipc::detail
