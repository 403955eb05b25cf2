#include "python/src/dlpack/dlpack_export.hpp"

#include "python/src/column/column_class.hpp"
#include "python/src/column/type_objects.hpp"
#include "python/src/core/pickling.hpp"
#include "python/src/dlpack/exchange_api.hpp"

namespace saeta::py {
namespace {

dlpack_export export_for(const dlpack_keywords& wanted, const tensor_choices& chosen) {
  dlpack_export how;
  how.stream = wanted.stream;
  if (wanted.device) {
    how.target = tensor_device{wanted.device->first, wanted.device->second};
  }
  how.copy = policy_of(wanted.copy);
  how.nulls = chosen.nulls;
  how.fill = chosen.fill;
  how.reinterpret = chosen.reinterpret;
  how.codes = chosen.codes;
  how.type = chosen.type;
  how.order = chosen.order;
  return how;
}

/// @param source  a column or a table
template <class Source>
nb::object capsule_for(const std::optional<version_pair>& max_version, const Source& source,
                       const dlpack_export& how) {
  if (max_version && max_version->first >= DLPACK_MAJOR_VERSION) {
    return dlpack_capsule(without_gil([&] { return export_dlpack(source, how); }));
  }
  return dlpack_capsule(without_gil([&] { return export_dlpack_legacy(source, how); }));
}

tensor_order parse_order(const std::optional<std::string>& word) {
  if (!word) {
    return tensor_order::any;
  }
  if (*word == "row" || *word == "column") {
    return *word == "row" ? tensor_order::row : tensor_order::column;
  }
  throw error(errc::invalid_argument, concat("order='", *word, "': expected 'row', 'column' or None"));
}

/// @throws error invalid_argument for an unknown word, and if more than one option says how to treat nulls.
tensor_nulls nulls_named(const std::optional<std::string>& word, bool fill) {
  if (word && *word != "nan" && *word != "mask") {
    throw error(errc::invalid_argument,
                concat("nulls='", *word, "': expected 'nan' or 'mask', or fill=value instead"));
  }
  if (word && fill) {
    throw error(errc::invalid_argument, "nulls and fill were given: choose one of them for the nulls");
  }
  return fill             ? tensor_nulls::fill
         : !word          ? tensor_nulls::refuse
         : *word == "nan" ? tensor_nulls::nan
                          : tensor_nulls::masked;
}

/// Call after a failed conversion. Clears a TypeError. @throws any other exception that was set.
void require_type_error() {
  if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) {
    throw nb::python_error();
  }
  PyErr_Clear();
}

tensor_fill integer_fill(nb::handle whole) {
  int beyond = 0;
  const long long number = PyLong_AsLongLongAndOverflow(whole.ptr(), &beyond);
  if (beyond == 0) {
    return std::int64_t{number};
  }
  if (beyond > 0) {
    const unsigned long long large = PyLong_AsUnsignedLongLong(whole.ptr());
    if (PyErr_Occurred() == nullptr) {
      return std::uint64_t{large};
    }
    PyErr_Clear();
  }
  throw error(errc::out_of_range, concat("fill=", nb::str(whole).c_str(), " does not fit any integer type"));
}

/// Converts a number of any library. Integers stay integers.
tensor_fill fill_from(nb::handle given) {
  return foreign_call([&]() -> tensor_fill {
    if (const nb::object whole = nb::steal(PyNumber_Index(given.ptr())); whole.is_valid()) {
      return integer_fill(whole);
    }
    require_type_error();
    const double number = PyFloat_AsDouble(given.ptr());
    if (PyErr_Occurred() != nullptr) {
      require_type_error();
      throw error(errc::type_mismatch,
                  concat("fill is of type ", nb::type_name(given.type()).c_str(), ", expected a number"));
    }
    return number;
  });
}

/// A numeric type, given by name or as a dtype of NumPy, torch, CuPy or JAX.
std::optional<data_type> type_of_numbers(nb::handle given) {
  if (given.is_none()) {
    return std::nullopt;
  }
  data_type found = type_from(given);
  return found.id() == type_id::boolean ? type_from(nb::str("bool8")) : found; // tensors have bytes
}

void make_choices(tensor_choices* made, const std::optional<std::string>& nulls, nb::handle fill,
                  bool reinterpret, bool codes, const std::optional<std::string>& order, nb::handle dtype) {
  tensor_choices chosen;
  chosen.nulls = nulls_named(nulls, !fill.is_none());
  chosen.order = parse_order(order);
  if (!fill.is_none()) {
    chosen.fill = fill_from(fill);
  }
  chosen.reinterpret = reinterpret;
  chosen.codes = codes;
  chosen.type = type_of_numbers(dtype);
  new (made) tensor_choices(std::move(chosen));
}

/// The options for the mask that accompanies the values.
tensor_choices mask_of(const tensor_choices& values) {
  tensor_choices mask = values;
  mask.nulls = tensor_nulls::mask;
  mask.type.reset();
  return mask;
}

/// Whether the tensor shows the values unchanged: nulls are refused, or exported as a separate mask.
bool shows_values(const tensor_choices& of) {
  const bool as_they_are = of.nulls == tensor_nulls::refuse || of.nulls == tensor_nulls::masked;
  return as_they_are && !of.reinterpret && !of.codes && of.order == tensor_order::any && !of.type;
}

void make_chosen_tensor(chosen_tensor* made, nb::object source, const tensor_choices& chosen, bool on_host,
                        std::optional<bool> copy) {
  if (!nb::isinstance<column_object>(source) && !nb::isinstance<table_object>(source)) {
    throw error(errc::type_mismatch,
                concat("can't make a tensor of an object of type ", nb::type_name(source.type()).c_str(),
                       ": expected a Column or a Table"));
  }
  new (made) chosen_tensor{std::move(source), chosen, on_host, copy};
}

/// Calls `visit` with the column or the table.
template <class Visit>
auto visit_source(const chosen_tensor& of, Visit visit) {
  return nb::isinstance<column_object>(of.source) ? visit(nb::cast<const column_object&>(of.source))
                                                  : visit(nb::cast<const table_object&>(of.source));
}

bool is_on_host(const column_object& source) { return source.ctx->on_host(); }
bool is_on_host(const table_object& source) { return source.value->ctx()->on_host(); }

constexpr tensor_device host_device{kDLCPU, 0};

} // namespace

