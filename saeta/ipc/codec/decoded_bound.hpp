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

/// What a compressed buffer says of itself.
struct packed_claim {
  body_codec codec = body_codec::none; ///< none: stored uncompressed
  std::uint64_t bytes = 0;             ///< when decoded
  std::uint64_t packed_bytes = 0;      ///< behind the 8 bytes of the size
};

/// Reads and checks what a buffer of a compressed body claims, before memory is allocated for it. Block
/// headers are read only if it claims much more than it has: a small false claim costs little memory, and
/// decoding finds it.
/// @param number  of the buffer, for messages
/// @param length  bytes of the buffer, more than 0
/// @param read    returns bytes of the buffer, valid until the next call.
/// @throws error format.
packed_claim
read_claim(std::size_t number, body_codec codec, std::uint64_t length,
           const std::function<std::span<const std::byte>(std::uint64_t at, std::size_t bytes)>& read);

/// The same for the buffers of the columns of a batch in memory. A validity is left out if there are no
/// nulls: nobody reads it.
/// @param tree  the batch has its entries
/// @param body  at least as large as the batch says
void require_honest_sizes(const batch_layout& batch, const column_tree& tree,
                          std::span<const std::byte> body);

} // namespace saeta::ipc::detail
