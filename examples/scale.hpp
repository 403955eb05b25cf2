// The user's kernel in trip.cpp: a CUDA kernel with a CUDA toolkit (scale.cu), otherwise a loop (scale.cpp).
#pragma once

#include "saeta/device/stream.hpp"

#include <cstdint>

inline constexpr float scale_factor = 0.9F;

/// Whether `scale` can run on a GPU; on the host it always can.
bool scale_knows_cuda();

/// target[i] = scale_factor * source[i], queued on the stream.
void scale(saeta::stream_ref stream, const float* source, std::int64_t length, float* target);

/// The same on the calling thread.
inline void scale_on_host(const float* source, std::int64_t length, float* target) {
  for (std::int64_t i = 0; i < length; ++i) {
    target[i] = scale_factor * source[i];
  }
}