nb::object tensor_capsule(const column_object& source, const dlpack_keywords& wanted,
                          const tensor_choices& chosen) {
  dlpack_export how = export_for(wanted, chosen);
  if (source.pieces->size() == 1) { // avoids another reference to the piece during the call
    return capsule_for(wanted.max_version, source.pieces->front(), how);
  }
  const joined_rows rows = without_gil([&] { return join_pieces(source, how.copy); });
  how.owned = rows.owned;
  return capsule_for(wanted.max_version, rows.piece, how);
}

nb::object tensor_capsule(const table_object& source, const dlpack_keywords& wanted,
                          const tensor_choices& chosen) {
  return capsule_for(wanted.max_version, *source.value, export_for(wanted, chosen));
}

nb::object tensor_capsule(const chosen_tensor& source, dlpack_keywords wanted) {
  if (!wanted.copy) {
    wanted.copy = source.copy;
  }
  return visit_source(source, [&](const auto& of) {
    if (!wanted.device && source.on_host && !is_on_host(of)) {
      wanted.device = {host_device.type, host_device.ordinal};
    }
    return tensor_capsule(of, wanted, source.chosen);
  });
}

tensor_device device_of(const table_object& source) { return dlpack_device(*source.value); }

tensor_device device_of(const chosen_tensor& source) {
  return source.on_host ? host_device : visit_source(source, [](const auto& of) { return device_of(of); });
}

void bind_chosen_tensors(nb::module_& m) {
  nb::class_<tensor_choices>(m, "_TensorChoices", "The keywords of a `to_...` call, checked.")
      .def("__init__", &make_choices, nb::arg("nulls") = nb::none(), nb::arg("fill") = nb::none(),
           nb::arg("reinterpret") = false, nb::arg("codes") = false, nb::arg("order") = nb::none(),
           nb::arg("dtype") = nb::none(),
           nb::sig("def __init__(self, nulls: str | None = None, fill: typing.Any = None, "
                   "reinterpret: bool = False, codes: bool = False, order: str | None = None, dtype: "
                   "typing.Any = None) -> None"),
           "InvalidError for an unknown word, and if more than one keyword handles nulls.")
      .def(copied_as_itself())
      .def(not_pickled("make one where the tensor is"))
      .def_prop_ro("shows_values", &shows_values,
                   "True if no keyword changes the values: none was given, or a mask is wanted besides.")
      .def_prop_ro(
          "refuses_nulls", [](const tensor_choices& self) { return self.nulls == tensor_nulls::refuse; },
          "True if no keyword handles nulls.")
      .def_prop_ro(
          "codes", [](const tensor_choices& self) { return self.codes; },
          "True if the codes of a dictionary are wanted.")
      .def_prop_ro(
          "masks", [](const tensor_choices& self) { return self.nulls == tensor_nulls::masked; },
          "True if a mask is wanted besides the values.")
      .def("mask", &mask_of, "The choices of that mask.");

  nb::class_<chosen_tensor> c(
      m, "_ChosenTensor",
      "A column or table with its choices, for `from_dlpack` of any library. `on_host` downloads it from a "
      "device if the consumer names none. `copy` applies if the consumer does not choose.");
  c.def("__init__", &make_chosen_tensor, nb::arg("source"), nb::arg("chosen"), nb::kw_only(),
        nb::arg("on_host") = false, nb::arg("copy") = nb::none(),
        nb::sig("def __init__(self, source: Column | Table, chosen: _TensorChoices, *, on_host: bool = "
                "False, copy: bool | None = None) -> None"))
      .def(copied_as_itself())
      .def(not_pickled("pickle the column or the table"));
  bind_dlpack_protocol(c, "As `Column.__dlpack__` and `Table.__dlpack__`.");
}

} // namespace saeta::py
