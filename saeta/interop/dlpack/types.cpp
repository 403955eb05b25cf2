#include "saeta/interop/dlpack/types.hpp"

#include "saeta/base/text.hpp"
#include "saeta/interop/dlpack/abi.hpp"
#include "saeta/symbols/symbols.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace saeta {
namespace {

struct number_type {
  type_id id;
  tensor_type tensor;
};

constexpr std::array<number_type, 11> numbers{{{type_id::int8, {kDLInt, 8}},
                                               {type_id::uint8, {kDLUInt, 8}},
                                               {type_id::int16, {kDLInt, 16}},
                                               {type_id::uint16, {kDLUInt, 16}},
                                               {type_id::int32, {kDLInt, 32}},
                                               {type_id::uint32, {kDLUInt, 32}},
                                               {type_id::int64, {kDLInt, 64}},
                                               {type_id::uint64, {kDLUInt, 64}},
                                               {type_id::half_float, {kDLFloat, 16}},
                                               {type_id::float32, {kDLFloat, 32}},
                                               {type_id::float64, {kDLFloat, 64}}}};

constexpr bool in_order() {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (static_cast<std::size_t>(numbers[i].id) != static_cast<std::size_t>(numbers[0].id) + i) {
      return false;
    }
  }
  return true;
}
static_assert(in_order(), "types are found by their number");

constexpr tensor_type bool_tensor{kDLBool, 8};

// Floats of 6 and 4 bits share bytes, which no Arrow layout can express.
constexpr std::array<narrow_float, 9> narrow_floats{
    {{"saeta.bfloat16", {kDLBfloat, 16}, 0x7fc0},
     {"saeta.float8_e3m4", {kDLFloat8_e3m4, 8}, 0x78},
     {"saeta.float8_e4m3", {kDLFloat8_e4m3, 8}, 0x7c},
     {"saeta.float8_e4m3b11fnuz", {kDLFloat8_e4m3b11fnuz, 8}, 0x80},
     {"saeta.float8_e4m3fn", {kDLFloat8_e4m3fn, 8}, 0x7f},
     {"saeta.float8_e4m3fnuz", {kDLFloat8_e4m3fnuz, 8}, 0x80},
     {"saeta.float8_e5m2", {kDLFloat8_e5m2, 8}, 0x7e},
     {"saeta.float8_e5m2fnuz", {kDLFloat8_e5m2fnuz, 8}, 0x80},
     {"saeta.float8_e8m0fnu", {kDLFloat8_e8m0fnu, 8}, 0xff, false}}};

/// Parsed once, because nothing else in a tensor import takes as long.
const data_type& type_of(const narrow_float& wanted) {
  static const std::array<data_type, narrow_floats.size()> types = [] {
    std::array<data_type, narrow_floats.size()> made;
    std::ranges::transform(narrow_floats, made.begin(), [](const narrow_float& narrow_float) {
      return data_type::parse(narrow_float.tensor.bits == 16 ? "w:2" : "w:1")
          .with_extension(std::string(narrow_float.extension), {});
    });
    return made;
  }();
  return types[static_cast<std::size_t>(&wanted - narrow_floats.data())];
}

std::string_view code_name(std::uint8_t code) {
  switch (code) {
  case kDLInt:
    return "int";
  case kDLUInt:
    return "uint";
  case kDLFloat:
    return "float";
  case kDLOpaqueHandle:
    return "opaque handle";
  case kDLBfloat:
    return "bfloat";
  case kDLComplex:
    return "complex";
  case kDLBool:
    return "bool";
  default:
    return code <= kDLFloat4_e2m1fn ? "narrow float" : "unknown";
  }
}

/// What a caller can do instead with a column that has no tensor type.
std::string_view suggest_alternative(const data_type& type) {
  if (const data_type* const codes = code_type(type)) {
    if (codes != type.index_type()) {
      return "to_torch, to_numpy and the like take codes=True for the numbers of its symbols; ";
    }
    return has_tensor_type(*type.value_type())
               ? "to_torch, to_numpy and the like take codes=True for its indices, and cast() gives its "
                 "values; "
               : "to_torch, to_numpy and the like take codes=True for its indices; ";
  }
  if (type.is_temporal() && type.extension_name().empty()) {
    return "to_torch, to_numpy and the like take reinterpret=True for its integers; ";
  }
  if (type.is_decimal()) {
    return "to_torch, to_numpy and the like take dtype= for a type of numbers; ";
  }
  switch (type.id()) {
  case type_id::binary:
  case type_id::large_binary:
  case type_id::string:
  case type_id::large_string:
  case type_id::list:
  case type_id::large_list:
  case type_id::map:
    return "offsets_and_values() of the column gives its offsets and its values; ";
  default:
    return "tensors carry integers, floats and bool8; ";
  }
}

} // namespace

