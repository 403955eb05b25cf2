// The codecs of message bodies.
#pragma once

#include <cstdint>

namespace saeta::ipc::detail {

enum class body_codec : std::uint8_t { none, lz4, zstd };

/// Returns "none", "lz4" or "zstd".
inline const char* name_of(body_codec codec) noexcept {
  return codec == body_codec::none ? "none" : codec == body_codec::lz4 ? "lz4" : "zstd";
}

} // namespace saeta::ipc::detail
