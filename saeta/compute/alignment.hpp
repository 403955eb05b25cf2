// Memory of other libraries that a kernel of a device cannot read, because its values are not aligned.
#pragma once

#include "saeta/base/text.hpp"

#include <algorithm>
#include <cstdint>

namespace saeta {

/// @param what   begins the message: "joining columns"
/// @param width  bytes of a value; a kernel loads at most 8 bytes at once
/// @throws error invalid_argument
inline void require_alignment(const char* what, const void* address, std::int64_t width) {
  const auto alignment = static_cast<std::uintptr_t>(std::clamp<std::int64_t>(width, 1, 8));
  if (reinterpret_cast<std::uintptr_t>(address) % alignment != 0) {
    throw error(errc::invalid_argument,
                concat(what, ": values of ", alignment, " bytes at ", address, " are not aligned"));
  }
}

} // namespace saeta
