// The part of the module `_ipc` that packs tables.
#include "python/src/core/byte_columns.hpp"
#include "python/src/core/python_bytes.hpp"
#include "python/src/ipc/writing.hpp"
#include "saeta/ipc/packed.hpp"
#include "saeta/transfer/download.hpp"
#include "saeta/transfer/upload.hpp"

#include <nanobind/stl/optional.h>

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace saeta::py {
namespace {

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
    ipc::packed_table made = ipc::pack(source);
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

/// Host memory of a Python object as a body. None if it begins at an address that an unpacked column may not.
std::optional<column_object> body_over(const context_object& ctx, nb::handle source, std::size_t alignment) {
  const auto held = std::make_shared<python_bytes>(source);
  const std::span<const std::byte> bytes = held->span();
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignment != 0) {
    return std::nullopt;
  }
  external_memory memory;
  memory.pointer = const_cast<std::byte*>(bytes.data()); // read-only
  memory.bytes = bytes.size();
  memory.device = ctx.value->device();
  memory.kind = memory_kind::host;
  memory.keepalive = held;
  memory.tag = "packed body";
  return without_gil([&] {
    const std::shared_ptr<context> into = ctx.value;
    return column_of_bytes(into, buffer::adopt(into, std::move(memory)));
  });
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
  m.def("body_over", &body_over, nb::arg("ctx"), nb::arg("source"), nb::arg("alignment"),
        nb::sig("def body_over(ctx: saeta._core.Context, source: bytes | bytearray | memoryview, alignment: "
                "int) -> saeta._core.Column | None"),
        "A column of uint8 that views the memory of an object in the host's context.");
  m.def("unpack", &unpack, nb::arg("metadata"), nb::arg("body"), nb::arg("validate"),
        nb::sig("def unpack(metadata: bytes | bytearray | memoryview, body: saeta._core.Column, validate: "
                "bool) -> saeta._core.Table"),
        "The table of a packed form, in the context of its body, which it views.");
}

} // namespace saeta::py
