#include "python/src/dlpack/exchange_api.hpp"

#include "python/src/column/column_class.hpp"
#include "python/src/core/gil.hpp"
#include "python/src/dlpack/dlpack_export.hpp"
#include "saeta/interop/dlpack/dlpack.hpp"
#include "saeta/memory/export_hold.hpp"

namespace saeta::py {
namespace {

constexpr const char* capsule_name = "dlpack_exchange_api";

/// Runs `action` for C callers. Returns 0, or -1 with a Python exception set.
template <class Action>
int run_guarded(Action action) noexcept {
  try {
    foreign_call(action);
    return 0;
  } catch (nb::python_error& failure) {
    failure.restore();
  } catch (const error& failure) {
    try {
      raise(failure);
    } catch (nb::python_error& while_raising) {
      while_raising.restore();
    }
  } catch (const std::exception& failure) {
    PyErr_SetString(PyExc_RuntimeError, failure.what());
  }
  return -1;
}

/// The `kind` argument of `SetError`: the name of a Python exception.
const char* kind_of_error(const error& failure) {
  return is_lack_of_room(failure.code()) ? "MemoryError" : "BufferError";
}

int allocate(DLTensor* prototype, DLManagedTensorVersioned** out, void* error_context,
             void (*set_error)(void* error_context, const char* kind, const char* message)) noexcept {
  try {
    const auto [device, dtype] = std::pair(prototype->device, prototype->dtype);
    if (prototype->ndim < 0 || (prototype->ndim > 0 && prototype->shape == nullptr)) {
      throw error(errc::format, concat("dlpack: ndim of the prototype is ", prototype->ndim,
                                       prototype->shape == nullptr ? " and its shape is null" : ""));
    }
    const std::span<const std::int64_t> shape(prototype->shape, static_cast<std::size_t>(prototype->ndim));
    *out = released_gil([&] {
      return allocate_dlpack(context_for({static_cast<std::int32_t>(device.device_type), device.device_id}),
                             {dtype.code, dtype.bits, dtype.lanes}, shape)
          .release();
    });
    return 0;
  } catch (const error& failure) {
    set_error(error_context, kind_of_error(failure), failure.message().c_str());
  } catch (const std::exception& failure) {
    set_error(error_context, "RuntimeError", failure.what());
  }
  *out = nullptr;
  return -1;
}

/// Exports the column in one piece, ready on the stream with this DLPack number.
dlpack_tensor export_column_tensor(const column_object& source, std::optional<std::int64_t> stream) {
  return without_gil([&] {
    const joined_rows rows = join_pieces(source, copy_policy::when_needed);
    dlpack_export how;
    how.stream = stream;
    how.owned = rows.owned;
    return export_dlpack(rows.piece, how);
  });
}

/// @throws error type_mismatch, because a consumer may pass any object.
column_object& column_of(void* object) {
  const nb::handle given(static_cast<PyObject*>(object));
  if (!nb::isinstance<column_object>(given)) {
    throw error(errc::type_mismatch,
                concat("the DLPack C exchange API of saeta.Column was given an object of type ",
                       nb::type_name(given.type()).c_str()));
  }
  return nb::cast<column_object&>(given);
}

int managed_from_object(void* object, DLManagedTensorVersioned** out) noexcept {
  *out = nullptr;
  return run_guarded([&] {
    const column_object& source = column_of(object);
    *out = export_column_tensor(source, dlpack_import_stream(*source.ctx)).release();
  });
}

/// A view that is never released. The consumer's use of it counts as unknown work from now on.
int borrow_from_object(void* object, DLTensor* out) noexcept {
  return run_guarded([&] {
    column_object& source = column_of(object);
    const column piece = single_piece(source, "DLPack");
    const tensor_type type = to_tensor_type(piece.type());
    if (source.pieces->empty() || piece.length() == 0) {
      source.borrowed = {0, 1};
      const tensor_device device = dlpack_device(piece);
      *out = {nullptr,
              {static_cast<DLDeviceType>(device.type), device.ordinal},
              1,
              {type.code, type.bits, type.lanes},
              &source.borrowed[0],
              &source.borrowed[1],
              0};
      return;
    }
    without_gil([&] {
      dlpack_export how;
      how.stream = dlpack_import_stream(*source.ctx);
      how.copy = copy_policy::never;
      *out = export_dlpack(piece, how)->dl_tensor;
    });
    source.borrowed = {piece.length(), 1};
    out->shape = &source.borrowed[0];
    out->strides = &source.borrowed[1];
  });
}

/// Takes the tensor even on failure, as the standard requires. Its producer worked on our work stream.
int object_from_managed(DLManagedTensorVersioned* tensor, void** out) noexcept {
  *out = nullptr;
  return run_guarded([&] {
    dlpack_tensor owned(tensor);
    const DLDevice device = tensor->dl_tensor.device;
    const auto ctx = context_for({static_cast<std::int32_t>(device.device_type), device.device_id});
    column made = without_gil([&] {
      return import_dlpack(ctx, std::move(owned), {dlpack_import_stream(*ctx), copy_policy::when_needed});
    });
    field described{"", made.type(), false, {}};
    std::vector<column> pieces;
    pieces.push_back(std::move(made));
    *out = nb::cast(column_object(std::move(described), ctx, std::move(pieces))).release().ptr();
  });
}

int work_stream_of(DLDeviceType type, std::int32_t number, void** out) noexcept {
  *out = nullptr;
  return run_guarded([&] {
    if (type != kDLCPU && type != kDLCUDAHost) {
      const auto ctx = context_for({static_cast<std::int32_t>(type), number});
      *out = reinterpret_cast<void*>(static_cast<std::intptr_t>(dlpack_import_stream(*ctx).value_or(0)));
    }
  });
}

const DLPackExchangeAPI own_api{{{DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION}, nullptr},
                                allocate,
                                managed_from_object,
                                object_from_managed,
                                borrow_from_object,
                                work_stream_of};

} // namespace

const DLPackExchangeAPI* exchange_api_of(PyTypeObject* type) noexcept {
  static PyObject* const name = PyUnicode_InternFromString("__dlpack_c_exchange_api__");
  const nb::object capsule = attribute_of_type(type, name);
  if (!capsule.is_valid() || PyCapsule_IsValid(capsule.ptr(), capsule_name) == 0) {
    return nullptr;
  }
  auto* header = static_cast<DLPackExchangeAPIHeader*>(PyCapsule_GetPointer(capsule.ptr(), capsule_name));
  while (header != nullptr && header->version.major != DLPACK_MAJOR_VERSION) {
    header = header->prev_api;
  }
  return reinterpret_cast<const DLPackExchangeAPI*>(header);
}

bool is_own(const DLPackExchangeAPI& table) noexcept { return &table == &own_api; }

PyObject* imported_module(PyObject* name) noexcept {
  PyObject* const modules = PyImport_GetModuleDict();
  return modules == nullptr ? nullptr : PyDict_GetItem(modules, name);
}

PyTypeObject* class_of_library(PyObject* library, PyObject* name) noexcept {
  PyObject* const module = imported_module(library);
  PyObject* const found = module == nullptr ? nullptr : PyObject_GetAttr(module, name);
  if (found == nullptr) {
    PyErr_Clear(); // a module that is still being imported may lack the class
    return nullptr;
  }
  Py_DECREF(found);
  return PyType_Check(found) != 0 ? reinterpret_cast<PyTypeObject*>(found) : nullptr;
}

bool is_instance_of(nb::handle object, PyObject* library, PyObject* name) noexcept {
  PyTypeObject* const wanted = class_of_library(library, name);
  return wanted != nullptr && PyObject_TypeCheck(object.ptr(), wanted) != 0;
}

nb::object export_by_table(const column_object& source, PyObject* library, PyObject* name) {
  PyTypeObject* const wanted = class_of_library(library, name);
  const DLPackExchangeAPI* const table = wanted == nullptr ? nullptr : exchange_api_of(wanted);
  const tensor_device device = device_of(source);
  if (table == nullptr || (device.type != kDLCPU && device.type != kDLCUDA)) {
    return {};
  }
  const nb::handle named(reinterpret_cast<PyObject*>(wanted));
  std::optional<std::int64_t> stream;
  if (device.type == kDLCUDA) {
    stream = work_stream_by(*table, device, named);
  }
  dlpack_tensor tensor = export_column_tensor(source, stream);
  void* made = nullptr;
  // Takes the tensor even on failure.
  const int done =
      foreign_call([&] { return table->managed_tensor_to_py_object_no_sync(tensor.release(), &made); });
  require_success(named, done == 0 && made != nullptr);
  return nb::steal(static_cast<PyObject*>(made));
}

tensor_device device_of(const column_object& source) {
  const device_id own = source.ctx->device();
  return source.pieces->empty() ? to_tensor_device(own, own_kind(own))
                                : dlpack_device(source.pieces->front());
}

void require_success(nb::handle type, bool succeeded) {
  if (!succeeded && PyErr_Occurred() != nullptr) {
    throw nb::python_error();
  }
  if (!succeeded) {
    throw error(errc::exchange, concat("the DLPack C exchange API of ", nb::type_name(type).c_str(),
                                       " failed without an exception"));
  }
}

std::int64_t work_stream_by(const DLPackExchangeAPI& table, tensor_device device, nb::handle type) {
  void* stream = nullptr;
  const int status = foreign_call([&] {
    return table.current_work_stream(static_cast<DLDeviceType>(device.type), device.ordinal, &stream);
  });
  require_success(type, status == 0);
  return dlpack_stream(static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(stream)));
}

std::shared_ptr<context> context_for(tensor_device device) {
  const std::optional<memory_kind> kind = kind_of(device);
  if (!kind || device.type == static_cast<std::int32_t>(device_kind::sim)) {
    throw error(errc::exchange, concat("the tensor is on device type ", device.type,
                                       ": only CPU (1) and CUDA (2, 3, 13) are supported"));
  }
  const bool on_gpu = *kind == memory_kind::device || *kind == memory_kind::managed;
  const device_id id = on_gpu ? device_id{device_kind::cuda, device.ordinal} : device_id{};
  std::shared_ptr<context> opened = find_context(id);
  return opened ? opened : released_gil([&] { return open_context(id); });
}

void bind_exchange_api(column_class& c) {
  c.attr("__dlpack_c_exchange_api__") =
      nb::steal(PyCapsule_New(const_cast<DLPackExchangeAPI*>(&own_api), capsule_name, nullptr));
}

} // namespace saeta::py
