// A device: a kind and an ordinal, numbered as in DLPack's DLDeviceType and Arrow's ArrowDeviceType. Their
// numbers for page-locked and managed memory are not devices here, but memory kinds.

#pragma once

#include "saeta/base/export.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace SAETA_EXPORT saeta {

enum class device_kind : std::int32_t {
  cpu = 1,
  cuda = 2,
  sim = 12, ///< kDLExtDev / ARROW_DEVICE_EXT_DEV: the simulated device of the tests
};

struct device_id {
  device_kind kind = device_kind::cpu;
  std::int32_t ordinal = 0;

  friend bool operator==(const device_id&, const device_id&) = default;
};

/// "host", "cuda:0", "sim:1".
[[nodiscard]] std::string to_string(device_id id);

/// Reads "host", "cpu", "cuda" (ordinal 0), "cuda:1".
/// @throws error invalid_argument naming the text.
[[nodiscard]] device_id parse_device(std::string_view text);

/// The kind of memory at an address: which processors can access it, independent of its device.
///
/// What      `device_id` says which device memory belongs to, and the kind says how it is accessed. A
///           page-locked buffer of a GPU is "cuda:0" and pinned. The backend knows the kind of any address
///           (device/backend.hpp). A block has the kind of the resource that allocated it.
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
