// Tables of the C interface, and their exchange.
#include "saeta/capi/call.hpp"
#include "saeta/compute/copy_to.hpp"
#include "saeta/interop/arrow/device.hpp"
#include "saeta/interop/dlpack/dlpack.hpp"
#include "saeta/symbols/symbol_arrays.hpp"
#include "saeta/transfer/makers.hpp"

namespace saeta::capi {
namespace {

const batch& batch_at(const table& of, std::uint64_t index) {
  if (index >= of.batches().size()) {
    throw error(errc::out_of_range,
                concat("batch ", index, " of a table with ", of.batches().size(), " batches"));
  }
  return of.batches()[index];
}

/// The array of a record batch.
template <class Array, class Import>
saeta_table* imported_batch(saeta_context* into, const ArrowSchema* described, Array* source,
                            const Import& import) {
  const auto ctx = get(into, "context");
  require_argument(described, "schema");
  require_argument(source, "source");
  schema fields = import_schema(*described);
  dictionary_cache dictionaries;
  batch rows = import(ctx, fields, *source, dictionaries, import_options{});
  return handle_of_value<saeta_table>(
      table::make(ctx, resolve_symbols(std::move(fields)), {std::move(rows)}));
}

/// An export fills the struct on success only.
template <class Struct, class Export>
saeta_code fill(saeta_table* source, Struct* target, const Export& give_struct) noexcept {
  return run([&] {
    const auto rows = get(source, "table");
    require_argument(target, "target");
    *target = give_struct(*rows).release();
  });
}

} // namespace
} // namespace saeta::capi

using namespace saeta;
using namespace saeta::capi;

saeta_code saeta_table_import_stream(saeta_context* ctx, ArrowArrayStream* source, saeta_table** result) {
  return give(result, [&] {
    const auto into = get(ctx, "context");
    require_argument(source, "source");
    return handle_of_value<saeta_table>(import_stream(into, *source));
  });
}

saeta_code saeta_table_import_array(saeta_context* ctx, const ArrowSchema* described, ArrowArray* source,
                                    saeta_table** result) {
  return give(result, [&] { return imported_batch(ctx, described, source, import_batch); });
}

saeta_code saeta_table_import_device_stream(saeta_context* ctx, ArrowDeviceArrayStream* source,
                                            saeta_table** result) {
  return give(result, [&] {
    const auto into = get(ctx, "context");
    require_argument(source, "source");
    return handle_of_value<saeta_table>(import_device_stream(into, *source).rows);
  });
}

saeta_code saeta_table_import_device_array(saeta_context* ctx, const ArrowSchema* described,
                                           ArrowDeviceArray* source, saeta_table** result) {
  return give(result, [&] { return imported_batch(ctx, described, source, import_device_batch); });
}

saeta_code saeta_table_export_schema(saeta_table* of, ArrowSchema* target) {
  return fill(of, target, [](const table& rows) { return export_schema(rows.fields()); });
}

saeta_code saeta_table_export_stream(saeta_table* of, ArrowArrayStream* target) {
  return fill(of, target, [](const table& rows) { return export_stream(rows); });
}

saeta_code saeta_table_export_array(saeta_table* of, uint64_t batch, ArrowArray* target) {
  return fill(of, target, [&](const table& rows) { return export_batch(rows, batch); });
}

saeta_code saeta_table_export_device_stream(saeta_table* of, ArrowDeviceArrayStream* target) {
  return fill(of, target, [](const table& rows) { return export_device_stream(rows); });
}

saeta_code saeta_table_export_device_array(saeta_table* of, uint64_t batch, ArrowDeviceArray* target) {
  return fill(of, target, [&](const table& rows) { return export_device_batch(rows, batch); });
}

saeta_code saeta_table_export_dlpack(saeta_table* of, const char* name, int64_t stream,
                                     DLManagedTensorVersioned** tensor) {
  return give(tensor, [&] {
    const auto rows = get(of, "table");
    dlpack_export how;
    if (stream != 0) {
      how.stream = stream;
    }
    if (name == nullptr) {
      return export_dlpack(*rows, how).release();
    }
    const std::size_t index = rows->index_of(name);
    if (rows->batches().size() != 1) {
      throw error(errc::exchange, concat("column '", name, "' has ", rows->batches().size(),
                                         " batches, and a tensor is made of one"));
    }
    return export_dlpack(rows->batches()[0].columns[index], how).release();
  });
}

saeta_code saeta_table_import_dlpack(saeta_context* ctx, DLManagedTensorVersioned* tensor, const char* name,
                                     saeta_table** result) {
  return give(result, [&] {
    const auto into = get(ctx, "context");
    dlpack_tensor source(tensor);
    try {
      if (name == nullptr) {
        return handle_of_value<saeta_table>(import_dlpack_columns(into, std::move(source)));
      }
      return handle_of_value<saeta_table>(make_table(into, {{name, import_dlpack(into, std::move(source))}}));
    } catch (...) {
      static_cast<void>(source.release()); // stays the caller's
      throw;
    }
  });
}

saeta_code saeta_table_rows(saeta_table* of, int64_t* rows) {
  return run([&] { set(rows, get(of, "table")->rows()); });
}

saeta_code saeta_table_columns(saeta_table* of, uint64_t* columns) {
  return run([&] { set(columns, get(of, "table")->column_count()); });
}

saeta_code saeta_table_batches(saeta_table* of, uint64_t* batches) {
  return run([&] { set(batches, get(of, "table")->batches().size()); });
}

saeta_code saeta_table_bytes(saeta_table* of, uint64_t* bytes) {
  return run([&] { set(bytes, get(of, "table")->byte_size()); });
}

saeta_code saeta_table_column_name(saeta_table* of, uint64_t index, const char** name) {
  return run([&] {
    const auto rows = get(of, "table");
    require_argument(name, "name");
    *name = rows->shared_field(index)->name.c_str();
  });
}

saeta_code saeta_table_slice(saeta_table* of, int64_t offset, int64_t rows, saeta_table** result) {
  return give(result, [&] { return handle_of_value<saeta_table>(get(of, "table")->slice(offset, rows)); });
}

saeta_code saeta_table_select(saeta_table* of, const char* const* names, size_t count, saeta_table** result) {
  return give(result, [&] {
    const auto rows = get(of, "table");
    std::vector<std::size_t> chosen;
    for (const std::string& name : required_texts(names, count, "names")) {
      chosen.push_back(rows->index_of(name));
    }
    return handle_of_value<saeta_table>(rows->select(chosen));
  });
}

saeta_code saeta_table_copy_to(saeta_table* of, saeta_context* ctx, saeta_table** result) {
  return give(result,
              [&] { return handle_of_value<saeta_table>(copy_to(*get(of, "table"), get(ctx, "context"))); });
}

saeta_code saeta_table_buffer(saeta_table* of, uint64_t batch, const char* name, uint64_t index,
                              saeta_buffer** result, int64_t* offset) {
  return give(result, [&] {
    const auto rows = get(of, "table");
    const std::size_t place = rows->index_of(required_text(name, "column"));
    require_argument(offset, "offset");
    const column& part = batch_at(*rows, batch).columns[place];
    if (index >= part.buffers().size()) {
      throw error(errc::out_of_range, concat("buffer ", index, " of a column of ", part.type().name(),
                                             " with ", part.buffers().size(), " buffers"));
    }
    *offset = part.offset();
    return handle_of_value<saeta_buffer>(part.buffers()[index]);
  });
}
