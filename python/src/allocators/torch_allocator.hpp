// The functions that torch's CUDAPluggableAllocator looks up in this library. saeta_torch_allocate and
// saeta_torch_free serve tensors. The functions for segments serve a torch.cuda.MemPool, whose memory torch's
// own allocator divides.
//
// Owner     torch owns the memory. The context that serves a device is kept until another one replaces it.
// Order     Tensors: torch uses memory on the stream it was allocated for and on the streams passed to
//           record_stream. In a capture, memory comes from the pool that torch has opened (torch_pools.hpp).
//           Segments: any stream and graph may use them. They are ready on return, and are freed after all
//           work of the device.
// Thread    Any, with or without the GIL, which is released inside.
// Failure   torch does not check the returned pointer but turns an exception into a RuntimeError, so
//           allocation throws saeta::error. Freeing and recording report failures.
#pragma once

#include "saeta/memory/context.hpp"

#include <cstdint>
#include <memory>

#include <sys/types.h>

// `stream` is a cudaStream_t.
extern "C" {
__attribute__((visibility("default"))) void* saeta_torch_allocate(ssize_t bytes, int device, void* stream);
__attribute__((visibility("default"))) void saeta_torch_free(void* address, ssize_t bytes, int device,
                                                             void* stream) noexcept;
__attribute__((visibility("default"))) void saeta_torch_record_stream(void* address, void* stream) noexcept;
__attribute__((visibility("default"))) void* saeta_torch_allocate_segment(ssize_t bytes, int device,
                                                                          void* stream);
__attribute__((visibility("default"))) void saeta_torch_free_segment(void* address, ssize_t bytes, int device,
                                                                     void* stream) noexcept;
}

namespace saeta::py {

enum class torch_memory { tensors, segments };

/// The source of a device's memory.
struct torch_source {
  std::shared_ptr<context> ctx;
  tag label;
};

/// Serves the CUDA device with this ordinal from now on. Memory allocated before still returns to its own
/// source.
/// @throws error out_of_range for an ordinal that torch can't have.
void serve_torch(torch_source from, std::int32_t ordinal, torch_memory kind);

/// @throws error invalid_argument if no context serves the device.
[[nodiscard]] torch_source source_for_torch(std::int32_t ordinal, torch_memory kind);

} // namespace saeta::py