const narrow_float* narrow_float_of(const data_type& type) noexcept {
  if (type.id() != type_id::fixed_size_binary || type.extension_name().empty()) {
    return nullptr;
  }
  const auto* const match = std::ranges::find_if(narrow_floats, [&](const narrow_float& narrow_float) {
    return narrow_float.extension == type.extension_name() &&
           narrow_float.tensor.bits == 8 * type.byte_width();
  });
  return match == narrow_floats.end() ? nullptr : match;
}

std::optional<data_type> narrow_float_type(std::string_view name) {
  for (const narrow_float& narrow_float : narrow_floats) {
    if (name == narrow_float.extension || name == narrow_float.name()) {
      return type_of(narrow_float);
    }
  }
  return std::nullopt;
}

bool has_tensor_type(const data_type& type) noexcept {
  // The storage of an extension would lose its meaning, so it is not handed out as plain numbers.
  return (type.id() >= numbers.front().id && type.id() <= numbers.back().id &&
          type.extension_name().empty() && code_type(type) == nullptr) ||
         type.is_bool8() || narrow_float_of(type) != nullptr;
}

tensor_type to_tensor_type(const data_type& type) {
  if (!has_tensor_type(type)) {
    throw error(errc::exchange, concat("dlpack: a column of type ", type.name(), " has no tensor type: ",
                                       suggest_alternative(type), "to_arrow() has every type"));
  }
  if (type.is_bool8()) {
    return bool_tensor;
  }
  if (const narrow_float* const narrow = narrow_float_of(type)) {
    return narrow->tensor;
  }
  return numbers[static_cast<std::size_t>(type.id()) - static_cast<std::size_t>(numbers.front().id)].tensor;
}

const data_type& from_tensor_type(tensor_type type) {
  static const data_type bool8 = data_type::byte_bool();
  if (type == bool_tensor) {
    return bool8;
  }
  if (const auto* const narrow = std::ranges::find(narrow_floats, type, &narrow_float::tensor);
      narrow != narrow_floats.end()) {
    return type_of(*narrow);
  }
  const auto match =
      std::find_if(numbers.begin(), numbers.end(), [&](const number_type& n) { return n.tensor == type; });
  if (match == numbers.end()) {
    throw error(errc::exchange,
                concat("dlpack: dtype with code ", +type.code, " (", code_name(type.code), "), ", +type.bits,
                       " bits and ", type.lanes,
                       " lanes has no column type: columns carry integers of 8 to 64 bits, ",
                       "floats of 16 to 64 bits, bfloat16, float8 and bool of 8 bits, of 1 ", "lane"));
  }
  // Made once, because nothing else in a tensor import takes as long.
  static const std::array<data_type, numbers.size()> types = [] {
    std::array<data_type, numbers.size()> made;
    std::ranges::transform(numbers, made.begin(), [](const number_type& n) { return data_type(n.id); });
    return made;
  }();
  return types[static_cast<std::size_t>(match - numbers.begin())];
}

tensor_device to_tensor_device(device_id device, memory_kind kind) noexcept {
  switch (kind) {
  case memory_kind::device:
    return {static_cast<std::int32_t>(device.kind), device.ordinal};
  case memory_kind::managed:
    return {kDLCUDAManaged, 0};
  case memory_kind::pinned:
    return {kDLCUDAHost, 0};
  case memory_kind::host:
    break;
  }
  return {kDLCPU, 0};
}

std::optional<memory_kind> kind_of(tensor_device device) noexcept {
  switch (device.type) {
  case kDLCPU:
    return memory_kind::host;
  case kDLCUDA:
  case static_cast<std::int32_t>(device_kind::sim):
    return memory_kind::device;
  case kDLCUDAHost:
    return memory_kind::pinned;
  case kDLCUDAManaged:
    return memory_kind::managed;
  default:
    return std::nullopt;
  }
}

std::string to_string(tensor_device device) {
  const std::optional<memory_kind> kind = kind_of(device);
  if (!kind) {
    return concat("unknown:", device.ordinal);
  }
  switch (*kind) {
  case memory_kind::pinned:
    return concat("cuda_host:", device.ordinal);
  case memory_kind::managed:
    return concat("cuda_managed:", device.ordinal);
  default:
    return to_string(device_id{static_cast<device_kind>(device.type), device.ordinal});
  }
}

std::optional<stream_handle> tensor_stream(std::int64_t number) {
  constexpr std::int64_t no_ordering = -1;
  if (number == no_ordering) {
    return std::nullopt;
  }
  if (number == 0) {
    throw error(errc::invalid_argument,
                "dlpack: stream 0 is ambiguous: 1 is the legacy default stream, 2 the "
                "per-thread default stream, -1 asks for no ordering");
  }
  if (number < 0) {
    throw error(errc::invalid_argument,
                concat("dlpack: stream ", number, " is not a stream: expected -1, 1, 2 or a stream handle"));
  }
  return static_cast<stream_handle>(number);
}

} // namespace saeta
