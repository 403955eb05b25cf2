#include "python/src/arrow/capsules.hpp"

#include "python/src/core/gil.hpp"
#include "saeta/base/text.hpp"
#include "saeta/column/view_cast.hpp"
#include "saeta/compute/combine.hpp"

#include <memory>
#include <string_view>

namespace saeta::py {
namespace {

/// The capsule name of a struct in its standard.
template <class Struct>
constexpr const char* name_for = nullptr;
template <>
constexpr const char* name_for<ArrowSchema> = "arrow_schema";
template <>
constexpr const char* name_for<ArrowArray> = "arrow_array";
template <>
constexpr const char* name_for<ArrowArrayStream> = "arrow_array_stream";
template <>
constexpr const char* name_for<ArrowDeviceArray> = "arrow_device_array";
template <>
constexpr const char* name_for<ArrowDeviceArrayStream> = "arrow_device_array_stream";
template <>
constexpr const char* name_for<DLManagedTensorVersioned> = "dltensor_versioned";
template <>
constexpr const char* name_for<DLManagedTensor> = "dltensor";

template <class Struct>
struct release_and_delete {
  void operator()(Struct* owned) const {
    auto& released = releasable(*owned);
    if (released.release != nullptr) {
      foreign_call([&] { released.release(&released); });
    }
    delete owned;
  }
};
template <class Struct>
using owned_struct = std::unique_ptr<Struct, release_and_delete<Struct>>;

template <class Struct>
void destroy_arrow(PyObject* capsule) {
  const nb::error_scope guard; // an exception may be propagating
  if (auto* held = static_cast<Struct*>(PyCapsule_GetPointer(capsule, name_for<Struct>))) {
    const owned_struct<Struct> owned(held);
  }
}

/// A new capsule around a struct that `make` exports without the GIL. A capsule that was not consumed
/// releases its struct when it is destroyed.
template <class Struct, class Make>
nb::object capsule_of(Make&& make) {
  owned_struct<Struct> made(new Struct{});
  without_gil([&] { *made = make().release(); });
  nb::object capsule = nb::steal(PyCapsule_New(made.get(), name_for<Struct>, &destroy_arrow<Struct>));
  if (!capsule.is_valid()) {
    throw nb::python_error();
  }
  static_cast<void>(made.release());
  return capsule;
}

constexpr const char* used_versioned = "used_dltensor_versioned";
constexpr const char* used_legacy = "used_dltensor";

template <class Struct>
void destroy_tensor(PyObject* capsule) {
  const nb::error_scope guard; // an exception may be propagating
  if (PyCapsule_IsValid(capsule, name_for<Struct>) == 0) {
    return; // consumed: the consumer owns the tensor now
  }
  dlpack_deleter()(static_cast<Struct*>(PyCapsule_GetPointer(capsule, name_for<Struct>)));
}

template <class Struct>
nb::object tensor_capsule(std::unique_ptr<Struct, dlpack_deleter> tensor) {
  nb::object capsule = nb::steal(PyCapsule_New(tensor.get(), name_for<Struct>, &destroy_tensor<Struct>));
  if (!capsule.is_valid()) {
    throw nb::python_error();
  }
  static_cast<void>(tensor.release());
  return capsule;
}

std::string describe_object(nb::handle object) {
  if (PyCapsule_CheckExact(object.ptr())) {
    const char* name = PyCapsule_GetName(object.ptr());
    return name != nullptr ? concat("a capsule named \"", name, "\"")
                           : std::string("a capsule without a name");
  }
  return concat("an object of type ", nb::type_name(object.type()).c_str());
}

template <class Struct>
Struct* pointer_of(nb::handle capsule) {
  if (PyCapsule_IsValid(capsule.ptr(), name_for<Struct>) == 0) {
    throw error(errc::invalid_argument, concat("expected a capsule named \"", name_for<Struct>, "\", got ",
                                               describe_object(capsule)));
  }
  return static_cast<Struct*>(PyCapsule_GetPointer(capsule.ptr(), name_for<Struct>));
}

} // namespace

nb::object schema_capsule(const schema& source, symbol_form symbols) {
  return capsule_of<ArrowSchema>([&] { return export_schema(source, symbols); });
}

nb::object schema_capsule(const field& source, symbol_form symbols) {
  return capsule_of<ArrowSchema>([&] { return export_field(source, symbols); });
}

nb::object array_capsules(const field& described, const column& piece) {
  const nb::object array = capsule_of<ArrowArray>([&] { return export_column(piece, described.name); });
  return nb::make_tuple(schema_capsule(described), array);
}

nb::object stream_capsule(const table& source) {
  return capsule_of<ArrowArrayStream>([&] { return export_stream(source); });
}

nb::object stream_capsule(const field& described, std::vector<column> pieces) {
  return capsule_of<ArrowArrayStream>([&] { return export_stream(described, std::move(pieces)); });
}

namespace {

/// If pyarrow is loaded, imports saeta.cuda, which registers our memory so that pyarrow accepts device
/// arrays. If that fails, pyarrow reports it itself.
void tell_pyarrow(const context& ctx) {
  static bool warned = false; // guarded by the GIL
  if (warned || ctx.on_host()) {
    return;
  }
  foreign_call([] {
    const nb::object modules = nb::module_::import_("sys").attr("modules");
    if (!nb::cast<bool>(modules.attr("__contains__")("pyarrow"))) {
      return;
    }
    warned = true;
    try {
      nb::module_::import_("saeta.cuda");
    } catch (const nb::python_error&) { // saeta.cuda was not built, or was built for another pyarrow
    }
  });
}

} // namespace

nb::object device_array_capsules(const field& described, const column& piece) {
  tell_pyarrow(*piece.ctx());
  const nb::object array = capsule_of<ArrowDeviceArray>([&] { return export_device_column(piece); });
  return nb::make_tuple(schema_capsule(described, symbol_form::numbers), array);
}

nb::object device_array_capsules(const table& source) {
  tell_pyarrow(*source.ctx());
  const nb::object array = capsule_of<ArrowDeviceArray>([&] {
    table whole = combine_chunks(source);
    if (whole.batches().empty()) {
      batch none;
      for (const field& each : whole.fields().fields) {
        none.columns.push_back(column::empty(whole.ctx(), each.type));
      }
      whole = table::make(whole.ctx(), whole.fields(), {none});
    }
    if (whole.batches().size() > 1) {
      throw error(errc::exchange,
                  concat("the batches of the table can be joined to ", whole.batches().size(),
                         " batches, not to one: offsets or indices of a column can't count all rows"));
    }
    return export_device_batch(whole, 0);
  });
  return nb::make_tuple(schema_capsule(source.fields(), symbol_form::numbers), array);
}

nb::object device_stream_capsule(const table& source) {
  tell_pyarrow(*source.ctx());
  return capsule_of<ArrowDeviceArrayStream>([&] { return export_device_stream(source); });
}

nb::object device_stream_capsule(const field& described, std::vector<column> pieces) {
  return capsule_of<ArrowDeviceArrayStream>(
      [&] { return export_device_stream(described, std::move(pieces)); });
}

nb::object dlpack_capsule(dlpack_tensor tensor) { return tensor_capsule(std::move(tensor)); }

nb::object dlpack_capsule(dlpack_legacy_tensor tensor) { return tensor_capsule(std::move(tensor)); }

template <class Struct>
taken<Struct>::taken(nb::handle capsule) : source_(pointer_of<Struct>(capsule)) {
  if (releasable(*source_).release == nullptr) {
    throw error(errc::closed, concat("the capsule \"", name_for<Struct>, "\" was consumed already"));
  }
  moved_ = *source_;
  releasable(*source_).release = nullptr;
}

template <class Struct>
taken<Struct>::~taken() {
  if (releasable(moved_).release != nullptr) {
    *source_ = moved_;
  }
}

template class taken<ArrowArray>;
template class taken<ArrowArrayStream>;
template class taken<ArrowDeviceArray>;
template class taken<ArrowDeviceArrayStream>;

const ArrowSchema& schema_of(nb::handle capsule) {
  const auto* found = pointer_of<ArrowSchema>(capsule);
  if (found->release == nullptr) {
    throw error(errc::closed, "the schema in the capsule was released already");
  }
  return *found;
}

taken_tensor::taken_tensor(nb::handle capsule) : capsule_(capsule) {
  PyObject* object = capsule.ptr();
  const char* const found = PyCapsule_CheckExact(object) != 0 ? PyCapsule_GetName(object) : nullptr;
  const std::string_view name = found != nullptr ? found : "";
  const bool legacy = name == name_for<DLManagedTensor>;
  if (name == used_versioned || name == used_legacy) {
    throw error(errc::closed, concat("the tensor was consumed already: ", describe_object(capsule)));
  }
  if (legacy) {
    tensor_ = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(object, found));
  } else if (name == name_for<DLManagedTensorVersioned>) {
    tensor_ = static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(object, found));
  } else {
    tensor_ = pointer_of<DLManagedTensorVersioned>(capsule);
  }
  if (PyCapsule_SetName(object, legacy ? used_legacy : used_versioned) != 0) {
    throw nb::python_error();
  }
}

