// Converts between CUDA's streams and Saeta's stream handles.
#pragma once

#include "saeta/device/handles.hpp"

#include <cuda/stream>
#include <cuda_runtime_api.h>

namespace saeta {

/// The meaning of CUDA's null stream in the file that includes this. It depends on how that file is compiled.
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
inline constexpr stream_handle default_stream = per_thread_stream;
#else
inline constexpr stream_handle default_stream = legacy_stream;
#endif

[[nodiscard]] inline stream_handle to_handle(cuda::stream_ref stream) noexcept {
  const auto value = reinterpret_cast<std::uintptr_t>(stream.get());
  return value == 0 ? default_stream : stream_handle{value};
}

/// The result borrows the stream.
[[nodiscard]] inline cuda::stream_ref to_cuda_stream(stream_handle stream) noexcept {
  return cuda::stream_ref{reinterpret_cast<cudaStream_t>(stream)};
}

} // namespace saeta
