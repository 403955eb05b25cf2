// Buffers, and use tokens over buffers and columns for kernels that users launch.
#include "saeta/memory/use_token.hpp"

#include "python/src/core/pickling.hpp"
#include "python/src/dlpack/exchange_api.hpp"
#include "python/src/memory/memory_objects.hpp"
#include "saeta/base/text.hpp"
#include "saeta/interop/dlpack/dlpack.hpp"
#include "saeta/interop/dlpack/types.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>

#include <algorithm>

namespace saeta::py {
namespace {

void add_buffers(const column& of, std::vector<buffer>& to) {
  for (const buffer& each : of.buffers()) {
    if (each.present()) {
      to.push_back(each);
    }
  }
  if (of.dictionary() != nullptr) {
    add_buffers(*of.dictionary(), to);
  }
}

/// All buffers of a Buffer or Column.
std::vector<buffer> buffers_of(nb::handle object) {
  std::vector<buffer> result;
  if (nb::isinstance<buffer_object>(object)) {
    result.push_back(*nb::cast<const buffer_object&>(object).value);
  } else if (nb::isinstance<column_object>(object)) {
    for (const column& piece : *nb::cast<const column_object&>(object).pieces) {
      add_buffers(piece, result);
    }
  } else {
    throw error(errc::type_mismatch, concat("expected a Buffer or a Column, got an object of type ",
                                            nb::type_name(object.type()).c_str()));
  }
  return result;
}

stream_ref stream_of(const context& ctx, std::optional<std::int64_t> number) {
  if (!number) {
    return ctx.work_stream();
  }
  if (ctx.on_host()) {
    throw error(errc::invalid_argument,
                concat("stream ", *number, " was given for the host, which has no streams"));
  }
  const auto handle = tensor_stream(*number);
  if (!handle) {
    throw error(errc::invalid_argument, "stream -1 is not a stream: expected None, 1, 2 or a stream handle");
  }
  return {*ctx.device_backend(), *handle};
}

/// An open token and its uses. The token is destroyed first.
struct open_use {
  std::vector<use> uses;
  std::optional<use_token> token;
};

class use_object {
public:
  use_object(std::optional<std::int64_t> stream, const nb::iterable& reads, const nb::iterable& writes)
      : stream_(stream), uses_(std::make_unique<open_use>()) {
    foreign_call([&] {
      add(reads, access::read);
      add(writes, access::read_write);
    });
    if (ctx_ == nullptr) {
      throw error(errc::invalid_argument, "name at least one buffer to read or write");
    }
  }
  use_object(const use_object&) = delete;
  use_object& operator=(const use_object&) = delete;
  ~use_object() { drop(); }

  void enter() {
    if (!uses_ || uses_->token) {
      throw error(errc::closed, "a token over buffers can be entered once");
    }
    without_gil([this] { uses_->token.emplace(stream_of(*ctx_, stream_), uses_->uses); });
  }
  void leave() {
    if (std::unique_ptr<open_use> ending = std::move(uses_)) {
      without_gil([&] {
        if (ending->token) {
          ending->token->finish();
        }
        ending.reset();
      });
    }
  }

  [[nodiscard]] std::optional<std::int64_t> stream() const {
    static_cast<void>(open());
    return stream_ ? stream_ : dlpack_import_stream(*ctx_);
  }
  [[nodiscard]] nb::object pointer(nb::handle object) const {
    require_named(object);
    return foreign_call([&]() -> nb::object { return object.attr("address"); });
  }
  [[nodiscard]] bool writable(nb::handle object) const {
    require_named(object);
    const std::vector<buffer> parts = buffers_of(object);
    return std::all_of(parts.begin(), parts.end(), [this](const buffer& part) {
      return std::any_of(uses_->uses.begin(), uses_->uses.end(), [&](const use& named) {
        return named.mode != access::read && named.used.owner() == part.owner();
      });
    });
  }
  void synchronize() const {
    const stream_ref waited = open().stream();
    without_gil([&] { ctx_->synchronize(waited); });
  }
  [[nodiscard]] bool is_open() const noexcept { return uses_ && uses_->token; }

private:
  void add(const nb::iterable& objects, access mode) {
    for (const nb::handle object : objects) {
      for (buffer& part : buffers_of(object)) {
        if (ctx_ == nullptr || ctx_->on_host()) {
          ctx_ = part.owner()->ctx();
        }
        uses_->uses.push_back({std::move(part), mode});
      }
    }
  }
  [[nodiscard]] const use_token& open() const {
    if (!is_open()) {
      throw error(errc::closed, "the token over these buffers is not open: use it inside its `with` block");
    }
    return *uses_->token;
  }
  void require_named(nb::handle object) const {
    for (const buffer& part : buffers_of(object)) {
      static_cast<void>(open().span<const std::byte>(part).data());
    }
  }
  void drop() noexcept {
    if (uses_ && Py_IsInitialized() != 0 && PyGILState_Check() != 0) {
      without_gil([this] { uses_.reset(); });
    }
  }

