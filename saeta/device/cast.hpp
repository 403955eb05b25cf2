// Numbers that a kernel converts to another kind (device/kernels.hpp).
//
// What      A plain value that fits into the parameters of a kernel. Pointers are borrowed, as for every
//           kernel.
#pragma once

#include "saeta/device/gather.hpp"

#include <cstdint>

namespace saeta {

struct cast_work {
  const void* source = nullptr;           ///< from row 0 on, aligned to its kind
  const std::uint8_t* validity = nullptr; ///< null: every row is valid; other rows become 0
  std::int64_t bit_offset = 0;            ///< of row 0 in `validity`
  number_kind from = number_kind::int8;   ///< not boolean
  number_kind to = number_kind::int8;     ///< not boolean
  /// True: floats become the nearest integer, ties to even, and any number becomes the nearest float. False:
  /// the number must be equal after the conversion. A NaN equals a NaN. In both cases an integer must have
  /// the range.
  bool rounds = false;
  std::int64_t count = 0;
  void* target = nullptr;          ///< aligned to its kind
  std::int64_t* bad_row = nullptr; ///< becomes the first row without such a number, or -1
};

} // namespace saeta
