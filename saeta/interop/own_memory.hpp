// Recognises our own memory that comes back through a protocol, and shares its storage without a new view.
//
// What      A tensor that we exported is recognised by its deleter. Arrays pass through other libraries,
//           which release them with callbacks of their own, so they are recognised by their addresses while
//           an export hold lives. The memory is shared again, with its ordering, budget and owner.
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

/// The storage behind a tensor that we exported; null for other tensors.
template <class Managed>
std::shared_ptr<storage> storage_of(const Managed& tensor) {
  return tensor.deleter == &exported_tensor<Managed>::give_back
             ? static_cast<const exported_tensor<Managed>*>(tensor.manager_ctx)->bytes()
             : nullptr;
}

/// These bytes of a storage as a buffer; nullopt if `ctx` does not share memory with the storage's context.
/// The next users of the storage also wait for `ready`, because the consumer may have written the bytes.
std::optional<buffer> share_again(const std::shared_ptr<storage>& bytes, const context& ctx,
                                  const void* lowest, std::size_t size, point ready);

/// A function that finds our memory among the ranges of an import; empty if no export by address lives.
/// Arguments as for shared_again.
/// @param ctx  must outlive the result.
own_memory_finder find_own(const context& ctx, const point& ready);

/// Like import_dlpack, but recognises our memory by its address, because the array has no deleter of ours.
column import_by_address(const std::shared_ptr<context>& ctx, const DLManagedTensorVersioned& source,
                         const std::shared_ptr<void>& keepalive, const dlpack_import& how);

} // namespace saeta
