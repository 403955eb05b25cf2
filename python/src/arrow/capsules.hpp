// PyCapsules of the Arrow PyCapsule Interface and of DLPack's Python specification. Only this code opens
// them.
//
// Owner     A capsule that was not consumed releases its struct when it is destroyed. Consuming an Arrow
//           capsule moves the struct out and marks the original as released. Consuming a DLPack capsule
//           renames it to "used_...".
// Thread    With the GIL held. An exported struct may be released on any thread.
// Failure   error invalid_argument for an object that is not a capsule of the wanted name, closed for a
//           consumed one.
// Standard  arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface,
//           dmlc.github.io/dlpack (Python Specification).
#pragma once

#include "python/src/core/objects.hpp"
#include "saeta/column/schema.hpp"
#include "saeta/column/table.hpp"
#include "saeta/interop/arrow/c_data.hpp"
#include "saeta/interop/arrow/device.hpp"
#include "saeta/interop/arrow/owned.hpp"
#include "saeta/interop/dlpack/dlpack.hpp"

#include <dlpack/dlpack.h>
#include <nanoarrow.h>
#include <nanobind/nanobind.h>

#include <memory>
#include <utility>
#include <variant>

namespace saeta::py {

namespace nb = nanobind;

nb::object schema_capsule(const schema& source, symbol_form symbols = symbol_form::dictionary);
nb::object schema_capsule(const field& source, symbol_form symbols = symbol_form::dictionary);
/// Schema and array of one piece, as `__arrow_c_array__` returns them. Releases the GIL.
nb::object array_capsules(const field& described, const column& piece);
/// A lazy stream of the batches. Releases the GIL.
nb::object stream_capsule(const table& source);
nb::object stream_capsule(const field& described, std::vector<column> pieces);

/// The same on the memory's own device, as `__arrow_c_device_array__` and `__arrow_c_device_stream__` return
/// them.
nb::object device_array_capsules(const field& described, const column& piece);
/// A table as one struct array. Joins its batches. @throws error exchange if they can't be joined.
nb::object device_array_capsules(const table& source);
nb::object device_stream_capsule(const table& source);
nb::object device_stream_capsule(const field& described, std::vector<column> pieces);

nb::object dlpack_capsule(dlpack_tensor tensor);
nb::object dlpack_capsule(dlpack_legacy_tensor tensor);

/// An Arrow struct that is moved from a capsule to an import. The destructor puts it back unless an import
/// took it.
template <class Struct>
class taken {
public:
  explicit taken(nb::handle capsule);
  taken(const taken&) = delete;
  taken& operator=(const taken&) = delete;
  ~taken();

  [[nodiscard]] Struct& get() noexcept { return moved_; }

private:
  Struct* source_;
  Struct moved_{};
};

/// Reads a schema capsule without consuming it.
const ArrowSchema& schema_of(nb::handle capsule);

/// A tensor that is moved from a capsule to an import. The capsule is marked as used at once, so that no
/// other thread can take it. The destructor removes the mark unless `keep` was called.
class taken_tensor {
public:
  using pointer = std::variant<DLManagedTensorVersioned*, DLManagedTensor*>;

  explicit taken_tensor(nb::handle capsule);
  taken_tensor(const taken_tensor&) = delete;
  taken_tensor& operator=(const taken_tensor&) = delete;
  ~taken_tensor();

  [[nodiscard]] const pointer& get() const noexcept { return tensor_; }
  /// Call when the tensor has a new owner.
  void keep() noexcept { kept_ = true; }

private:
  nb::handle capsule_;
  pointer tensor_;
  bool kept_ = false;
};

/// Calls `import` with a tensor and its keepalive, or with its owner if there is none. The tensor stays the
/// caller's if the import fails.
template <class Import>
auto import_from(const taken_tensor::pointer& tensor, const std::shared_ptr<void>& keepalive,
                 const Import& import) {
  return std::visit(
      [&]<class Managed>(Managed* source) {
        if (keepalive != nullptr) {
          return import(*source, keepalive);
        }
        std::unique_ptr<Managed, dlpack_deleter> owner(source);
        try {
          return import(std::move(owner));
        } catch (...) {
          static_cast<void>(owner.release());
          throw;
        }
      },
      tensor);
}

/// Applies `requested_schema=` of an export: None, or a schema with as many fields as the source. If a
/// requested type is a view of ours (column/view_cast.hpp), the column is exported with that type. Other
/// types are left to the consumer's cast, as the standard allows. Names and metadata do not change.
/// @throws error invalid_argument for a different number of fields.
column_object as_requested(const column_object& source, nb::handle requested);
table as_requested(const table& source, nb::handle requested);

} // namespace saeta::py
