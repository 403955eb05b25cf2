// What the modules need of CPython beyond its limited API.
//
// The modules of the wheel for Python 3.12 and later are compiled with Py_LIMITED_API, without CPython's own
// declarations of these functions. Every CPython exports them, and all but the last are documented.
// scripts/build_wheels.py checks that the modules use no others.

#pragma once

#include "saeta/base/foreign_call.hpp"

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <utility>

#ifdef Py_LIMITED_API
extern "C" {
int PyGILState_Check(void);
int _PyBytes_Resize(PyObject** bytes, Py_ssize_t size);
// One function under two names: the first from Python 3.13 on, the second before. The name that the
// interpreter does not have is null.
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

// The GIL: values that are destroyed without it, and Python objects that are released with it.
//
// Dropping device memory may free, unmap or wait, so it happens with the GIL released. A Python object may be
// dropped on any thread, without the GIL. If the interpreter is already ending, the object is leaked, because
// a finished interpreter must not be touched.
//
// When the interpreter ends, CPython before 3.14 ends every other thread that requests the GIL. So the
// bindings request the GIL and call Python code only inside a `foreign_call` (saeta/base/foreign_call.hpp).
// For the same reason they do not use nanobind's guards (gil_scoped_release, gil_scoped_acquire); a test in
// tests/lint checks this.
namespace nb = nanobind;

/// False once the interpreter begins to end.
inline bool interpreter_alive() noexcept { return Py_IsInitialized() != 0 && !interpreter_ending(); }

/// Releases the GIL, which the thread must hold, for the object's lifetime.
class gil_release {
public:
  gil_release() noexcept : state_(PyEval_SaveThread()) {}
  gil_release(const gil_release&) = delete;
  gil_release& operator=(const gil_release&) = delete;
  ~gil_release() {
    foreign_call([this] { PyEval_RestoreThread(state_); });
  }

private:
  PyThreadState* state_;
};

/// Holds the GIL for the object's lifetime. The thread may already hold it.
class gil_acquire {
public:
  gil_acquire() noexcept : state_(foreign_call([] { return PyGILState_Ensure(); })) {}
  gil_acquire(const gil_acquire&) = delete;
  gil_acquire& operator=(const gil_acquire&) = delete;
  ~gil_acquire() { PyGILState_Release(state_); }

private:
  PyGILState_STATE state_;
};

/// Whether a value's destructor returns at once, because other owners hold everything that it refers to.
/// Types that can tell specialise it.
template <class T>
struct end_of {
  static bool at_once(const T&) noexcept { return false; }
};

/// A value whose destructor runs with the GIL released, unless it returns at once.
template <class T>
class unlocked {
public:
  explicit unlocked(T value) : value_(std::move(value)) {}
  unlocked(const unlocked& other) = default;
  unlocked(unlocked&& other) noexcept : value_(std::move(other.value_)) { other.value_.reset(); }
  unlocked& operator=(const unlocked&) = delete;
  unlocked& operator=(unlocked&&) = delete;
  ~unlocked() {
    if (value_ && !end_of<T>::at_once(*value_) && Py_IsInitialized() != 0 && PyGILState_Check() != 0) {
      const gil_release release;
      value_.reset();
    }
  }

  const T& operator*() const noexcept { return *value_; }
  const T* operator->() const noexcept { return &*value_; }

private:
  std::optional<T> value_;
};

/// Runs `action` with the GIL released and returns its result.
template <class Action>
auto without_gil(Action&& action) {
  const gil_release release;
  return std::forward<Action>(action)();
}

/// Runs `action` without the GIL. The thread need not hold it.
template <class Action>
auto released_gil(Action&& action) {
  std::optional<gil_release> release;
  if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) {
    release.emplace();
  }
  return std::forward<Action>(action)();
}

/// Calls `drop` with the GIL held, or not at all once the interpreter is ending.
template <class Drop>
void with_gil_or_leak(Drop&& drop) noexcept {
  if (interpreter_alive()) {
    const gil_acquire acquire;
    foreign_call(std::forward<Drop>(drop));
  }
}

} // namespace saeta::py
