// What the modules need of CPython beyond its limited API.
//
// The modules of the wheel for Python 3.12 and later are compiled with Py_LIMITED_API, without CPython's own
// declarations of these functions. Every CPython exports them, and all but the last are documented.
// scripts/build_wheels.py checks that the modules use no others.
#pragma once

#include <nanobind/nanobind.h>

#ifdef Py_LIMITED_API
extern "C" {
int PyGILState_Check(void);
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

/// An attribute of a type; null, without an exception, if it has none.
inline nanobind::object attribute_of_type(PyTypeObject* type, PyObject* name) noexcept {
#if PY_VERSION_HEX >= 0x030C0000
  auto* const object = reinterpret_cast<PyObject*>(type);
  PyObject* const found = PyObject_HasAttr(object, name) != 0 ? PyObject_GetAttr(object, name) : nullptr;
  if (found == nullptr) {
    PyErr_Clear();
  }
  return nanobind::steal(found);
#else // in 3.11, `PyObject_HasAttr` raises an AttributeError and drops it, which takes ten times as long
  return nanobind::borrow(_PyType_Lookup(type, name));
#endif
}

} // namespace saeta::py
