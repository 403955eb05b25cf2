// Numbers that a kernel converts to another kind (device/kernels.hpp).
//
// What      A plain value that fits into the parameters of a kernel. Pointers are borrowed, as for every
//           kernel.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/device/gather.hpp"

#include <cstdint>

namespace SAETA_EXPORT saeta {

inline constexpr int decimal_words = 8; ///< of 32 bits, in the largest decimal
inline constexpr int most_decimal_scale = 76;

/// The decimals of a source: integers without a scale, the lowest byte first.
struct decimal_source {
  std::int32_t bytes = 0; ///< of a decimal: 4, 8, 16 or 32; 0 if the source has other numbers
  std::int32_t scale = 0; ///< digits after the point; -76 to 76
  std::uint32_t power[decimal_words] = {}; ///< ten to the power of |scale|, the lowest word first
  double exact_divisor = 0;                ///< `power`, if it divides and a double has it exactly; else 0
};

struct cast_work {
  const void* source = nullptr;           ///< from row 0 on, aligned to its kind; decimals to at most 8 bytes
  const std::uint8_t* validity = nullptr; ///< null: every row is valid; other rows become 0
  std::int64_t bit_offset = 0;            ///< of row 0 in `validity`
  number_kind from = number_kind::int8;   ///< not boolean; unused for decimals
  decimal_source decimal{};
  number_kind to = number_kind::int8; ///< not boolean
  /// True: floats become the nearest integer, ties to even, and any number becomes the nearest float. False:
  /// the number must be equal after the conversion. A NaN equals a NaN. In both cases an integer must have
  /// the range.
  bool rounds = false;
  std::int64_t count = 0;
  void* target = nullptr;          ///< aligned to its kind
  std::int64_t* bad_row = nullptr; ///< becomes the first row without such a number, or -1
};

} // namespace saeta
