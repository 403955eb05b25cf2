// What kernels gather (device/kernels.hpp): values of any strides, and columns that become a matrix.
//
// What      Plain values that fit into the parameters of a kernel: nothing has to be allocated or copied for them.
// Owner     Pointers are borrowed, as for every kernel (device/kernels.hpp).
#pragma once

#include <cstdint>

namespace saeta {

/// Values of any strides, the last dimension running fastest.
struct strided_values {
  static constexpr int most_dimensions = 8;

  const void* first = nullptr; ///< whose indices are all 0
  int dimensions = 0;          ///< 0: one value
  std::int64_t extents[most_dimensions]{};
  std::int64_t strides[most_dimensions]{}; ///< bytes; may be 0 and negative

  [[nodiscard]] constexpr std::int64_t size() const noexcept {
    std::int64_t values = 1;
    for (int i = 0; i < dimensions; ++i) {
      values *= extents[i];
    }
    return values;
  }
};

/// Numbers of a column or a matrix; `boolean` is one byte, of which any but 0 is true.
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

/// Whether a gather turns numbers of one kind into another: the same kind; anything into a float, rounded to the nearest;
/// bools and integers into integers that have all of their values.
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
  const void* values = nullptr;            ///< of row 0, aligned to its kind; null: every value is 1
  const std::uint8_t* validity = nullptr;  ///< null: without nulls
  std::int64_t bit_offset = 0;             ///< of the bit of row 0
  number_kind kind = number_kind::boolean; ///< `converts` to the matrix's
};

/// Where the numbers go: row r of column c to value r * row_step + c * column_step of the target.
struct gather_target {
  std::int64_t rows = 0;
  number_kind kind = number_kind::boolean;
  std::int64_t row_step = 0;
  std::int64_t column_step = 0;
  std::int64_t rows_a_bit = 1; ///< rows that share one bit of a validity
  std::uint64_t fill = 0;      ///< what stands for a null: a value in the low bytes
};

} // namespace saeta
