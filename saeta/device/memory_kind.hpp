// What kind of memory an address is: who can reach it, whatever device it belongs to.
//
// What      `device_id` says whose memory it is, the kind says which. Both of a page-locked buffer of a GPU: "cuda:0", pinned.
//           The backend knows the kind of any address (device/backend.hpp); a block has that of the resource that made it.
#pragma once

#include <cstdint>
#include <string_view>

namespace saeta {

enum class memory_kind : std::uint8_t {
  device,  ///< of a device, which alone can load it
  managed, ///< moves between host and device as they touch it (cudaMallocManaged)
  pinned,  ///< page-locked host memory, which a device reads and writes at the speed of the link
  host,    ///< ordinary host memory
};

/// "device", "managed", "pinned", "host".
[[nodiscard]] std::string_view to_string(memory_kind kind) noexcept;
/// The inverse. @throws error invalid_argument naming the text.
[[nodiscard]] memory_kind parse_memory_kind(std::string_view text);

/// True where an ordinary load of the CPU may touch the memory, once the work on it has finished.
[[nodiscard]] constexpr bool host_accessible(memory_kind kind) noexcept {
  return kind != memory_kind::device;
}

} // namespace saeta
