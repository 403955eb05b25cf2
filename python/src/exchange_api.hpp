// The DLPack C exchange API (DLPack 1.3): a table of C functions on a Python type, in place of a call of `__dlpack__`.
//
// Order     Nothing is synchronised: a producer's pending work is on its current work stream, and the consumer works there, too,
//           or waits for it. Ours is the work stream of the tensor's context, which waits for the column's last writes.
// Thread    With the GIL held, but for the allocator and for deleters.
// Standard  DLPackExchangeAPI in dlpack.h.
#pragma once

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

/// The table of a type that has one in the major version that we know, else null.
const DLPackExchangeAPI* exchange_api_of(PyTypeObject* type) noexcept;

/// After a call of a function of a table. @throws what it set; error exchange where it failed without.
void require_success(const char* type_name, bool succeeded);

/// A CUDA stream as DLPack numbers it: a null handle is the legacy default stream.
constexpr std::int64_t dlpack_stream(std::int64_t handle) noexcept { return handle == 0 ? 1 : handle; }

/// The stream that the library of a table works on, as DLPack numbers streams. @throws as require_success
std::int64_t work_stream_by(const DLPackExchangeAPI& table, tensor_device device, const char* type_name);

/// What `Column.__dlpack_device__` says.
tensor_device device_of(const column_object& source);

/// A class of a library that somebody has imported already, else null. Borrowed: a class lives as long as its library.
PyTypeObject* class_of_library(PyObject* library, PyObject* name) noexcept;

/// Whether it is of such a class, or of one derived from it.
bool is_instance_of(nanobind::handle object, PyObject* library, PyObject* name) noexcept;

/// A module that somebody has imported already, else null. Borrowed.
PyObject* imported_module(PyObject* name) noexcept;

/// A column on the host or a GPU as an object of a class that has a table, ordered on the stream that its library works on. A null
/// object where the class is not there or has no table, and for other memory.
nanobind::object export_by_table(const column_object& source, PyObject* library, PyObject* name);

/// The process's context of a tensor's device, opened where it is not yet. @throws error exchange for other devices.
std::shared_ptr<context> context_for(tensor_device device);

} // namespace saeta::py
