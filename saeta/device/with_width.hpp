// Calls a function template for values whose width is known only at run time.
#pragma once

#include "saeta/base/error.hpp"
#include "saeta/base/export.hpp"
#include "saeta/base/text.hpp"

#include <cstdint>

namespace SAETA_EXPORT saeta {

/// Calls `run` with an unsigned integer of `width` bytes, which can copy any value of that width.
template <class Run>
void with_width(std::int32_t width, Run run) {
  switch (width) {
  case 1:
    return run(std::uint8_t{});
  case 2:
    return run(std::uint16_t{});
  case 4:
    return run(std::uint32_t{});
  case 8:
    return run(std::uint64_t{});
  default:
    throw error(errc::invalid_argument, concat("values of ", width, " bytes, expected 1, 2, 4 or 8"));
  }
}

} // namespace saeta
