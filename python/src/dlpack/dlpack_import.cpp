// Imports tensors of other libraries as columns and tables: the implementation of `saeta.from_dlpack`.
//
// Standard  DLPack's Python specification. The producer is asked once for its device and once for its tensor,
//           with the keywords of DLPack 1.x. If it does not know them, it is asked again with those of older
//           versions.
#include "python/src/arrow/capsules.hpp"
#include "python/src/core/module.hpp"
#include "python/src/core/objects.hpp"
#include "python/src/core/pickling.hpp"
#include "python/src/dlpack/exchange_api.hpp"
#include "python/src/dlpack/torch_tensors.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <array>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <variant>

namespace saeta::py {
namespace {

/// The newest supported version of DLPack.
constexpr int newest_major = DLPACK_MAJOR_VERSION;
constexpr int newest_minor = DLPACK_MINOR_VERSION;

/// The options of a `from_dlpack` call.
struct asked_import {
  std::optional<bool> copy;
  std::string name;
  bool columns = false;
  std::optional<schema> fields;
  bool reinterpret = false;
  std::shared_ptr<void> keepalive; ///< null: the import owns the tensor
};

/// Python objects that are never freed.
struct constants {
  PyObject* dlpack = PyUnicode_InternFromString("__dlpack__");
  PyObject* dlpack_device = PyUnicode_InternFromString("__dlpack_device__");
  PyObject* max_version = PyUnicode_InternFromString("max_version");
  PyObject* stream = PyUnicode_InternFromString("stream");
  PyObject* dl_device = PyUnicode_InternFromString("dl_device");
  PyObject* copy = PyUnicode_InternFromString("copy");
  PyObject* numpy = PyUnicode_InternFromString("numpy");
  PyObject* numpy_ma = PyUnicode_InternFromString("numpy.ma");
  PyObject* masked_array = PyUnicode_InternFromString("MaskedArray");
  PyObject* cupy = PyUnicode_InternFromString("cupy");
  PyObject* ndarray = PyUnicode_InternFromString("ndarray");
  PyObject* cupy_cuda = PyUnicode_InternFromString("cupy.cuda");
  PyObject* get_current_stream = PyUnicode_InternFromString("get_current_stream");
  PyObject* ptr = PyUnicode_InternFromString("ptr");
  PyObject* newest = Py_BuildValue("(ii)", newest_major, newest_minor);
  PyObject* host = Py_BuildValue("(ii)", static_cast<int>(kDLCPU), 0);
  PyObject* only_version = PyTuple_Pack(1, max_version);
};

const constants& names() {
  static const constants made;
  return made;
}

/// The arguments for a call of a producer, laid out for CPython's vectorcall.
class method_call {
public:
  explicit method_call(nb::handle self) { arguments_[0] = self.ptr(); }

  void add(PyObject* name, PyObject* value) {
    ++count_;
    arguments_[count_] = value;
    keywords_[count_ - 1] = name;
  }

  /// Calls the method. Returns a new reference, or null with an exception set.
  [[nodiscard]] PyObject* operator()(PyObject* method) const {
    nb::object keywords;
    if (count_ == 1 && keywords_[0] == names().max_version) {
      keywords = nb::borrow(names().only_version);
    } else if (count_ != 0) {
      keywords = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(count_)));
      for (std::size_t i = 0; keywords.is_valid() && i < count_; ++i) {
        PyTuple_SetItem(keywords.ptr(), static_cast<Py_ssize_t>(i), Py_NewRef(keywords_[i]));
      }
    }
    if (count_ != 0 && !keywords.is_valid()) {
      return nullptr;
    }
    return foreign_call(
        [&] { return PyObject_VectorcallMethod(method, arguments_.data(), 1, keywords.ptr()); });
  }

private:
  static constexpr std::size_t most = 4;
  std::array<PyObject*, most + 1> arguments_{};
  std::array<PyObject*, most> keywords_{};
  std::size_t count_ = 0;
};

nb::object steal_result(PyObject* result) {
  if (result == nullptr) {
    throw nb::python_error();
  }
  return nb::steal(result);
}

