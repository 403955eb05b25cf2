// Access to the bytes of a Python object.

#pragma once

#include "python/src/core/gil.hpp"
#include "python/src/core/objects.hpp"
#include "saeta/base/text.hpp"

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

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

// Buffers as columns of bytes, and back: how the body of a packed table appears in Python.

/// A column of uint8 over the bytes.
inline column_object column_of_bytes(const std::shared_ptr<context>& ctx, const buffer& bytes) {
  field described{"body", data_type(type_id::uint8), false, {}};
  column::parts parts;
  parts.type = described.type;
  parts.length = static_cast<std::int64_t>(bytes.size());
  parts.null_count = 0;
  parts.buffers = {buffer(), bytes};
  return {std::move(described), ctx, {column::make(ctx, std::move(parts))}};
}

/// The bytes of a column of uint8; absent if it has none. @throws error type_mismatch.
inline buffer bytes_of_column(const column_object& of) {
  const std::vector<column>& pieces = *of.pieces;
  if (of.described->type != data_type(type_id::uint8) || pieces.size() > 1) {
    throw error(errc::type_mismatch, concat("the body is a column of ", of.described->type.name(), " with ",
                                            pieces.size(), " chunks, expected one chunk of uint8"));
  }
  if (pieces.empty() || pieces.front().length() == 0) {
    return {};
  }
  const column& bytes = pieces.front();
  return bytes.values().slice(static_cast<std::size_t>(bytes.offset()),
                              static_cast<std::size_t>(bytes.length()));
}

} // namespace saeta::py
