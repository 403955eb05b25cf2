// Memory of ours that comes back through a protocol: the buffer of its storage, in place of a view that knows nothing of it.
//
// What      A tensor that we exported is known by its deleter. Arrays pass through other libraries, which release them by callbacks of
//           their own: they are known by their addresses while the hold of an export lives. What was exported is shared again, with
//           its ordering, budget and owner.
// Thread    Any.
#pragma once

#include "saeta/interop/dlpack/dlpack.hpp"
#include "saeta/interop/dlpack/managed_tensor.hpp"
#include "saeta/interop/known_memory.hpp"
#include "saeta/transfer/upload.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

namespace saeta {

/// The storage that a tensor of ours shows; null for tensors of others.
template <class Managed>
std::shared_ptr<storage> storage_of(const Managed& tensor) {
  return tensor.deleter == &exported_tensor<Managed>::give_back
             ? static_cast<const exported_tensor<Managed>*>(tensor.manager_ctx)->bytes()
             : nullptr;
}

/// These bytes of a storage as a buffer, for a context that shares with the storage's. `ready` is what the storage's next users
/// wait for, too: whoever had the bytes may have written them.
std::optional<buffer> shared_again(const std::shared_ptr<storage>& bytes, const context& ctx,
                                   const void* lowest, std::size_t size, point ready);

/// Finds memory of ours among the ranges of an import; empty where no export by address lives. Arguments as of shared_again.
/// @param ctx  outlives what is returned.
own_memory_finder find_own(const context& ctx, const point& ready);

/// As import_dlpack, of an array that says nothing but where it lies.
column import_by_address(const std::shared_ptr<context>& ctx, DLManagedTensorVersioned* source,
                         const dlpack_import& how);

} // namespace saeta