taken_tensor::~taken_tensor() {
  if (!kept_) {
    const bool legacy = std::holds_alternative<DLManagedTensor*>(tensor_);
    PyCapsule_SetName(capsule_.ptr(),
                      legacy ? name_for<DLManagedTensor> : name_for<DLManagedTensorVersioned>);
  }
}

namespace {

void require_fields(nb::handle requested, std::size_t fields) {
  const auto wanted = static_cast<std::size_t>(schema_of(requested).n_children);
  if (wanted != fields) {
    throw error(errc::invalid_argument,
                concat("requested_schema has ", wanted, " fields, the data ", fields));
  }
}

/// Returns the type of the export: `wanted` if it was requested and views the same bytes, else the column's
/// own.
const data_type& choose_type(const data_type& own, const data_type& wanted) {
  return is_view_cast(own, wanted) ? wanted : own;
}

} // namespace

column_object as_requested(const column_object& source, nb::handle requested) {
  if (requested.is_none()) {
    return source;
  }
  require_fields(requested, source.described->type.children().size());
  const field wanted = import_field(schema_of(requested));
  field shown = *source.described;
  shown.type = choose_type(shown.type, wanted.type);
  std::vector<column> pieces;
  for (const column& piece : *source.pieces) {
    pieces.push_back(view_cast(piece, shown.type));
  }
  return {std::move(shown), source.ctx, std::move(pieces)};
}

table as_requested(const table& source, nb::handle requested) {
  if (requested.is_none()) {
    return source;
  }
  require_fields(requested, source.column_count());
  const schema wanted = import_schema(schema_of(requested));
  schema shown = source.fields();
  for (std::size_t i = 0; i < shown.fields.size(); ++i) {
    if (shown.fields[i].name == wanted.fields[i].name) { // a schema chooses representations, not columns
      shown.fields[i].type = choose_type(shown.fields[i].type, wanted.fields[i].type);
    }
  }
  std::vector<batch> batches(source.batches().begin(), source.batches().end());
  for (batch& each : batches) {
    for (std::size_t i = 0; i < each.columns.size(); ++i) {
      each.columns[i] = view_cast(each.columns[i], shown.fields[i].type);
    }
  }
  return table::make(source.ctx(), std::move(shown), std::move(batches));
}

} // namespace saeta::py
