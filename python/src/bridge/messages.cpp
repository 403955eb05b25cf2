// IPC messages in device memory.
#include "python/src/bridge/bridge_objects.hpp"
#include "saeta/bridge/message.hpp"

#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/message.h>
#include <nanobind/stl/pair.h>

namespace saeta::py {
namespace {

buffer_object serialize(const context_object& ctx, nb::handle batch) {
  const auto given = unwrap(foreign_call([&] { return arrow::py::unwrap_batch(batch.ptr()); }));
  return without_gil([&] { return buffer_object(serialize_batch(ctx.value, given)); });
}

arrow::MemoryPool* pool_at(std::uintptr_t address) {
  return address == 0 ? arrow::default_memory_pool() : reinterpret_cast<arrow::MemoryPool*>(address);
}

/// The address of a new message, or 0 at the end of a stream, and the number of bytes read.
std::pair<std::uintptr_t, std::int64_t> read_one(nb::handle bytes, std::uintptr_t pool) {
  const auto given = buffer_in(bytes);
  return without_gil([&]() -> std::pair<std::uintptr_t, std::int64_t> {
    auto found = read_message(given, pool_at(pool));
    if (found == nullptr) {
      return {0, 0};
    }
    const auto end = found->body()->address() + static_cast<std::uintptr_t>(found->body()->size());
    return {reinterpret_cast<std::uintptr_t>(found.release()),
            static_cast<std::int64_t>(end - given->address())};
  });
}

nb::object read_record_batch(const context_object& ctx, nb::handle schema, std::uintptr_t memo,
                             nb::handle bytes, std::uintptr_t pool) {
  const auto given = buffer_in(bytes);
  const auto fields = unwrap(foreign_call([&] { return arrow::py::unwrap_schema(schema.ptr()); }));
  const auto made = without_gil([&] {
    return read_batch(ctx.value, fields, reinterpret_cast<const arrow::ipc::DictionaryMemo*>(memo), given,
                      pool_at(pool));
  });
  return steal_result(foreign_call([&] { return arrow::py::wrap_batch(made); }));
}

} // namespace

void bind_messages(nb::module_& m) {
  m.def(
      "serialize", &serialize, nb::arg("where"), nb::arg("batch"),
      nb::sig("def serialize(where: saeta._core.Context, batch: pyarrow.RecordBatch) -> saeta._core.Buffer"),
      "A record batch as an IPC message.");
  m.def("read_message", &read_one, nb::arg("buffer"), nb::arg("pool"),
        nb::sig("def read_message(buffer: pyarrow.Buffer, pool: int) -> tuple[int, int]"),
        "Address of a new arrow::ipc::Message, for `_arrow.message_at`, and the bytes that it takes; 0 at "
        "the end of a stream.");
  m.def("read_batch", &read_record_batch, nb::arg("where"), nb::arg("schema"), nb::arg("memo"),
        nb::arg("buffer"), nb::arg("pool"),
        nb::sig("def read_batch(where: saeta._core.Context, schema: pyarrow.Schema, memo: int, buffer: "
                "pyarrow.Buffer, pool: int) -> pyarrow.RecordBatch"),
        "The record batch of an IPC message.");
}

} // namespace saeta::py