std::int32_t read_device_number(nb::handle number, nb::handle source) {
  const nb::object index = foreign_call([&] { return nb::steal(PyNumber_Index(number.ptr())); });
  const long value = index.is_valid() ? PyLong_AsLong(index.ptr()) : -1;
  if (PyErr_Occurred() != nullptr || value != static_cast<std::int32_t>(value)) {
    PyErr_Clear();
    throw error(errc::format, concat("__dlpack_device__() of ", nb::type_name(source.type()).c_str(),
                                     ": expected a pair of integers, device type and number"));
  }
  return static_cast<std::int32_t>(value);
}

tensor_device device_of(nb::handle source) {
  PyObject* const found = method_call(source)(names().dlpack_device);
  if (found == nullptr && PyErr_ExceptionMatches(PyExc_AttributeError) != 0 &&
      !nb::hasattr(source, "__dlpack__")) {
    PyErr_Clear();
    throw error(
        errc::type_mismatch,
        concat(nb::type_name(source.type()).c_str(),
               " has no __dlpack__ and is not a capsule of a tensor: saeta.column takes other values"));
  }
  const nb::object pair = steal_result(found);
  if (PyTuple_Check(pair.ptr()) == 0 || PyTuple_Size(pair.ptr()) != 2) {
    throw error(errc::format,
                concat("__dlpack_device__() of ", nb::type_name(source.type()).c_str(), " gave ",
                       nb::type_name(pair.type()).c_str(), ", expected a pair of device type and number"));
  }
  return {read_device_number(PyTuple_GetItem(pair.ptr(), 0), source),
          read_device_number(PyTuple_GetItem(pair.ptr(), 1), source)};
}

/// The context that was given; null for None.
std::shared_ptr<context> named_context(nb::handle given) {
  if (given.is_none()) {
    return nullptr;
  }
  nb::object found = nb::borrow(given);
  if (!nb::isinstance<context_object>(given)) {
    found = foreign_call(
        [&]() -> nb::object { return nb::module_::import_("saeta.exchange").attr("context_of")(given); });
  }
  return nb::cast<const context_object&>(found).value;
}

/// CuPy's current stream, on which its arrays are ready. For another stream, CuPy would create an event.
/// Empty for objects of other libraries.
std::optional<std::int64_t> current_stream_of_cupy(nb::handle source, tensor_device device) {
  if (!is_instance_of(source, names().cupy, names().ndarray)) {
    return std::nullopt;
  }
  PyObject* const library = imported_module(names().cupy_cuda);
  if (library == nullptr) {
    return std::nullopt;
  }
  const nb::object stream = foreign_call([&]() -> nb::object {
    return nb::handle(library)
        .attr(nb::handle(names().get_current_stream))(device.ordinal)
        .attr(nb::handle(names().ptr));
  });
  return dlpack_stream(nb::cast<std::int64_t>(stream));
}

/// @param dl_device  the requested device of the tensor; null: its own device
/// @param stream     the consumer's stream; null: not given
nb::object ask_for_capsule(nb::handle source, nb::handle dl_device, nb::handle stream,
                           const std::optional<bool>& copy) {
  method_call modern(source);
  modern.add(names().max_version, names().newest);
  if (dl_device.is_valid()) {
    modern.add(names().dl_device, dl_device.ptr());
  }
  if (stream.is_valid()) {
    modern.add(names().stream, stream.ptr());
  }
  if (copy == false) {
    modern.add(names().copy, Py_False);
  }
  PyObject* capsule = modern(names().dlpack);
  if (capsule == nullptr && PyErr_ExceptionMatches(PyExc_TypeError) != 0 && !dl_device.is_valid()) {
    PyErr_Clear(); // a producer older than DLPack 1.0 knows only the keyword `stream`
    method_call old(source);
    if (stream.is_valid()) {
      old.add(names().stream, stream.ptr());
    }
    capsule = old(names().dlpack);
  }
  return steal_result(capsule);
}

/// The producer's capsule. Sets `ready` to the stream that the tensor is ready on.
nb::object capsule_of(nb::handle source, tensor_device device, const context& ctx, const asked_import& how,
                      std::optional<std::int64_t>& ready) {
  nb::handle dl_device;
  nb::object stream;
  if (device.type != kDLCPU && device.type != kDLCUDAHost) {
    if (ctx.on_host()) {
      dl_device = names().host;
    } else {
      ready = current_stream_of_cupy(source, device);
      if (!ready) {
        ready = dlpack_import_stream(ctx);
      }
      stream = nb::cast(ready);
    }
  }
  const auto ask = [&] { return ask_for_capsule(source, dl_device, stream, how.copy); };
  return is_torch_tensor(source) && device.type == kDLCUDA ? on_torch_device(device, ask) : ask();
}

