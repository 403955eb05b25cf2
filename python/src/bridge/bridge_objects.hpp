// Conversions between objects of pyarrow and of libarrow, shared by the parts of the module `_bridge`.
#pragma once

#include "python/src/core/module.hpp"
#include "python/src/memory/memory_objects.hpp"

#include <arrow/buffer.h>
#include <arrow/python/pyarrow.h>
#include <arrow/result.h>

#include <memory>
#include <utility>

namespace saeta::py {

/// The result of a conversion by pyarrow. A failure raises an error of Python's kind: a TypeError for an
/// object of another class.
template <class T>
T unwrap(arrow::Result<T> result) {
  if (!result.ok()) {
    throw error(errc::type_mismatch, result.status().message());
  }
  return std::move(result).ValueUnsafe();
}

inline nb::object steal_result(PyObject* made) {
  if (made == nullptr) {
    throw nb::python_error();
  }
  return nb::steal(made);
}

inline std::shared_ptr<arrow::Buffer> buffer_in(nb::handle object) {
  return unwrap(foreign_call([&] { return arrow::py::unwrap_buffer(object.ptr()); }));
}

void bind_messages(nb::module_& m);
void bind_tables(nb::module_& m);

} // namespace saeta::py
