// Functions that every CPython exports, and that its limited API does not declare.
//
// A module for the stable ABI (Py_LIMITED_API) is compiled without CPython's own declarations of them, which
// therefore stand here.
#pragma once

#include <nanobind/nanobind.h>

#ifdef Py_LIMITED_API
extern "C" {
int PyGILState_Check(void);
PyInterpreterState* PyInterpreterState_Main(void);
PyObject* PyType_GetDict(PyTypeObject* type);
PyObject* _PyType_Lookup(PyTypeObject* type, PyObject* name);
int _PyBytes_Resize(PyObject** bytes, Py_ssize_t size);
// The same function: of the first name from 3.13 on, of the second before. The other one is null.
[[gnu::weak]] int Py_IsFinalizing(void);
[[gnu::weak]] int _Py_IsFinalizing(void);
}
#endif

namespace saeta::py {

/// Whether the interpreter has begun to end.
inline bool interpreter_ending() noexcept {
#ifdef Py_LIMITED_API
  return (Py_IsFinalizing != nullptr ? Py_IsFinalizing() : _Py_IsFinalizing()) != 0;
#elif PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

/// The dictionary of a type, for additions that its immutability forbids.
inline nanobind::object dict_of_type(PyTypeObject* type) noexcept {
#if PY_VERSION_HEX >= 0x030C0000
  return nanobind::steal(PyType_GetDict(type));
#else
  return nanobind::borrow(type->tp_dict);
#endif
}

} // namespace saeta::py