/// Whether the import creates a view of host memory. It waits for nothing, so releasing the GIL is not
/// worthwhile.
bool is_host_view(const context& ctx, const taken_tensor::pointer& tensor, const asked_import& how) {
  return ctx.on_host() && how.copy != true &&
         std::visit(
             [](auto* source) {
               const DLTensor& shown = source->dl_tensor;
               return shown.ndim == 1 && (shown.strides == nullptr || shown.strides[0] == 1);
             },
             tensor);
}

/// Imports the tensor as a column or, if columns were requested, as a table. Takes the tensor only on
/// success.
nb::object import_tensor(const std::shared_ptr<context>& ctx, const taken_tensor::pointer& tensor,
                         std::optional<std::int64_t> ready, asked_import how) {
  const dlpack_import plain{ready, policy_of(how.copy)};
  if (how.columns) {
    const dlpack_table_import wanted{plain, std::move(how.fields), how.reinterpret};
    return nb::cast(table_object(without_gil([&] {
      return import_from(tensor, how.keepalive, [&](auto&&... from) {
        return import_dlpack_columns(ctx, std::forward<decltype(from)>(from)..., wanted);
      });
    })));
  }
  const auto take = [&] {
    return import_from(tensor, how.keepalive, [&](auto&&... from) {
      return import_dlpack(ctx, std::forward<decltype(from)>(from)..., plain);
    });
  };
  column made = is_host_view(*ctx, tensor, how) ? take() : without_gil(take);
  field described{std::move(how.name), made.type(), false, {}};
  std::vector<column> pieces;
  pieces.push_back(std::move(made));
  return nb::cast(column_object(std::move(described), ctx, std::move(pieces)));
}

/// The context for an import. If the tensor is on another GPU than the requested context, the import uses the
/// context of the tensor's GPU, and `finish` moves the result.
class taker {
public:
  /// @param asked  null: the context of the tensor's device
  /// @throws error exchange for a tensor of another GPU, unless the caller wants a copy.
  taker(std::shared_ptr<context> asked, tensor_device device, const asked_import& how)
      : ctx_(std::move(asked)), how_(&how) {
    if (ctx_ != nullptr && is_elsewhere(device)) {
      require_copy(device);
      moved_to_ = std::exchange(ctx_, nullptr);
      view_ = how;
      view_.copy = std::nullopt;
      how_ = &view_;
    }
    if (ctx_ == nullptr) {
      ctx_ = context_for(device);
    }
  }
  taker(const taker&) = delete;
  taker& operator=(const taker&) = delete;

  [[nodiscard]] const std::shared_ptr<context>& ctx() const noexcept { return ctx_; }
  [[nodiscard]] const asked_import& how() const noexcept { return *how_; }
  /// Returns the result in the requested context, from an import into `ctx`.
  [[nodiscard]] nb::object finish(nb::object taken) const {
    if (moved_to_ == nullptr) {
      return taken;
    }
    return foreign_call([&]() -> nb::object { return taken.attr("to")(context_object{moved_to_}); });
  }

private:
  [[nodiscard]] bool is_elsewhere(tensor_device device) const {
    const tensor_device here = to_tensor_device(ctx_->device(), own_kind(ctx_->device()));
    return !ctx_->on_host() && device.type == here.type && device.ordinal != here.ordinal;
  }
  void require_copy(tensor_device device) const {
    if (how_->copy != true) {
      throw error(errc::exchange, concat("the tensor is on ", to_string(device), " and the context on ",
                                         to_string(ctx_->device()),
                                         ": pass copy=True, or take it into the context of its device and "
                                         "move that, with Column.to or Table.to"));
    }
  }

  std::shared_ptr<context> ctx_;
  std::shared_ptr<context> moved_to_; ///< the requested context; null if `ctx_` is that one
  asked_import view_;
  const asked_import* how_;
};

