// Access to the bytes of a Python object.
#pragma once

#include "python/src/core/gil.hpp"

#include <nanobind/nanobind.h>

#include <cstddef>
#include <span>

namespace saeta::py {

/// The memory of a Python object with the buffer protocol (bytes, memoryview, mmap, NumPy arrays). It stays
/// valid on any thread as long as this object lives.
class python_bytes {
public:
  explicit python_bytes(nanobind::handle source) {
    if (foreign_call([&] { return PyObject_GetBuffer(source.ptr(), &view_, PyBUF_SIMPLE); }) != 0) {
      throw nanobind::python_error();
    }
  }
  python_bytes(const python_bytes&) = delete;
  python_bytes& operator=(const python_bytes&) = delete;
  ~python_bytes() {
    with_gil_or_leak([this] { PyBuffer_Release(&view_); });
  }

  [[nodiscard]] std::span<const std::byte> span() const noexcept {
    return {static_cast<const std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
  }

private:
  Py_buffer view_{};
};

} // namespace saeta::py
