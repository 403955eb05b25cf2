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
#pragma once

#include "saeta/memory/loans/graph_pool.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

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
