// The functions that torch's CUDAPluggableAllocator looks up in this library. saeta_torch_allocate and saeta_torch_free serve
// tensors; those for segments serve a torch.cuda.MemPool, where torch's own allocator hands the memory on.
//
// Owner     torch, of the memory. The context that serves a device is kept until another one takes its place.
// Order     Tensors as torch orders them: memory is used on the stream it was allocated for, and on those that record_stream
//           named. In a capture it comes from the pool that torch has opened (torch_pools.hpp). Segments are used on any
//           stream, and by graphs: they are ready when they are handed out, and come back behind all work of the device.
// Thread    Any, with or without the GIL, which is released inside.
// Failure   torch does not check the pointer that it gets, but lets an exception through as RuntimeError: allocating throws
//           saeta::error. Freeing and recording report.
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

/// Where the memory of a device comes from.
struct torch_source {
  std::shared_ptr<context> ctx;
  tag label;
};

/// Serves the CUDA device of that number from now on; memory that is out comes back to where it is from.
/// @throws error out_of_range for a number that torch can't have.
void serve_torch(torch_source from, std::int32_t ordinal, torch_memory kind);

/// @throws error invalid_argument where no context serves the device.
[[nodiscard]] torch_source source_for_torch(std::int32_t ordinal, torch_memory kind);

} // namespace saeta::py
