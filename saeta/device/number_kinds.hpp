// Maps a kind of number to its type, for the kernels of the host and of a GPU.
#pragma once

#include "saeta/device/gather.hpp"

#include <cstdint>

namespace saeta {

/// Calls `run` with a value of the kind's type. Each backend has its own half and bool types.
template <class Half, class Truth, class Run>
void with_number(number_kind kind, Run run) {
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
