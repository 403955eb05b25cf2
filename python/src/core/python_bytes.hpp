// Access to the bytes of a Python object.
#pragma once

#include "python/src/core/gil.hpp"

#include <nanobind/nanobind.h>

#include <cstddef>
#include <span>
#include <type_traits>

namespace saeta::py {

/// The memory of a Python object with the buffer protocol (bytes, memoryview, mmap, NumPy arrays). It stays
/// valid on any thread as long as this object lives.
template <class Byte>
class buffer_bytes {
public:
  explicit buffer_bytes(nanobind::handle of) {
    constexpr int access = std::is_const_v<Byte> ? PyBUF_SIMPLE : PyBUF_WRITABLE;
    if (foreign_call([&] { return PyObject_GetBuffer(of.ptr(), &view_, access); }) != 0) {
      throw nanobind::python_error();
    }
  }
  buffer_bytes(const buffer_bytes&) = delete;
  buffer_bytes& operator=(const buffer_bytes&) = delete;
  ~buffer_bytes() {
    with_gil_or_leak([this] { PyBuffer_Release(&view_); });
  }

  [[nodiscard]] std::span<Byte> span() const noexcept {
    return {static_cast<Byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
  }

private:
  Py_buffer view_{};
};

using python_bytes = buffer_bytes<const std::byte>;
using writable_bytes = buffer_bytes<std::byte>;

} // namespace saeta::py