  std::optional<std::int64_t> stream_;
  std::shared_ptr<context> ctx_;
  std::unique_ptr<open_use> uses_;
};

/// The native handle of a framework's stream object.
nb::object handle_of(nb::handle stream) {
  if (nb::hasattr(stream, "__cuda_stream__")) {
    return stream.attr("__cuda_stream__")()[1];
  }
  for (const char* const attribute : {"cuda_stream", "ptr", "handle"}) { // torch, CuPy, Numba
    if (nb::hasattr(stream, attribute)) {
      const nb::object handle = stream.attr(attribute);
      return nb::getattr(handle, "value", handle); // handles of ctypes have `value`
    }
  }
  throw error(errc::type_mismatch, concat(nb::type_name(stream.type()).c_str(),
                                          " is not a stream: expected None, a number, or an object with "
                                          "__cuda_stream__, cuda_stream, ptr or handle"));
}

/// The DLPack number of a stream: None and numbers unchanged, otherwise the handle of a framework's stream.
std::optional<std::int64_t> stream_number(nb::handle stream) {
  if (stream.is_none()) {
    return std::nullopt;
  }
  const bool numbered = PyLong_Check(stream.ptr()) != 0;
  const nb::object number = foreign_call([&]() -> nb::object {
    const nb::object handle = numbered ? nb::borrow(stream) : handle_of(stream);
    return handle.is_none() ? nb::int_(0) : nb::int_(handle);
  });
  std::int64_t value = 0;
  if (!nb::try_cast(number, value)) {
    throw error(errc::invalid_argument, "a stream handle must be an integer of at most 64 bits");
  }
  return numbered ? value : dlpack_stream(value);
}

} // namespace

buffer_object allocate_buffer(const context_object& self, const size_spec& bytes, std::string_view label,
                              nb::handle framework_stream, std::size_t alignment, std::string_view kind) {
  const std::optional<std::int64_t> stream = stream_number(framework_stream);
  return without_gil([&] {
    return buffer_object(buffer::allocate(self.value, to_bytes(bytes, *self.value),
                                          stream_of(*self.value, stream), label, alignment,
                                          parse_memory_kind(kind)));
  });
}

namespace {

buffer_object sliced_buffer(const buffer_object& self, const nb::slice& range) {
  const auto [start, stop, step, length] = range.compute(self.value->size());
  if (step != 1) {
    throw error(errc::invalid_argument,
                concat("a buffer can't be sliced with step ", step, ": only step 1 is a view"));
  }
  return buffer_object(self.value->slice(static_cast<std::size_t>(start), length));
}

std::string describe_buffer(const buffer_object& self) {
  return printable(concat("<saeta.Buffer ", to_string(self.owner().device()), ": ",
                          human_bytes(self.value->size()),
                          self.owner().tag().empty() ? "" : concat(", '", self.owner().tag(), "'"), ">"));
}

void bind_buffer(nb::module_& m) {
  nb::class_<buffer_object>(
      m, "Buffer",
      "Bytes on a device, from `Context.allocate`. Access them inside `saeta.use`. Slices share memory."
      "\n\nExample:\n"
      "    >>> import saeta as sa\n"
      "    >>> ctx = sa.context('host')\n"
      "    >>> block = ctx.allocate('1KiB', tag='scratch')\n"
      "    >>> block.nbytes, block.tag, block.kind\n"
      "    (1024, 'scratch', 'host')")
      .def(made_by("Context.allocate"))
      .def(copied_as_itself())
      .def(not_pickled("pickle a copy of its bytes, as numpy.array(token.array(buffer)) inside of saeta.use"))
      .def_prop_ro(
          "nbytes", [](const buffer_object& self) { return self.value->size(); }, "Size in bytes.")
      .def_prop_ro(
          "tag", [](const buffer_object& self) { return self.owner().tag(); },
          "The name under which the memory is accounted.")
      .def_prop_ro(
          "generation", [](const buffer_object& self) { return self.owner().generation(); },
          "A number that distinguishes this block from earlier ones at the same address.")
      .def_prop_ro(
          "device", [](const buffer_object& self) { return to_string(self.owner().device()); },
          "\"host\" or \"cuda:0\".")
      .def_prop_ro(
          "kind", [](const buffer_object& self) { return std::string(to_string(self.value->kind())); },
          "What kind of memory it is: \"device\", \"managed\", \"pinned\" (page-locked host memory) or "
          "\"host\".")
      .def_prop_ro(
          "context", [](const buffer_object& self) { return context_object{self.owner().ctx()}; },
          "The context that holds the memory.")
      .def_prop_ro(
          "address", [](const buffer_object& self) { return self.value->address(); },
          "The address as an identity. For access to the bytes, use the pointer of a token of `saeta.use`.")
      .def("__len__", [](const buffer_object& self) { return self.value->size(); })
      .def("__getitem__", &sliced_buffer, nb::arg("index"), "A view of some of the bytes, with step 1.")
      .def("__repr__", &describe_buffer);
}

} // namespace

void bind_use(nb::module_& m) {
  bind_buffer(m);
  m.def(
      "_to_bytes",
      [](const context_object& ctx, const size_spec& size) {
        return without_gil([&] { return to_bytes(size, *ctx.value); });
      },
      nb::arg("where"), nb::arg("size"), nb::sig("def _to_bytes(where: Context, size: int | str) -> int"),
      "Bytes of a size: an int, \"8GiB\", or \"50%\" of the device's memory.");

  m.def("_stream_number", &stream_number, nb::arg("stream").none(),
        nb::sig("def _stream_number(stream: typing.Any) -> int | None"),
        "A stream as `__dlpack__` numbers it, None for None. TypeMismatch for other objects.");

  nb::class_<use_object>(
      m, "UseToken",
      "Access to buffers and columns for work on one stream; `saeta.use` makes it, a `with` block opens it."
      "\n\nExample:\n"
      "    >>> import saeta as sa\n"
      "    >>> import numpy as np\n"
      "    >>> block = sa.context('host').allocate(16)\n"
      "    >>> with sa.use(writes=[block]) as token:\n"
      "    ...     np.asarray(token.array(block, 'i4'))[:] = 7\n"
      "    >>> with sa.use(reads=[block]) as token:\n"
      "    ...     np.asarray(token.array(block, 'i4')).tolist()\n"
      "    [7, 7, 7, 7]")
      .def(nb::init<std::optional<std::int64_t>, nb::iterable, nb::iterable>(), nb::arg("stream").none(),
           nb::arg("reads"), nb::arg("writes"),
           nb::sig("def __init__(self, stream: int | None, reads: collections.abc.Iterable[Buffer | Column], "
                   "writes: collections.abc.Iterable[Buffer | Column]) -> None"))
      .def(not_pickled("make one where the work is"))
      .def_prop_ro("stream", &use_object::stream,
                   "Handle of the stream to launch on, as `__dlpack__` numbers it; None on the host.")
      .def_prop_ro("is_open", &use_object::is_open, "True inside the `with` block.")
      .def("__repr__",
           [](const use_object& self) {
             return concat("<saeta.UseToken, ", self.is_open() ? "open>" : "not open>");
           })
      .def("synchronize", &use_object::synchronize,
           "Makes the host wait for the token's stream: for the work that the token waits for, and for work "
           "queued since. Does nothing on the host. ClosedError outside the `with` block.")
      .def("pointer", &use_object::pointer, nb::arg("memory"),
           nb::sig("def pointer(self, memory: Buffer | Column) -> int"),
           "Device address of a buffer's first byte, or of the first row of a column in one chunk. "
           "InvalidError if it was not named, ClosedError outside the `with` block.")
      .def("writable", &use_object::writable, nb::arg("memory"),
           nb::sig("def writable(self, memory: Buffer | Column) -> bool"),
           "True if it was named in `writes`.")
      .def("array", in_python("saeta._use", "borrowed_array"),
           nb::sig("def array(self, memory: Buffer | Column, dtype: object = None) -> typing.Any"),
           "A 1-D array over a buffer (dtype None: bytes) or a column without nulls (None: its own type): an "
           "object with `__cuda_array_interface__` (version 3), on the host with `__array_interface__`. "
           "Page-locked and managed memory have both; reading the latter waits for the stream. Only inside "
           "the `with` block. Read-only unless it was named in `writes`. The consumer works on this token's "
           "stream and need not wait."
           "\n\nExample:\n"
           "    >>> import saeta as sa\n"
           "    >>> block = sa.context('host').allocate(16)\n"
           "    >>> with sa.use(writes=[block]) as token:\n"
           "    ...     len(token.array(block, 'f8'))\n"
           "    2")
      .def(with_block<&use_object::leave, &use_object::enter>("def __enter__(self) -> UseToken"));
}

} // namespace saeta::py
