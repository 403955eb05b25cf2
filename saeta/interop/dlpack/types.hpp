// DLPack's numbers for what Saeta calls by name: data types, devices and streams.
//
// What      Translation in both directions, without dlpack.h, so that any file may include this.
// Failure   exchange (no such type on the other side: names it and the way out), invalid_argument (a stream number that
//           the standard does not define).
#pragma once

#include "saeta/column/data_type.hpp"
#include "saeta/device/device_id.hpp"
#include "saeta/device/handles.hpp"
#include "saeta/device/memory_kind.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace saeta {

/// DLDataType, field by field.
struct tensor_type {
  std::uint8_t code = 0;
  std::uint8_t bits = 0;
  std::uint16_t lanes = 1;

  friend bool operator==(const tensor_type&, const tensor_type&) = default;
};

/// A float that Arrow has no type for. Columns carry its bytes as binaries of a fixed size, under an extension of Saeta.
struct narrow_float {
  std::string_view extension; ///< "saeta.bfloat16"
  tensor_type tensor;
  std::uint16_t nan = 0; ///< the bits of a quiet NaN
  bool has_zero = true;  ///< as a value whose bits are 0

  /// As NumPy spells it with ml_dtypes: "bfloat16".
  [[nodiscard]] constexpr std::string_view name() const noexcept {
    return extension.substr(std::string_view("saeta.").size());
  }
};

/// The narrow float that a column carries; null for other types.
const narrow_float* narrow_float_of(const data_type& type) noexcept;
/// The type of a narrow float, by its name without or with "saeta."; nothing for other names.
std::optional<data_type> narrow_float_type(std::string_view name);

/// Element type of a tensor over the values buffer: numbers as they are, bool8 as kDLBool of 8 bits, narrow floats as their own.
/// A boolean column has none, its values are bits.
tensor_type to_tensor_type(const data_type& type);

/// Whether there is one.
bool has_tensor_type(const data_type& type) noexcept;

/// kDLBool becomes byte_bool(). The type lives as long as the process.
const data_type& from_tensor_type(tensor_type type);

/// DLDevice, field by field. ARROW_DEVICE_* has the same numbers.
struct tensor_device {
  std::int32_t type = 1; ///< kDLCPU
  std::int32_t ordinal = 0;

  friend bool operator==(const tensor_device&, const tensor_device&) = default;
};

/// Page-locked, managed and host memory have types of their own, with ordinal 0 whatever device they were made for.
tensor_device to_tensor_device(device_id device, memory_kind kind) noexcept;
/// The kind of memory that a type stands for; nothing for devices that Saeta has no name for.
std::optional<memory_kind> kind_of(tensor_device device) noexcept;
/// "host", "cuda:0", "cuda_host:0", "cuda_managed:0", "sim:1", "unknown:0".
std::string to_string(tensor_device device);

/// Stream of a number as `__dlpack__(stream=)` gives it on a device: 1 legacy, 2 per-thread, above 2 a handle; nothing for
/// -1, which asks for no ordering.
std::optional<stream_handle> tensor_stream(std::int64_t number);

} // namespace saeta
