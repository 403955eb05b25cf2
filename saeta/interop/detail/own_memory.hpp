// Memory of ours that comes back through a protocol: the buffer of its storage, in place of a view that knows nothing of it.
//
// What      A tensor that we exported is known by its deleter; an array that others know by its address alone, by that, while the
//           hold of its export lives. What was exported is shared again, with its ordering, budget and owner.
// Thread    Any.
#pragma once

#include "saeta/interop/detail/managed_tensor.hpp"
#include "saeta/interop/dlpack.hpp"

#include <cstddef>
#include <memory>
#include <optional>

namespace saeta {

/// An export by address, so that an import finds it.
class known_export {
public:
  explicit known_export(const buffer& shown);
  known_export(const known_export&) = delete;
  known_export& operator=(const known_export&) = delete;
  ~known_export();

private:
  export_hold hold_;
  std::shared_ptr<storage> bytes_; ///< null where there are none
};

/// The storage around these bytes of which an export by address lives; null where there is none.
std::shared_ptr<storage> find_known(const void* lowest, std::size_t bytes);

/// The storage that a tensor of ours shows; null for tensors of others.
template <class Managed>
std::shared_ptr<storage> storage_of(const Managed& tensor) {
  return tensor.deleter == &exported_tensor<Managed>::give_back
             ? static_cast<const exported_tensor<Managed>*>(tensor.manager_ctx)->bytes()
             : nullptr;
}

/// These bytes of a storage as a buffer, for a context that shares with the storage's. `ready` is what the storage's next users
/// wait for, too: whoever had the bytes may have written them.
std::optional<buffer> shared_again(const std::shared_ptr<storage>& bytes, const context& home,
                                   const void* lowest, std::size_t size, point ready);

/// As import_dlpack, of an array that says nothing but where it lies.
column import_by_address(const std::shared_ptr<context>& home, DLManagedTensorVersioned* source,
                         const dlpack_import& how);

} // namespace saeta
