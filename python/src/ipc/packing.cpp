// The part of the module `_ipc` that packs tables.
#include "python/src/core/python_bytes.hpp"
#include "python/src/ipc/writing.hpp"
#include "saeta/base/text.hpp"
#include "saeta/compute/pack_columns.hpp"
#include "saeta/interop/arrow/batches.hpp"
#include "saeta/ipc/packed.hpp"
#include "saeta/transfer/download.hpp"
#include "saeta/transfer/upload.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace saeta::py {
namespace {

constexpr std::size_t body_alignment = 8; // `unpack` requires no more

/// In a forked child, copies the rows of a table of its parent to the child's own context, because the
/// parent's can't allocate there.
table copy_of_inherited(const table& source) {
  const std::shared_ptr<context> own = context_pointer(source.ctx());
  dictionary_cache dictionaries;
  std::vector<batch> made;
  for (const batch& each : source.batches()) {
    made.push_back(
        upload(own, view_in_place(each), dictionaries, {.tag = "pack", .readable = {}, .file = {}}));
  }
  return table::make(own, source.fields(), std::move(made));
}

/// A table does not change, so its packed form is made once, unless that would keep a copy of the table.
nb::object pack(const table_object& given) {
  const bool inherited = given.value->ctx()->inherited();
  if (given.packed.get().is_valid() && !inherited) {
    return given.packed.get();
  }
  auto [packed, body] = without_gil([&] {
    const std::optional<table> copied =
        inherited ? std::optional(copy_of_inherited(*given.value)) : std::nullopt;
    const table& source = copied ? *copied : *given.value;
    ipc::packed_table made = ipc::pack(source, body_alignment);
    column_object shown = column_of_bytes(source.ctx(), made.body);
    return std::pair(std::move(made), std::move(shown));
  });
  nb::object made =
      nb::make_tuple(nb::bytes(packed.metadata.data(), packed.metadata.size()), std::move(body));
  if (packed.in_place && !inherited) {
    given.packed.keep(made);
  }
  return made;
}

/// The columns that pickles take from where they are, while the others are packed: large ones of one batch that
/// lie in one storage each. Types whose values may be shared by columns, or lie anywhere, are not among them.
std::vector<std::size_t> packed_alone(const table_object& given) {
  constexpr std::uint64_t least_bytes = std::uint64_t{1} << 20;
  const table& source = *given.value;
  std::vector<std::size_t> alone;
  if (source.batches().size() != 1 || source.ctx()->inherited() ||
      find_packed(source.batches(), body_alignment)) {
    return alone;
  }
  const batch& rows = source.batches().front();
  for (std::size_t i = 0; i < rows.columns.size(); ++i) {
    const column& of = rows.columns[i];
    const batch only{rows.rows, {of}};
    if (of.type().layout() == layout_kind::fixed && of.dictionary() == nullptr && !of.type().is_symbol() &&
        of.byte_size() >= least_bytes && find_packed(std::span(&only, 1), body_alignment)) {
      alone.push_back(i);
    }
  }
  return alone;
}

/// The bytes of a body in host memory, for objects that read the buffer protocol.
class body_bytes {
public:
  explicit body_bytes(const column_object& body) {
    if (bytes_of_column(body).present()) {
      const column& bytes = body.pieces->front();
      const batch alone{bytes.length(), {bytes}};
      host_batch made = std::move(host_batches(body.ctx, std::span(&alone, 1)).front());
      const host_array& array = made.arrays.front();
      bytes_ = array.buffers[1].subspan(static_cast<std::size_t>(array.offset),
                                        static_cast<std::size_t>(array.length));
      keepalive_ = std::move(made.keepalive);
    }
  }

  static int fill(PyObject* self, Py_buffer* view, int flags) {
    const body_bytes& of = *nb::inst_ptr<body_bytes>(self);
    return PyBuffer_FillInfo(view, self, const_cast<std::byte*>(of.bytes_.data()), std::ssize(of.bytes_), 1,
                             flags);
  }

private:
  std::span<const std::byte> bytes_;
  std::shared_ptr<void> keepalive_;
};

PyType_Slot body_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&body_bytes::fill)}, {0, nullptr}};

