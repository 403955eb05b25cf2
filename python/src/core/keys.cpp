#include "python/src/core/keys.hpp"

#include "saeta/base/text.hpp"

#include <optional>

namespace saeta::py {
namespace {

/// Empty for a number of more than 64 bits.
std::optional<std::int64_t> integer_of(nb::handle number) {
  const nb::object index = foreign_call([&] { return nb::steal(PyNumber_Index(number.ptr())); });
  if (!index.is_valid()) {
    throw nb::python_error();
  }
  std::int64_t value = 0;
  return nb::try_cast(index, value) ? std::optional(value) : std::nullopt;
}

} // namespace

std::string name_of(nb::handle text) {
  Py_ssize_t size = 0;
  if (const char* const name = PyUnicode_AsUTF8AndSize(text.ptr(), &size)) {
    return {name, static_cast<std::size_t>(size)};
  }
  PyErr_Clear();
  const nb::object encoded = nb::steal(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "surrogatepass"));
  if (!encoded.is_valid()) {
    throw nb::python_error();
  }
  return {PyBytes_AsString(encoded.ptr()), static_cast<std::size_t>(PyBytes_Size(encoded.ptr()))};
}

std::size_t place_of_number(nb::handle number, std::size_t size, std::string_view kind,
                            std::string_view container) {
  const std::optional<std::int64_t> index = integer_of(number);
  const auto count = static_cast<std::int64_t>(size);
  const std::int64_t found = !index ? -1 : *index < 0 ? *index + count : *index;
  if (found < 0 || found >= count) {
    throw error(errc::out_of_range, concat(kind, " ", index ? concat(*index) : "number of more than 64 bits",
                                           " of a ", container, " with ", count, " ", kind, "s"));
  }
  return static_cast<std::size_t>(found);
}

slice_bounds bounds_of(const nb::slice& range, std::size_t size) {
  try {
    const auto [start, stop, step, length] = foreign_call([&] { return range.compute(size); });
    static_cast<void>(stop);
    return {start, step, static_cast<std::int64_t>(length)};
  } catch (nb::python_error& failure) {
    if (!failure.matches(PyExc_TypeError)) {
      throw;
    }
  }
  throw error(errc::type_mismatch, "the bounds of a slice must be numbers of rows, or None");
}

} // namespace saeta::py
