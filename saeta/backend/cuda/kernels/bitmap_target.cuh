// The bitmap that a kernel writes, in whole vectors of 16 bytes, padding included.
#pragma once

#include "saeta/backend/cuda/kernels/bit_stream.cuh"
#include "saeta/base/text.hpp"

#include <cstdint>

namespace saeta::cuda {

inline uint4* bitmap_target(std::uint8_t* target) {
  if (reinterpret_cast<std::uintptr_t>(target) % vector_bytes != 0) {
    throw error(errc::invalid_argument, concat("target of a bitmap: ", static_cast<const void*>(target),
                                               " is not aligned to ", vector_bytes, " bytes"));
  }
  return reinterpret_cast<uint4*>(target);
}

} // namespace saeta::cuda
