// Maps Saeta's data types, devices and streams to DLPack's numbers.
//
// What      Translates in both directions, without dlpack.h, so any file may include this header.
// Failure   exchange (no such type on the other side: names it and what to do), invalid_argument (a stream
//           number that the standard does not define).
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/column/data_type.hpp"
#include "saeta/device/device_id.hpp"
#include "saeta/device/handles.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace SAETA_EXPORT saeta {

/// DLDataType, field by field.
struct tensor_type {
  std::uint8_t code = 0;
  std::uint8_t bits = 0;
  std::uint16_t lanes = 1;

  friend bool operator==(const tensor_type&, const tensor_type&) = default;
};

/// A float type that Arrow does not have. Columns store it as fixed-size binaries with an extension type of
/// Saeta.
struct narrow_float {
  std::string_view extension; ///< "saeta.bfloat16"
  tensor_type tensor;
  std::uint16_t nan = 0; ///< the bits of a quiet NaN
  bool has_zero = true;  ///< whether the type has a zero, whose bits are all 0

  /// The name of the dtype in ml_dtypes: "bfloat16".
  [[nodiscard]] constexpr std::string_view name() const noexcept {
    return extension.substr(std::string_view("saeta.").size());
  }
};

/// The narrow float of a column type; null for other types.
const narrow_float* narrow_float_of(const data_type& type) noexcept;
/// The column type of a narrow float, by its name with or without "saeta."; nullopt for other names.
[[nodiscard]] std::optional<data_type> narrow_float_type(std::string_view name);

/// Element type of a tensor over the values buffer: numbers unchanged, bool8 as kDLBool of 8 bits, narrow
/// floats as their DLPack types.
/// @throws error exchange for other types, also for booleans, whose values are bits.
tensor_type to_tensor_type(const data_type& type);

/// True if to_tensor_type has a result.
bool has_tensor_type(const data_type& type) noexcept;

/// The column type of a tensor. kDLBool becomes byte_bool(). The result lives as long as the process.
const data_type& from_tensor_type(tensor_type type);

/// DLDevice, field by field. ARROW_DEVICE_* uses the same numbers.
struct tensor_device {
  std::int32_t type = 1; ///< kDLCPU
  std::int32_t ordinal = 0;

  friend bool operator==(const tensor_device&, const tensor_device&) = default;
};

/// Page-locked, managed and host memory have their own device types, with ordinal 0 for every device.
[[nodiscard]] tensor_device to_tensor_device(device_id device, memory_kind kind) noexcept;
/// The kind of memory of a device type; nullopt for a device type that Saeta does not know.
[[nodiscard]] std::optional<memory_kind> kind_of(tensor_device device) noexcept;
/// "host", "cuda:0", "cuda_host:0", "cuda_managed:0", "sim:1", "unknown:0".
[[nodiscard]] std::string to_string(tensor_device device);

/// The stream of a number from `__dlpack__(stream=)` on a device: 1 legacy, 2 per-thread, above 2 a handle;
/// nullopt for -1, which asks for no ordering.
[[nodiscard]] std::optional<stream_handle> tensor_stream(std::int64_t number);

} // namespace saeta