/// Imports through the producer's table of C functions. Null if its type has none, or if only `__dlpack__`
/// can copy the tensor to the host.
nb::object import_by_table(const producer& from, const std::shared_ptr<context>& ctx,
                           const asked_import& how) {
  const nb::handle source = from.object;
  const DLPackExchangeAPI* const table = from.table;
  if (table == nullptr) {
    return {};
  }
  if (from.is_of_torch) {
    require_no_gradient(source);
  }
  DLManagedTensorVersioned* found = nullptr;
  const int status =
      foreign_call([&] { return table->managed_tensor_from_py_object_no_sync(source.ptr(), &found); });
  require_success(source.type(), status == 0 && found != nullptr);
  dlpack_tensor tensor(found);
  if (from.is_of_torch) {
    require_values_as_they_are(source, found->dl_tensor);
  }
  const DLDevice where = found->dl_tensor.device;
  const tensor_device device{static_cast<std::int32_t>(where.device_type), where.device_id};
  const taker taking(ctx, device, how);
  const std::optional<memory_kind> kind = kind_of(device);
  std::optional<std::int64_t> ready;
  if (kind && !host_accessible(*kind)) {
    if (taking.ctx()->on_host()) {
      return {};
    }
    ready = work_stream_by(*table, device, source.type());
  }
  nb::object made = import_tensor(taking.ctx(), found, ready, taking.how());
  static_cast<void>(tensor.release());
  return taking.finish(std::move(made));
}

nb::object import_capsule(const std::shared_ptr<context>& ctx, nb::handle capsule,
                          std::optional<std::int64_t> ready, asked_import how) {
  taken_tensor tensor(capsule);
  nb::object made = import_tensor(ctx, tensor.get(), ready, std::move(how));
  tensor.keep();
  return made;
}

tensor_device device_of_tensor(const taken_tensor::pointer& tensor) {
  if (const auto* versioned = std::get_if<DLManagedTensorVersioned*>(&tensor)) {
    const DLPackVersion version = (*versioned)->version;
    if (version.major != DLPACK_MAJOR_VERSION) {
      throw error(errc::exchange,
                  concat("the tensor is of DLPack version ", version.major, ".", version.minor,
                         ", only major version ", DLPACK_MAJOR_VERSION, " is supported"));
    }
  }
  const DLDevice ctx =
      std::visit([](const auto* source) -> DLDevice { return source->dl_tensor.device; }, tensor);
  return {static_cast<std::int32_t>(ctx.device_type), ctx.device_id};
}

/// The device of a tensor in a capsule. Does not consume the capsule.
tensor_device device_of_capsule(nb::handle capsule) { return device_of_tensor(taken_tensor(capsule).get()); }

/// A capsule whose tensor is lent to an import. The caller gets it back when this object is destroyed, unless
/// `keep` was called. So an import of several capsules consumes all of them or none.
class lent_capsule {
public:
  explicit lent_capsule(nb::object capsule)
      : capsule_(std::move(capsule)), taken_(std::make_unique<taken_tensor>(capsule_)),
        owner_(std::make_shared<owner>(taken_->get())) {}
  lent_capsule(const lent_capsule&) = delete;
  lent_capsule& operator=(const lent_capsule&) = delete;

  [[nodiscard]] tensor_device device() const { return device_of_tensor(tensor()); }
  nb::object take_into(const std::shared_ptr<context>& asked, asked_import how) {
    how.keepalive = owner_;
    const taker taking(asked, device(), how);
    nb::object made = import_tensor(taking.ctx(), tensor(), std::nullopt, taking.how());
    used_in_ = taking.ctx();
    return taking.finish(std::move(made));
  }
  /// The capsule is consumed: its tensor is deleted after the last use.
  void keep() {
    static_cast<void>(tensor());
    owner_->kept = true;
    taken_->keep();
    taken_.reset();
    without_gil([&] { owner_.reset(); });
  }
  /// Gives the tensor back to the caller. Work that a failed call has queued on it has finished by then.
  void give_back() {
    if (used_in_ != nullptr) {
      without_gil([&] { used_in_->synchronize(used_in_->work_stream()); });
    }
    taken_.reset();
  }

private:
  struct owner {
    explicit owner(taken_tensor::pointer of) : tensor(of) {}
    owner(const owner&) = delete;
    owner& operator=(const owner&) = delete;
    ~owner() {
      const auto end = [](auto* of) {
        if (of->deleter != nullptr) {
          foreign_call([of] { of->deleter(of); });
        }
      };
      if (kept) {
        std::visit(end, tensor);
      }
    }

    taken_tensor::pointer tensor;
    bool kept = false;
  };

