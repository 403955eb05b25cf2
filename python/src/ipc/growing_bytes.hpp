// A bytes object that is filled piece by piece, so that the data is never held twice.
#pragma once

#include "python/src/core/gil.hpp"

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

namespace saeta::py {

/// Constructed and taken with the GIL held. `append` is called without it.
class growing_bytes {
public:
  /// @param expected  size in bytes; the object grows beyond it if needed.
  explicit growing_bytes(std::size_t expected) { resize(expected + slack); }
  growing_bytes(const growing_bytes&) = delete;
  growing_bytes& operator=(const growing_bytes&) = delete;
  ~growing_bytes() { Py_XDECREF(bytes_); }

  void append(std::span<const std::byte> piece) {
    if (piece.size() > room_ - size_) {
      const gil_acquire acquire;
      resize(std::max(size_ + piece.size(), room_ + room_ / 2));
    }
    std::memcpy(PyBytes_AsString(bytes_) + size_, piece.data(), piece.size());
    size_ += piece.size();
  }

  nanobind::object take() {
    resize(size_);
    return nanobind::steal(std::exchange(bytes_, nullptr));
  }

private:
  static constexpr std::size_t slack = std::size_t{4}
                                       << 10; ///< for the schema, metadata and footer of a narrow table

  /// @throws nb::python_error MemoryError; the object is then gone.
  void resize(std::size_t bytes) {
    const auto wanted = static_cast<Py_ssize_t>(bytes);
    if (bytes_ == nullptr) {
      bytes_ = PyBytes_FromStringAndSize(nullptr, wanted);
    } else {
      _PyBytes_Resize(&bytes_, wanted);
    }
    if (bytes_ == nullptr) {
      throw nanobind::python_error();
    }
    room_ = bytes;
  }

  PyObject* bytes_ = nullptr;
  std::size_t room_ = 0;
  std::size_t size_ = 0;
};

} // namespace saeta::py
