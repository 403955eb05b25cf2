// The functions that torch's CUDAPluggableAllocator looks up in this library. saeta_torch_allocate and
// saeta_torch_free serve tensors. The functions for segments serve a torch.cuda.MemPool, whose memory torch's
// own allocator divides.
//
// Owner     torch owns the memory. The context that serves a device is kept until another one replaces it.
// Order     Tensors: torch uses memory on the stream it was allocated for and on the streams passed to
//           record_stream. In a capture, memory comes from the pool that torch has opened (below).
//           Segments: any stream and graph may use them. They are ready on return, and are freed after all
//           work of the device.
// Thread    Any, with or without the GIL, which is released inside.
// Failure   torch does not check the returned pointer but turns an exception into a RuntimeError, so
//           allocation throws saeta::error. Freeing and recording report failures.

#pragma once

#include "saeta/memory/context.hpp"
#include "saeta/memory/loans/graph_pool.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

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

// The pools that torch opens for its graphs, by its hooks beginAllocateToPool, endAllocateToPool and
// releasePool.
//
// What      torch identifies a pool by a pair of numbers. Between begin and end, allocations on streams that
//           the filter admits come from that pool. A begin also adds an owner to the pool, and a release
//           removes one. The filter of torch.cuda.graph admits the streams of its capture, on any thread. It
//           refers to the graph, and torch calls it only between begin and end. If a capture fails, torch may
//           leave its pool open, as in its own allocator.
// Thread    Any, with or without the GIL. The filter is called under a lock, as in torch's own allocator.
// Failure   The hooks report errors, because torch expects none. If a pool can't be opened, the allocation
//           fails later.
struct CUstream_st;

namespace saeta::py {

/// c10::MempoolId_t.
using torch_pool_id = std::pair<unsigned long long, unsigned long long>;
/// torch passes it by value, so it must be the std::function of the C++ library that torch was built with.
using torch_stream_filter = std::function<bool(CUstream_st*)>;

/// The pool that currently admits the stream; null if none does.
[[nodiscard]] std::shared_ptr<graph_pool> torch_pool_for(std::int32_t ordinal, void* stream);

} // namespace saeta::py

extern "C" {
__attribute__((visibility("default"))) void
saeta_torch_begin_pool(int device, saeta::py::torch_pool_id id,
                       saeta::py::torch_stream_filter admits) noexcept;
__attribute__((visibility("default"))) void saeta_torch_end_pool(int device,
                                                                 saeta::py::torch_pool_id id) noexcept;
__attribute__((visibility("default"))) void saeta_torch_release_pool(int device,
                                                                     saeta::py::torch_pool_id id) noexcept;
}