  [[nodiscard]] const taken_tensor::pointer& tensor() const {
    if (taken_ == nullptr) {
      throw error(errc::closed, "the loan of this capsule has ended");
    }
    return taken_->get();
  }

  nb::object capsule_;
  std::unique_ptr<taken_tensor> taken_; ///< null once the loan has ended
  std::shared_ptr<owner> owner_;
  std::shared_ptr<context> used_in_;
};

/// Imports a capsule that comes without a stream.
nb::object import_plain_capsule(nb::handle capsule, const std::shared_ptr<context>& ctx,
                                const asked_import& how) {
  const taker taking(ctx, device_of_capsule(capsule), how);
  return taking.finish(import_capsule(taking.ctx(), capsule, std::nullopt, taking.how()));
}

/// Whether the source supports only `to_dlpack()`, as cuDF's frames and series do.
bool is_older_producer(nb::handle source) {
  return !nb::hasattr(source, "__dlpack_device__") && !nb::hasattr(source, "__dlpack__") &&
         nb::hasattr(source, "to_dlpack");
}

/// Imports by the first protocol that the producer supports.
nb::object import_object(const producer& from, const std::shared_ptr<context>& ctx, const asked_import& how) {
  if (nb::object made = import_by_table(from, ctx, how); made.is_valid()) {
    return made;
  }
  const nb::handle source = from.object;
  if (is_older_producer(source)) {
    const nb::object capsule = foreign_call([&] { return source.attr("to_dlpack")(); });
    return import_plain_capsule(capsule, ctx, how);
  }
  const tensor_device device = device_of(source);
  const taker taking(ctx, device, how);
  std::optional<std::int64_t> ready;
  const nb::object capsule = capsule_of(source, device, *taking.ctx(), taking.how(), ready);
  return taking.finish(import_capsule(taking.ctx(), capsule, ready, taking.how()));
}

/// Imports a NumPy array that DLPack can't represent: masked, misaligned, in another byte order or of a type
/// of ml_dtypes. None if the source is not one of these.
nb::object import_numpy(nb::handle source, nb::handle given_ctx, const asked_import& how, bool reinterpret) {
  return foreign_call([&]() -> nb::object {
    return nb::module_::import_("saeta._convert.from_numpy")
        .attr("from_array")(source, given_ctx, how.copy, how.name, how.columns, how.fields, reinterpret);
  });
}

/// Raises an exception of a producer that refused to export, as the cause of an ExchangeError. Returns for
/// other exceptions.
void refuse_export(nb::handle source, nb::handle refusal) {
  foreign_call(
      [&] { nb::module_::import_("saeta._convert.from_tensors").attr("refuse_export")(source, refusal); });
}

nb::object from_dlpack(nb::handle source, nb::handle given_ctx, std::optional<bool> copy, std::string name,
                       bool columns, std::optional<schema> fields, bool reinterpret) {
  if (!columns && (fields || reinterpret)) {
    throw error(errc::invalid_argument, "schema= and reinterpret= need columns=True");
  }
  const asked_import how{copy, std::move(name), columns, std::move(fields), reinterpret, nullptr};
  const std::shared_ptr<context> ctx = named_context(given_ctx);
  if (nb::isinstance<lent_capsule>(source)) {
    return nb::cast<lent_capsule&>(source).take_into(ctx, how);
  }
  if (PyCapsule_CheckExact(source.ptr())) {
    return import_plain_capsule(source, ctx, how);
  }
  const producer from(source);
  // The DLPack tensor of a masked array has no mask.
  if (!from.is_ours && !from.is_of_torch && is_instance_of(source, names().numpy_ma, names().masked_array)) {
    return import_numpy(source, given_ctx, how, reinterpret);
  }
  std::exception_ptr refused;
  try {
    return import_object(from, ctx, how);
  } catch (const std::exception&) {
    refused = std::current_exception();
  }
  if (is_instance_of(source, names().numpy, names().ndarray)) {
    if (nb::object made = import_numpy(source, given_ctx, how, reinterpret); !made.is_none()) {
      return made;
    }
  }
  try {
    std::rethrow_exception(refused);
  } catch (nb::python_error& refusal) {
    refuse_export(source, refusal.value());
    throw;
  }
}

