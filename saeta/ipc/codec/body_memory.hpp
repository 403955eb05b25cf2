// Host memory for bodies that are read and for buffers that are decoded.
//
// What      Memory of a host context, which its columns may keep; for a device, ordinary memory that is freed
//           when the columns have been copied out of it.
// Owner     Each piece has an owner of its own.
// Budget    Charged while it lives: to the context's budget, for a device to that of page-locked memory.
// Failure   budget_exceeded, out_of_memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace saeta {
class context;
}

namespace saeta::ipc::detail {

/// Bytes that begin at a multiple of 64.
struct owned_bytes {
  std::span<std::byte> bytes;
  std::shared_ptr<void> owner;
};

owned_bytes allocate_body(const std::shared_ptr<context>& ctx, std::size_t bytes);
/// Memory that nothing counts, for a body that is copied from at once.
owned_bytes allocate_uncharged(std::size_t bytes);
/// The same, of which only some ranges are written: the system allocates only those pages. So the offsets of
/// a message stay valid when only some of its columns are read.
owned_bytes allocate_sparse(std::size_t bytes);

} // namespace saeta::ipc::detail
