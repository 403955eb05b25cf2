// What the parts of the module `_bridge` share: pyarrow's objects to libarrow's and back.
#pragma once

#include "memory_objects.hpp"
#include "module.hpp"

#include <arrow/buffer.h>
#include <arrow/python/pyarrow.h>
#include <arrow/result.h>

#include <memory>
#include <utility>

namespace saeta::py {

/// What pyarrow's conversions answer. Their errors are those of Python: an object of another class is a TypeError.
template <class T>
T taken(arrow::Result<T> result) {
  if (!result.ok()) {
    throw error(errc::type_mismatch, result.status().message());
  }
  return std::move(result).ValueUnsafe();
}

inline nb::object shown(PyObject* made) {
  if (made == nullptr) {
    throw nb::python_error();
  }
  return nb::steal(made);
}

inline std::shared_ptr<arrow::Buffer> buffer_in(nb::handle object) {
  return taken(foreign_call([&] { return arrow::py::unwrap_buffer(object.ptr()); }));
}

void bind_messages(nb::module_& m);
void bind_tables(nb::module_& m);

} // namespace saeta::py