// The result depends on `columns`. All overloads have one docstring, which nanobind then shows once.
constexpr std::array<const char*, 3> from_dlpack_signatures = {
    "def from_dlpack(source: typing.Any, ctx: Context | Device | str | None = None, *, copy: "
    "bool | None = None, name: str = '', columns: typing.Literal[False] = False, schema: None = "
    "None, reinterpret: typing.Literal[False] = False) -> Column",
    "def from_dlpack(source: typing.Any, ctx: Context | Device | str | None = None, *, copy: "
    "bool | None = None, name: str = '', columns: typing.Literal[True], schema: Schema | None = "
    "None, reinterpret: bool = False) -> Table",
    "def from_dlpack(source: typing.Any, ctx: Context | Device | str | None = None, *, copy: "
    "bool | None = None, name: str = '', columns: bool, schema: Schema | None = None, "
    "reinterpret: bool = False) -> Column | Table",
};

constexpr const char* from_dlpack_doc =
    "Takes a tensor into a context as a column without nulls, or with columns=True as a table.\n\n"
    "Memory is shared and kept alive until our last work on it has finished; our first work waits for "
    "the producer's. Bools become bool8: a copy has 0 and 1, a view keeps its bytes, and every byte "
    "except 0 is true.\n\n"
    "Args:\n"
    "    source: an object with `__dlpack__` and `__dlpack_device__`, one with `to_dlpack` alone (cuDF's "
    "series), or a capsule. A raw capsule names no stream: from a device it waits for all work queued so "
    "far.\n"
    "    ctx: a Context, a Device or the name of one. None: the context of the tensor's device.\n"
    "    copy: True copies into memory of the context, under its budget; False raises ExchangeError "
    "where a copy would be needed. A strided tensor is gathered by one kernel into memory of the "
    "context. A tensor of another GPU than the context's needs True, and is copied as `Column.to` does.\n"
    "    name: of the column.\n"
    "    columns: False: a tensor of more than one dimension is a column of fixed-size lists, one inside "
    "of the other for each dimension behind the first. True: a tensor of two dimensions is a table; "
    "columns whose values lie side by side are shared, others are gathered.\n"
    "    schema: of the table; None: col_0, col_1 ... of the tensor's type.\n"
    "    reinterpret: whether to take integers for those of the schema that have the same width and another "
    "sign.\n\n"
    "Returns:\n"
    "    A Column, or a Table.\n\n"
    "Raises:\n"
    "    TypeMismatch: it is not a tensor, or the schema has other types. ExchangeError: a type, shape or "
    "device that no column has, or a forbidden copy. FormatError: a tensor that breaks the standard.\n\n"
    "Example:\n"
    "    >>> import numpy as np\n"
    "    >>> import saeta as sa\n"
    "    >>> sa.from_dlpack(np.arange(6).reshape(3, 2), 'host', columns=True)['col_1'].to_pylist()\n"
    "    [1, 3, 5]\n";

} // namespace

void bind_dlpack(nb::module_& m) {
  nb::class_<lent_capsule>(m, "_LentCapsule",
                           "A DLPack capsule that `from_dlpack` can take, and that is consumed by `keep`.")
      .def(nb::init<nb::object>(), nb::arg("capsule"))
      .def(not_pickled("a capsule belongs to its process"))
      .def("__dlpack_device__",
           [](const lent_capsule& self) {
             const tensor_device found = self.device();
             return std::pair(found.type, found.ordinal);
           })
      .def("keep", &lent_capsule::keep, "Consumes the capsule.")
      .def("give_back", &lent_capsule::give_back,
           "Leaves the capsule as it was, once the work on its tensor has finished.");
  for (const char* signature : from_dlpack_signatures) {
    m.def("from_dlpack", &from_dlpack, nb::arg("source").none(), nb::arg("ctx") = nb::none(), nb::kw_only(),
          nb::arg("copy") = nb::none(), nb::arg("name") = "", nb::arg("columns") = false,
          nb::arg("schema") = nb::none(), nb::arg("reinterpret") = false, nb::sig(signature),
          from_dlpack_doc);
  }
  m.def(
      "_tensor_device",
      [](nb::handle capsule) {
        const tensor_device found = device_of_capsule(capsule);
        return std::pair(found.type, found.ordinal);
      },
      nb::arg("capsule"), "Device type and number of the tensor in a capsule. The capsule stays unconsumed.");
}

} // namespace saeta::py
