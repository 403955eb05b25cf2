// Reads the values that `read_values` fetches, in the kernels of the host and of a GPU. Both compile these
// functions.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/device/equal_values.hpp"
#include "saeta/device/join.hpp"

namespace SAETA_EXPORT saeta {

/// Loads a signed value of 2, 4 or 8 bytes at any alignment.
SAETA_ANY_DEVICE inline std::int64_t load_at_any_alignment(const value_request& request,
                                                           std::int64_t index) noexcept {
  const auto* const from = static_cast<const std::uint8_t*>(request.at) + index * request.width;
  std::uint64_t value = 0;
  for (int i = 0; i < request.width; ++i) {
    value |= static_cast<std::uint64_t>(from[i]) << (8 * i);
  }
  const int unused = 64 - 8 * request.width;
  return static_cast<std::int64_t>(value << unused) >> unused;
}

/// The value that a request reads, or the index that it searches for.
SAETA_ANY_DEVICE inline std::int64_t requested_value(const value_request& request) noexcept {
  if (!request.search) {
    return load_at_any_alignment(request, 0);
  }
  return first_index(request.count,
                     [&](std::int64_t i) { return load_at_any_alignment(request, i) > request.greater; });
}

} // namespace saeta
