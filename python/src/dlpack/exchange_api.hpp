// The DLPack C exchange API (DLPack 1.3): a table of C functions on a Python type, used instead of
// `__dlpack__`.
//
// Order     Nothing is synchronized. A producer's pending work is on its current work stream; the consumer
//           works on that stream or waits for it. Our current work stream is the one of the tensor's context,
//           which waits for the column's last writes.
// Thread    With the GIL held, except for the allocator and deleters.
// Standard  DLPackExchangeAPI in dlpack.h.
#pragma once

#include "saeta/base/foreign_call.hpp"
#include "saeta/interop/dlpack/types.hpp"

#include <dlpack/dlpack.h>
#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>

namespace saeta {
class context;
}

namespace saeta::py {

struct column_object;

/// The table of a type, if it has one of our major version; otherwise null.
const DLPackExchangeAPI* exchange_api_of(PyTypeObject* type) noexcept;
/// Whether it is the table of our columns.
bool is_own(const DLPackExchangeAPI& table) noexcept;

/// Checks the result of a function of a table. @throws the Python exception that it set; error exchange if it
/// failed without one.
void require_success(nanobind::handle type, bool succeeded);

/// DLPack's number of a CUDA stream. A null handle is the legacy default stream.
constexpr std::int64_t dlpack_stream(std::int64_t handle) noexcept { return handle == 0 ? 1 : handle; }

/// DLPack's number of the stream that the table's library works on. @throws as require_success
std::int64_t work_stream_by(const DLPackExchangeAPI& table, tensor_device device, nanobind::handle type);

/// The result of `Column.__dlpack_device__`.
tensor_device device_of(const column_object& source);

/// A class of a library, if the library is already imported; otherwise null. A borrowed reference: a class
/// lives as long as its library.
PyTypeObject* class_of_library(PyObject* library, PyObject* name) noexcept;

/// Whether an object is an instance of such a class or of a derived one.
bool is_instance_of(nanobind::handle object, PyObject* library, PyObject* name) noexcept;

/// A module, if it is already imported; otherwise null. A borrowed reference.
PyObject* imported_module(PyObject* name) noexcept;

/// Exports a column on the host or a GPU through the table of the class, ordered on the stream that its
/// library works on. Returns a null object if the class is not imported or has no table, and for other
/// memory.
nanobind::object export_by_table(const column_object& source, PyObject* library, PyObject* name);

/// The process's context of a tensor's device; opens it if needed. @throws error exchange for unknown
/// devices.
std::shared_ptr<context> context_for(tensor_device device);

} // namespace saeta::py
