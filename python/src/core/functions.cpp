// Adds to nanobind's functions a signature for `inspect` and a clear message for arguments of wrong types.
//
// For wrong arguments, nanobind raises a TypeError that lists its own signatures, and it has no hook to
// change the text. So every function of a module gets an entry point that calls nanobind's. After such a
// failure, saeta/_signatures.py names the argument. A successful call costs one extra comparison.
#include "python/src/core/module.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include <structmember.h> // PyMemberDef, before Python 3.12

namespace saeta::py {
namespace {

/// nanobind has one entry point per kind of signature: six in release 3.1.
constexpr std::size_t max_entries = 8;
std::array<vectorcallfunc, max_entries> entries{};

nb::object dict_of(PyObject* const* values, PyObject* names) {
  nb::dict result;
  for (std::size_t i = 0; names != nullptr && i < nb::len(names); ++i) {
    result[nb::handle(names)[i]] = nb::handle(values[i]);
  }
  return result;
}

/// If the pending error is about the arguments, replaces it by a clear message.
void explain(PyObject* function, PyObject* const* arguments, std::size_t count, PyObject* names) {
  if (PyErr_Occurred() != PyExc_TypeError) { // a derived class was raised by user code
    return;
  }
  nb::python_error failure;
  try {
    nb::list given;
    for (std::size_t i = 0; i < count; ++i) {
      given.append(nb::handle(arguments[i]));
    }
    const nb::object better =
        nb::module_::import_("saeta._signatures")
            .attr("refusal")(nb::handle(function), given, dict_of(arguments + count, names),
                             nb::str(failure.value()));
    if (!better.is_none()) {
      PyErr_SetObject(better.type().ptr(), better.ptr());
      return;
    }
  } catch (...) { // the interpreter may be ending: keep nanobind's text
    PyErr_Clear();
  }
  failure.restore();
}

/// Mask of the number of arguments. CPython and nanobind keep flags in the higher bits.
constexpr std::size_t count_bits = 0xFFFFFFFF;

template <std::size_t Entry>
PyObject* call(PyObject* function, PyObject* const* arguments, std::size_t count, PyObject* names) noexcept {
  PyObject* result = entries[Entry](function, arguments, count, names);
  if (result == nullptr) [[unlikely]] {
    foreign_call([&] { explain(function, arguments, count & count_bits, names); });
  }
  return result;
}

template <std::size_t... Entry>
constexpr std::array<vectorcallfunc, max_entries> calls(std::index_sequence<Entry...>) {
  return {&call<Entry>...};
}

/// Where objects of a type keep the entry point that calls use, which nanobind declares as a member.
/// 0: unknown.
Py_ssize_t entry_offset(PyTypeObject* type) {
  const auto* member = static_cast<const PyMemberDef*>(PyType_GetSlot(type, Py_tp_members));
  for (; member != nullptr && member->name != nullptr; ++member) {
    if (std::string_view(member->name) == "__vectorcalloffset__") {
      return member->offset;
    }
  }
  return 0;
}

/// Puts our entry point before nanobind's. If its place is unknown or no slot is free, the function stays
/// unchanged.
void watch(nb::handle function) {
  static constexpr auto ours = calls(std::make_index_sequence<max_entries>());
  const Py_ssize_t offset = entry_offset(Py_TYPE(function.ptr()));
  if (offset == 0) {
    return;
  }
  auto* place = reinterpret_cast<char*>(function.ptr()) + offset;
  vectorcallfunc own = nullptr;
  std::memcpy(&own, place, sizeof(own));
  if (std::ranges::find(ours, own) != ours.end()) {
    return;
  }
  auto* const found =
      std::ranges::find_if(entries, [&](vectorcallfunc known) { return known == own || known == nullptr; });
  if (found != entries.end()) {
    *found = own;
    const vectorcallfunc replaced = ours[static_cast<std::size_t>(found - entries.begin())];
    std::memcpy(place, &replaced, sizeof(replaced));
  }
}

bool is_function(nb::handle object) { return nb::hasattr(object, "__nb_signature__"); }

/// Writes to the type's dictionary as Cython does for its own types, because nanobind's types are immutable
/// from Python. `inspect` is imported only when the signature is read.
void add_signature(PyTypeObject* type, const char* reader) {
  const nb::object members = nb::steal(PyObject_GenericGetDict(reinterpret_cast<PyObject*>(type), nullptr));
  if (!members.is_valid()) {
    throw nb::python_error();
  }
  if (PyDict_GetItemString(members.ptr(), "__signature__") != nullptr) {
    return;
  }
  const nb::object property = nb::module_::import_("builtins")
                                  .attr("property")(nb::cpp_function(in_python("saeta._signatures", reader)));
  if (PyDict_SetItemString(members.ptr(), "__signature__", property.ptr()) != 0) {
    throw nb::python_error();
  }
  PyType_Modified(type);
}

void visit(nb::handle object) {
  if (is_function(object)) {
    watch(object);
    PyTypeObject* const type = Py_TYPE(object.ptr());
    add_signature(type, "signature_of");
    const auto bind = reinterpret_cast<descrgetfunc>(PyType_GetSlot(type, Py_tp_descr_get));
    if (bind != nullptr) { // a method: its bound form has another type
      const nb::object bound = nb::steal(bind(object.ptr(), Py_Ellipsis, nullptr));
      add_signature(Py_TYPE(bound.ptr()), "bound_signature_of");
    }
  } else if (Py_IS_TYPE(object.ptr(), &PyProperty_Type)) {
    if (const nb::object setter = object.attr("fset"); is_function(setter)) {
      watch(setter);
    }
  }
}

} // namespace

void complete_functions(nb::module_& m) {
  for (const auto& [name, object] : nb::cast<nb::dict>(m.attr("__dict__"))) {
    if (PyType_Check(object.ptr())) {
      for (const nb::handle member : object.attr("__dict__").attr("values")()) {
        visit(member);
      }
    } else {
      visit(object);
    }
  }
}

} // namespace saeta::py
