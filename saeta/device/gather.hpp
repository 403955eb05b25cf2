// Parameters of gather kernels (device/kernels.hpp): values with any strides, and columns that become a
// matrix.
//
// What      Plain values that fit into the parameters of a kernel, so nothing has to be allocated or copied.
// Owner     Pointers are borrowed, as for every kernel (device/kernels.hpp).

#pragma once

#include "saeta/base/export.hpp"
#include "saeta/device/equal_values.hpp"

#include <cstdint>

namespace SAETA_EXPORT saeta {

/// Values with any strides. The last dimension varies fastest.
struct strided_values {
  static constexpr int most_dimensions = 8;

  const void* first = nullptr; ///< the value whose indices are all 0
  int dimensions = 0;          ///< 0: a single value
  std::int64_t extents[most_dimensions]{};
  std::int64_t strides[most_dimensions]{}; ///< in bytes; may be 0 or negative

  [[nodiscard]] constexpr std::int64_t size() const noexcept {
    std::int64_t values = 1;
    for (int i = 0; i < dimensions; ++i) {
      values *= extents[i];
    }
    return values;
  }
};

/// Kinds of numbers in a column or a matrix. `boolean` is one byte, and any value except 0 is true.
enum class number_kind : std::uint8_t {
  int8,
  uint8,
  int16,
  uint16,
  int32,
  uint32,
  int64,
  uint64,
  half_float,
  float32,
  float64,
  boolean,
};

constexpr bool is_float(number_kind kind) noexcept {
  return kind == number_kind::half_float || kind == number_kind::float32 || kind == number_kind::float64;
}

/// Bytes of one number.
constexpr std::int32_t width_of(number_kind kind) noexcept {
  switch (kind) {
  case number_kind::int8:
  case number_kind::uint8:
  case number_kind::boolean:
    return 1;
  case number_kind::int16:
  case number_kind::uint16:
  case number_kind::half_float:
    return 2;
  case number_kind::int32:
  case number_kind::uint32:
  case number_kind::float32:
    return 4;
  default:
    return 8;
  }
}

/// True if a gather can convert numbers of one kind to another: to the same kind; from any kind to a float,
/// rounded to nearest; from bools and integers to integers that can hold all their values.
constexpr bool converts(number_kind from, number_kind to) noexcept {
  if (from == to || is_float(to)) {
    return true;
  }
  if (is_float(from) || to == number_kind::boolean) {
    return false;
  }
  if (from == number_kind::boolean) {
    return true;
  }
  const auto is_signed = [](number_kind kind) { return (static_cast<unsigned>(kind) & 1U) == 0; };
  return is_signed(to) ? is_signed(from) ? width_of(from) <= width_of(to) : width_of(from) < width_of(to)
                       : !is_signed(from) && width_of(from) <= width_of(to);
}

struct gathered_column {
  const void* values = nullptr;            ///< from row 0 on, aligned to its kind; null: every value is 1
  const std::uint8_t* validity = nullptr;  ///< null: no row is null
  std::int64_t bit_offset = 0;             ///< of row 0 in `validity`
  number_kind kind = number_kind::boolean; ///< one that `converts` to the kind of the matrix
};

/// The target of a gather. Row r of column c goes to value r * row_step + c * column_step.
struct gather_target {
  std::int64_t rows = 0;
  number_kind kind = number_kind::boolean;
  std::int64_t row_step = 0;
  std::int64_t column_step = 0;
  std::int64_t rows_a_bit = 1; ///< rows that share one validity bit
  std::uint64_t fill = 0;      ///< the value that replaces a null, in the low bytes
};

#ifdef __CUDACC__
#pragma nv_exec_check_disable // `run` is a function of the host or of the device, as the caller is
#endif
/// Calls `run` with a value of the kind's type, in the kernels of the host and of a GPU. Each backend has
/// its own half and bool types.
template <class Half, class Truth, class Run>
SAETA_ANY_DEVICE void with_number(number_kind kind, Run run) {
  switch (kind) {
  case number_kind::int8:
    return run(std::int8_t{});
  case number_kind::uint8:
    return run(std::uint8_t{});
  case number_kind::int16:
    return run(std::int16_t{});
  case number_kind::uint16:
    return run(std::uint16_t{});
  case number_kind::int32:
    return run(std::int32_t{});
  case number_kind::uint32:
    return run(std::uint32_t{});
  case number_kind::int64:
    return run(std::int64_t{});
  case number_kind::uint64:
    return run(std::uint64_t{});
  case number_kind::half_float:
    return run(Half{});
  case number_kind::float32:
    return run(float{});
  case number_kind::float64:
    return run(double{});
  case number_kind::boolean:
    return run(Truth{});
  }
}

} // namespace saeta
