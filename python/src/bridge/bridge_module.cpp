// Imports pyarrow's tables as our tables.

#include "python/src/bridge/bridge_objects.hpp"
#include "python/src/core/objects.hpp"
#include "saeta/bridge/bridge.hpp"
#include "saeta/bridge/message.hpp"
#include "saeta/bridge/table_import.hpp"

#include <arrow/array/array_base.h>
#include <arrow/device.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/message.h>
#include <arrow/record_batch.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <memory>
#include <optional>
#include <variant>

namespace saeta::py {
namespace {

using pyarrow_rows = std::variant<std::shared_ptr<arrow::RecordBatch>, std::shared_ptr<arrow::Table>>;

pyarrow_rows rows_of(nb::handle source) {
  if (saeta::foreign_call([&] { return arrow::py::is_batch(source.ptr()); })) {
    return unwrap(foreign_call([&] { return arrow::py::unwrap_batch(source.ptr()); }));
  }
  return unwrap(foreign_call([&] { return arrow::py::unwrap_table(source.ptr()); }));
}

bool is_on_cpu(nb::handle source) {
  const pyarrow_rows rows = rows_of(source);
  return without_gil([&] { return std::visit([](const auto& of) { return on_cpu(*of); }, rows); });
}

table_object import_rows(const context_object& ctx, nb::handle source, std::optional<bool> copy) {
  const pyarrow_rows rows = rows_of(source);
  import_options options;
  options.copy = policy_of(copy);
  options.upload.tag = "arrow";
  return without_gil([&] {
    return table_object(
        std::visit([&](const auto& of) { return import_table(ctx.value, of, options); }, rows));
  });
}

} // namespace

void bind_tables(nb::module_& m) {
  m.def("on_cpu", &is_on_cpu, nb::arg("source"),
        nb::sig("def on_cpu(source: pyarrow.Table | pyarrow.RecordBatch) -> bool"),
        "True if all memory of the table is the CPU's. `table` takes no other table.");
  m.def("table", &import_rows, nb::arg("where"), nb::arg("source"), nb::arg("copy").none(),
        nb::sig("def table(where: saeta._core.Context, source: pyarrow.Table | pyarrow.RecordBatch, copy: "
                "bool | None) -> saeta._core.Table"),
        "The table in a context, as `saeta.from_arrow` takes it.");
}

// IPC messages in device memory.

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

// The module `_bridge`: our memory as libarrow's objects, which pyarrow wraps. It needs the libarrow that it
// was built with. saeta/cuda loads it.

namespace {

nb::object wrap(const buffer_object& memory, bool writable) {
  auto made =
      without_gil([&] { return arrow_buffer(*memory.value, writable ? access::write : access::read); });
  return steal_result(foreign_call([&] { return arrow::py::wrap_buffer(made); }));
}

/// The memory of a buffer on a device: our own, or a view of external memory. None for host buffers.
std::optional<buffer_object> memory_of(nb::handle object) {
  const auto given = buffer_in(object);
  return without_gil([&]() -> std::optional<buffer_object> {
    if (auto own = own_bytes(*given)) {
      return buffer_object(*std::move(own));
    }
    const auto ctx = given->is_cpu() ? nullptr : context_of(*given->memory_manager());
    if (ctx == nullptr) {
      return std::nullopt;
    }
    return buffer_object(bytes_of(ctx, given));
  });
}

void count_nulls_of(nb::handle object) {
  if (saeta::foreign_call([&] { return arrow::py::is_batch(object.ptr()); })) {
    const auto batch = unwrap(foreign_call([&] { return arrow::py::unwrap_batch(object.ptr()); }));
    without_gil([&] {
      for (const auto& each : batch->column_data()) {
        count_nulls(*each);
      }
    });
  } else {
    const auto array = unwrap(foreign_call([&] { return arrow::py::unwrap_array(object.ptr()); }));
    without_gil([&] { count_nulls(*array->data()); });
  }
}

/// Page-locked memory as CPU memory. pyarrow refuses to read buffers that are not CPU memory.
class host_buffer final : public arrow::Buffer {
public:
  explicit host_buffer(const std::shared_ptr<arrow::Buffer>& of)
      : Buffer(reinterpret_cast<const std::uint8_t*>(of->address()), of->size(),
               arrow::default_cpu_memory_manager(), of, of->device_type()) {
    is_mutable_ = of->is_mutable();
  }
};

nb::object wrap_host(const buffer_object& memory) {
  auto made =
      without_gil([&] { return std::make_shared<host_buffer>(arrow_buffer(*memory.value, access::write)); });
  return steal_result(foreign_call([&] { return arrow::py::wrap_buffer(made); }));
}

/// libarrow calls the finder on any thread, with or without the GIL.
void register_finder(nb::object finder) {
  // Never dropped: libarrow keeps the finder until the process ends, which is after the interpreter's end.
  auto* const kept = new nb::object(std::move(finder));
  const context_finder open = [kept](std::int64_t ordinal) -> std::shared_ptr<context> {
    const gil_acquire acquire;
    return foreign_call([&]() -> std::shared_ptr<context> {
      try {
        return nb::cast<const context_object&>((*kept)(ordinal)).value;
      } catch (const nb::python_error& failure) { // a Status carries the message but not the traceback
        throw error(errc::device, nb::str(failure.value()).c_str());
      }
    });
  };
  using arrow::DeviceAllocationType;
  for (const auto type : {DeviceAllocationType::kCUDA, DeviceAllocationType::kCUDA_HOST,
                          DeviceAllocationType::kCUDA_MANAGED, DeviceAllocationType::kEXT_DEV}) {
    try {
      register_devices(type, open);
    } catch (const error& failure) {
      if (failure.code() != errc::exchange) {
        throw;
      }
      // A pyarrow that was built with CUDA keeps its own memory managers for such arrays.
    }
  }
}

} // namespace
} // namespace saeta::py

