// Lent memory: blocks of a context for allocators that know memory by its address alone (RMM and cuda::mr, torch's
// pluggable allocator, CuPy).
//
// What      `lend_memory` allocates and remembers the address, `take_back_memory` frees by it. There is one table for
//           the process, because memory may come back through another object, or another library, than it went out.
//           On a stream that captures a graph the memory is that of a graph pool (memory/loans/graph_pool.hpp), which says when it
//           is used again.
// Owner     The borrower. Until it comes back the memory keeps its context alive, and it counts in its budget, ledger and
//           tag as a buffer does.
// Order     Ready on the stream it was lent on. Coming back on a stream says that what is queued there by then is the last
//           to use it. Where no stream is known, one event over all work of the context stands before any reuse; where the
//           stream captures a graph, that event comes after the capture. The host waits in neither case.
// Thread    Any. Neither call holds a lock while it allocates or frees.
// Failure   Lending fails as buffer::allocate does. Taking back reports and never throws: memory that can't be fenced on
//           its stream waits for all work of the context, an address that was not lent is left alone.
#pragma once

#include "saeta/device/stream.hpp"
#include "saeta/observe/tag.hpp"

#include <cstddef>
#include <memory>
#include <optional>

namespace saeta {

class context;
class graph_pool;

/// Null for 0 bytes, which count as a request and need not come back. On a stream that captures, from the graph pool that is
/// open on the calling thread, and charged to its context under its tag.
/// @throws error budget_exceeded, out_of_memory, invalid_argument (the alignment, or a capture without a pool), closed.
[[nodiscard]] void* lend_memory(const std::shared_ptr<context>& ctx, std::size_t bytes, stream_ref stream,
                                tag label, std::size_t alignment = 0);

/// From a graph pool, which need not be open.
[[nodiscard]] void* lend_memory(const std::shared_ptr<graph_pool>& from, std::size_t bytes, stream_ref stream,
                                std::size_t alignment = 0);

/// Memory that any stream may use at once, one that captures a graph too: the host waits for its earlier users.
[[nodiscard]] void* lend_ready_memory(const std::shared_ptr<context>& ctx, std::size_t bytes, tag label,
                                      std::size_t alignment = 0);

/// Says that the memory is used on this stream, too: until it comes back the stream must exist.
void note_lent_use(void* address, stream_handle stream) noexcept;

/// @param bytes   as lent; another number is reported, and the whole block comes back.
/// @param stream  nothing where the streams that used the memory are not known.
void take_back_memory(void* address, std::size_t bytes, std::optional<stream_handle> stream) noexcept;

} // namespace saeta
