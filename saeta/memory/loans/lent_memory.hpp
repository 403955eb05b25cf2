// Lent memory: blocks of a context for allocators that identify memory by its address alone (RMM and
// cuda::mr, torch's pluggable allocator, CuPy).
//
// What      `lend_memory` allocates and records the address; `take_back_memory` frees by address. One table
//           serves the process, because memory may come back through another object or library than the one
//           that lent it. On a stream that captures a graph the memory comes from a graph pool
//           (memory/loans/graph_pool.hpp), which decides when it is reused.
// Owner     The borrower. Until it comes back the memory keeps its context alive, and it counts in the
//           budget, the ledger and its tag as a buffer does.
// Order     Ready on the stream it was lent on. Returning memory on a stream promises that the work already
//           queued there is its last use. If no stream is known, the memory is reused only after an event
//           over all work of the context; if the stream captures a graph, that event is recorded after the
//           capture. The host waits in neither case.
// Thread    Any. Neither call holds a lock while it allocates or frees.
// Failure   Lending fails as buffer::allocate does. Taking back reports and never throws: memory that can't
//           be fenced on its stream waits for all work of the context, and an address that was not lent is
//           left alone.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/device/stream.hpp"
#include "saeta/observe/tag.hpp"

#include <cstddef>
#include <memory>
#include <optional>

namespace SAETA_EXPORT saeta {

class context;
class graph_pool;
class storage;

/// Returns null for 0 bytes, which count as a request and need not come back. On a stream that captures, the
/// memory comes from the graph pool that is open on the calling thread, and is charged to the pool's context
/// and tag.
/// @throws error budget_exceeded, out_of_memory, invalid_argument (the alignment, or a capture without a
/// pool), closed.
[[nodiscard]] void* lend_memory(const std::shared_ptr<context>& ctx, std::size_t bytes, stream_ref stream,
                                tag label, std::size_t alignment = 0);

/// Lends from a graph pool, which need not be open.
[[nodiscard]] void* lend_memory(const std::shared_ptr<graph_pool>& from, std::size_t bytes, stream_ref stream,
                                std::size_t alignment = 0);

/// Lends memory that any stream may use at once, even one that captures a graph: the host waits for its
/// earlier users.
[[nodiscard]] void* lend_ready_memory(const std::shared_ptr<context>& ctx, std::size_t bytes, tag label,
                                      std::size_t alignment = 0);

/// The storage of lent memory, to be kept beyond the loan: once the borrower has returned the memory, it
/// belongs to the owners of the storage, charged and tagged as it was lent. Until then only the borrower may
/// use it. Returns null for an address that was not lent, and for memory of a graph pool.
[[nodiscard]] std::shared_ptr<storage> find_lent(const void* address);

/// Notes that the memory is also used on this stream. The stream must exist until the memory comes back.
void note_lent_use(void* address, stream_handle stream) noexcept;

/// @param bytes   as lent; a different number is reported, and the whole block comes back.
/// @param stream  nullopt if the streams that used the memory are not known.
void take_back_memory(void* address, std::size_t bytes, std::optional<stream_handle> stream) noexcept;

} // namespace saeta
