// The kind of memory at an address: which processors can access it, independent of its device.
//
// What      `device_id` says which device memory belongs to, and the kind says how it is accessed. A
//           page-locked buffer of a GPU is "cuda:0" and pinned. The backend knows the kind of any address
//           (device/backend.hpp). A block has the kind of the resource that allocated it.
#pragma once

#include <cstdint>
#include <string_view>

namespace saeta {

enum class memory_kind : std::uint8_t {
  device,  ///< memory of a device, which the CPU can't load
  managed, ///< migrates between host and device on access (cudaMallocManaged)
  pinned,  ///< page-locked host memory, which a device accesses at link speed
  host,    ///< ordinary host memory
};

/// "device", "managed", "pinned", "host".
[[nodiscard]] std::string_view to_string(memory_kind kind) noexcept;
/// The inverse. @throws error invalid_argument naming the text.
[[nodiscard]] memory_kind parse_memory_kind(std::string_view text);

/// True if an ordinary load of the CPU may access the memory once the work on it has finished.
[[nodiscard]] constexpr bool host_accessible(memory_kind kind) noexcept {
  return kind != memory_kind::device;
}

} // namespace saeta
