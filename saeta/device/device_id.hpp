// A device: a kind and an ordinal, numbered as in DLPack's DLDeviceType and Arrow's ArrowDeviceType. Their
// numbers for page-locked and managed memory are not devices here, but memory kinds (device/memory_kind.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace saeta {

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
std::string to_string(device_id id);

/// Reads "host", "cpu", "cuda" (ordinal 0), "cuda:1".
/// @throws error invalid_argument naming the text.
device_id parse_device(std::string_view text);

} // namespace saeta