NB_MODULE(_bridge, m) {
  using namespace saeta::py;
  static nb::handle first;
  if (is_imported_again(m, first)) {
    return;
  }
  nb::set_leak_warnings(false);
  m.doc() = "Saeta's memory as objects of the libarrow inside pyarrow.";
  nb::module_::import_("saeta._core"); // defines the classes
  if (saeta::foreign_call([] { return arrow::py::import_pyarrow(); }) != 0) {
    throw nb::python_error();
  }
  m.def("wrap", &wrap, nb::arg("memory"), nb::arg("writable"),
        nb::sig("def wrap(memory: saeta._core.Buffer, writable: bool) -> pyarrow.Buffer"),
        "The memory as a pyarrow.Buffer, which others may use on any stream.");
  m.def("wrap_host", &wrap_host, nb::arg("memory"),
        nb::sig("def wrap_host(memory: saeta._core.Buffer) -> pyarrow.Buffer"),
        "Page-locked memory as a pyarrow.Buffer that the CPU reads and writes.");
  m.def("memory_of", &memory_of, nb::arg("buffer"),
        nb::sig("def memory_of(buffer: pyarrow.Buffer) -> saeta._core.Buffer | None"),
        "The memory of a buffer on a device; None for one of the host.");
  m.def("count_nulls", &count_nulls_of, nb::arg("data"),
        nb::sig("def count_nulls(data: pyarrow.Array | pyarrow.RecordBatch) -> None"),
        "Notes null counts that are not known of data on a device, which pyarrow would count on the host.");
  m.def("register", &register_finder, nb::arg("finder"),
        nb::sig("def register(finder: collections.abc.Callable[[int], saeta._core.Context]) -> None"),
        "Tells libarrow where to find the memory manager of a device by its number.");
  m.def("built_arrow_version", &saeta::built_arrow_version, nb::sig("def built_arrow_version() -> str"),
        "Release of libarrow that this module was built with.");
  m.def("loaded_arrow_version", &saeta::loaded_arrow_version, nb::sig("def loaded_arrow_version() -> str"),
        "Release of libarrow that is loaded.");
  bind_messages(m);
  bind_tables(m);
  complete_functions(m);
  first = nb::object(m).release();
}
