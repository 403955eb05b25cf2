// Values in host memory at any alignment.
#pragma once

#include "saeta/base/export.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace SAETA_EXPORT saeta {

/// Value `index` of an array.
template <class T>
T load_unaligned(const void* values, std::int64_t index) noexcept {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(values) + index * static_cast<std::int64_t>(sizeof(T)),
              sizeof value);
  return value;
}

template <class T>
void store_unaligned(void* values, std::int64_t index, T value) noexcept {
  std::memcpy(static_cast<std::byte*>(values) + index * static_cast<std::int64_t>(sizeof(T)), &value,
              sizeof value);
}

} // namespace saeta
