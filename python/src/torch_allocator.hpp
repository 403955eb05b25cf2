// The functions that torch's CUDAPluggableAllocator looks up in this library: saeta_torch_allocate, saeta_torch_free and
// saeta_torch_record_stream.
//
// Owner     torch, of the memory. The context that serves a device is kept until another one takes its place.
// Order     As torch orders: memory is used on the stream it was allocated for, and on those that record_stream named.
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
}

namespace saeta::py {

/// Serves the CUDA device of that number from now on; memory that is out comes back to where it is from.
/// @throws error out_of_range for a number that torch can't have.
void serve_torch(std::shared_ptr<context> where, std::int32_t ordinal, tag label);

} // namespace saeta::py