column_object adopted(const std::shared_ptr<context>& ctx, std::span<const std::byte> bytes,
                      std::shared_ptr<void> keepalive) {
  external_memory memory;
  memory.pointer = const_cast<std::byte*>(bytes.data()); // read-only
  memory.bytes = bytes.size();
  memory.device = ctx->device();
  memory.kind = memory_kind::host;
  memory.keepalive = std::move(keepalive);
  memory.tag = "packed body";
  return column_of_bytes(ctx, buffer::adopt(ctx, std::move(memory)));
}

column_object uploaded(const std::shared_ptr<context>& ctx, std::span<const std::byte> bytes) {
  host_batch rows;
  rows.rows = std::ssize(bytes);
  host_array& array = rows.arrays.emplace_back();
  array.type = data_type(type_id::uint8);
  array.length = rows.rows;
  array.null_count = 0;
  array.buffers = {{}, bytes};
  dictionary_cache none;
  const batch made = upload(ctx, rows, none, {.tag = "packed body", .readable = {}, .file = {}});
  return column_of_bytes(ctx, bytes.empty() ? buffer() : made.columns.front().values());
}

/// Host memory of a Python object as a body: a view where the context can use it, else a copy.
/// @param copy  None: where it is needed
column_object body_over(const context_object& ctx, nb::handle source, std::size_t alignment,
                        std::optional<bool> copy) {
  const auto held = std::make_shared<python_bytes>(source);
  const std::span<const std::byte> bytes = held->span();
  const std::shared_ptr<context> into = ctx.value;
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  const bool on_host = into->on_host();
  if (on_host && address % alignment == 0 && copy != true) {
    return without_gil([&] { return adopted(into, bytes, held); });
  }
  if (copy == false) {
    throw error(errc::exchange,
                on_host ? concat("the body begins at address ", address, ", which is not a multiple of ",
                                 alignment, " bytes: it must be copied")
                        : concat("the body is in host memory, and ", to_string(into->device()),
                                 " needs a copy of it"));
  }
  return without_gil([&] { return uploaded(into, bytes); });
}

table_object unpack(nb::handle metadata, const column_object& body, bool validate) {
  const python_bytes bytes(metadata);
  return without_gil([&] {
    return table_object(ipc::unpack(body.ctx, bytes.span(), bytes_of_column(body),
                                    validate ? validation::full : validation::structure));
  });
}

} // namespace

void bind_packing(nb::module_& m) {
  m.def("pack", &pack, nb::arg("table"),
        nb::sig("def pack(table: saeta._core.Table) -> tuple[bytes, saeta._core.Column]"),
        "The packed form of a table: its metadata, and its body as a column of uint8.");
  m.def("packed_alone", &packed_alone, nb::arg("table"), nb::call_guard<gil_release>(),
        nb::sig("def packed_alone(table: saeta._core.Table) -> list[int]"),
        "The columns that are packed already, each by itself, while the table as a whole is not.");
  nb::class_<body_bytes>(m, "BodyBytes", nb::type_slots(body_slots),
                         "The bytes of a body in host memory, for reading, with the buffer protocol.")
      .def(
          "__init__",
          [](body_bytes* self, const column_object& body) {
            without_gil([&] { new (self) body_bytes(body); });
          },
          nb::arg("body"), nb::sig("def __init__(self, body: saeta._core.Column) -> None"));
  m.def("body_over", &body_over, nb::arg("ctx"), nb::arg("source"), nb::arg("alignment"),
        nb::arg("copy").none(),
        nb::sig("def body_over(ctx: saeta._core.Context, source: bytes | bytearray | memoryview, alignment: "
                "int, copy: bool | None) -> saeta._core.Column"),
        "A column of uint8 of the memory of an object: a view where the context can use it, else a copy.");
  m.def("unpack", &unpack, nb::arg("metadata"), nb::arg("body"), nb::arg("validate"),
        nb::sig("def unpack(metadata: bytes | bytearray | memoryview, body: saeta._core.Column, validate: "
                "bool) -> saeta._core.Table"),
        "The table of a packed form, in the context of its body, which it views.");
}

} // namespace saeta::py
