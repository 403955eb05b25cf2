// The pools that torch opens for its graphs: its hooks beginAllocateToPool, endAllocateToPool and releasePool.
//
// What      torch names a pool by a pair of numbers. Between begin and end, what its filter admits comes from that pool; a
//           begin is also one more owner, and a release one less. The filter of torch.cuda.graph admits the streams of its
//           capture, on any thread. It refers to the graph, and torch calls it only between begin and end.
//           Where a capture fails, torch may leave its pool open, here as in its own allocator.
// Thread    Any, with or without the GIL. The filter is called under a lock, as torch's own allocator calls it.
// Failure   The hooks report: torch expects nothing. What can't be opened is refused when it allocates.
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
/// torch passes it by value, so it must be the std::function of the C++ library that torch is built with.
using torch_stream_filter = std::function<bool(CUstream_st*)>;

/// The pool that admits the stream now; null where none does.
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
