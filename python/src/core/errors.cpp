// The table from error codes to Python's exception classes, which saeta/errors.py defines.
#include "python/src/core/gil.hpp"
#include "python/src/core/module.hpp"
#include "saeta/base/text.hpp"
#include "saeta/runtime/runtime.hpp"
#include "saeta/spill/spill.hpp"

#include <array>
#include <cerrno>
#include <exception>
#include <new>
#include <string>

namespace saeta::py {
namespace {

struct row {
  errc code;
  const char* name;
  PyObject* type = nullptr; ///< kept until the process ends, because a translator may run until then
};

std::array error_classes{
    row{errc::budget_exceeded, "BudgetExceeded"},
    row{errc::out_of_memory, "OutOfMemory"},
    row{errc::device, "DeviceError"},
    row{errc::device_lost, "DeviceLost"},
    row{errc::type_mismatch, "TypeMismatch"},
    row{errc::out_of_range, "OutOfRange"},
    row{errc::overflow, "SizeOverflow"},
    row{errc::format, "FormatError"},
    row{errc::io, "FileError"}, // or MissingFileError, if the file does not exist
    row{errc::exchange, "ExchangeError"},
    row{errc::unsupported, "UnsupportedError"},
    row{errc::closed, "ClosedError"},
    row{errc::busy, "BusyError"},
    row{errc::download_forbidden, "DownloadForbidden"},
    row{errc::invalid_argument, "InvalidError"},
    row{errc::column_name, "ColumnNameError"},
};

PyObject* missing_file_error = nullptr; ///< `MissingFileError`, kept like the classes above
nb::handle errors_module;               ///< `saeta.errors`, kept as well

nb::handle class_of(const error& failure) {
  if (failure.code() == errc::io && (failure.error_number() == ENOENT || failure.error_number() == ENOTDIR)) {
    return missing_file_error;
  }
  for (const row& known : error_classes) {
    if (known.code == failure.code()) {
      return known.type;
    }
  }
  return PyExc_RuntimeError;
}

nb::dict numbers_of(const budget_refusal& refusal) {
  nb::dict numbers;
  numbers["layer"] = nb::str(refusal.layer.c_str(), refusal.layer.size());
  numbers["requested"] = refusal.requested;
  numbers["current"] = refusal.current;
  numbers["reserved"] = refusal.reserved;
  numbers["kept"] = refusal.kept;
  numbers["required"] = nb::steal(PyLong_FromString(decimal(refusal.required).c_str(), nullptr, 10));
  numbers["limit"] = refusal.limit;
  numbers["remaining"] = refusal.remaining;
  numbers["peak"] = refusal.peak;
  numbers["owners"] = bytes_dict(refusal.owners);
  numbers["others"] = bytes_dict(refusal.others);
  return numbers;
}

/// What the message of a refusal of host memory adds: how spillable tables could make room.
std::string way_out_of(const error& failure) noexcept {
  if (failure.refusal() == nullptr || failure.refusal()->layer.starts_with("cuda")) {
    return {};
  }
  try {
    return without_gil([] {
      const auto host = find_context(device_id{});
      const std::string hint = host ? spill_hint(host) : std::string();
      return hint.empty() ? hint : "; " + hint;
    });
  } catch (...) {
    return {}; // the handles belong to the parent of this process
  }
}

/// The keyword arguments of the class.
nb::dict numbers_of(const error& failure) {
  if (failure.refusal() != nullptr) {
    return numbers_of(*failure.refusal());
  }
  nb::dict numbers;
  if (failure.code() == errc::io && failure.error_number() != 0) {
    numbers["errno"] = failure.error_number();
  }
  return numbers;
}

} // namespace

nb::dict bytes_dict(const budget_refusal::bytes_by_tag& bytes) {
  nb::dict result;
  for (const auto& [name, count] : bytes) {
    result[nb::str(name.c_str(), name.size())] = count;
  }
  return result;
}

void raise(const error& failure) {
  const nb::handle type = class_of(failure);
  const std::string text = failure.message() + way_out_of(failure);
  // Text from a C string or a file may not be valid UTF-8.
  const nb::object message =
      nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
  const nb::dict numbers = numbers_of(failure);
  // The classes are Python's, so the call may end this thread. It must not be unwound through `message` and
  // `numbers`, which a thread without the GIL can't release.
  const nb::object made = foreign_call([&] { return type(message, **numbers); });
  PyErr_SetObject(type.ptr(), made.ptr());
}

namespace {

void raise_or_fail(const error& failure) {
  try {
    foreign_call([&] { raise(failure); });
  } catch (nb::python_error& while_raising) {
    while_raising.restore();
  }
}

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const error& failure) {
    raise_or_fail(failure);
  } catch (const nb::cast_error&) { // a function took any object, and a cast of it failed
    raise_or_fail(
        error(errc::type_mismatch, "an object has an unexpected type, or a number has more than 64 bits"));
  } catch (const std::bad_alloc&) {
    raise_or_fail(error(errc::out_of_memory, "host: the system is out of memory"));
  }
}

} // namespace

void bind_errors() {
  nb::module_ classes = foreign_call([] { return nb::module_::import_("saeta.errors"); });
  for (row& known : error_classes) {
    known.type = nb::object(classes.attr(known.name)).release().ptr();
  }
  missing_file_error = nb::object(classes.attr("MissingFileError")).release().ptr();
  errors_module = classes.release();
  nb::register_exception_translator(translate);
}

void restore_errors() {
  foreign_call([] {
    nb::module_::import_("sys").attr("modules")["saeta.errors"] = errors_module;
    nb::module_::import_("saeta").attr("errors") = errors_module;
  });
}

} // namespace saeta::py
