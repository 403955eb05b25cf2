#include "saeta/bridge/table_stream.hpp"

#include "saeta/base/error.hpp"
#include "saeta/bridge/detail/batch_export.hpp"
#include "saeta/interop/arrow_owned.hpp"
#include "saeta/interop/stream_errors.hpp"
#include "saeta/ipc/arrow_status.hpp"

#include <arrow/array/array_base.h>
#include <arrow/array/data.h>
#include <arrow/buffer.h>
#include <arrow/chunked_array.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

namespace saeta {
namespace {

bool chunks_on_cpu(const std::shared_ptr<arrow::ChunkedArray>& of) {
  return std::ranges::all_of(of->chunks(), [](const auto& chunk) { return on_cpu(*chunk->data()); });
}

/// Private data of a stream.
struct batches_left {
  std::shared_ptr<arrow::Schema> fields;
  owned_array only;                                  ///< the only batch, until it is taken
  std::shared_ptr<arrow::RecordBatchReader> batches; ///< null where there is one batch
  std::string last_error;

  void take(ArrowArray& out) {
    std::shared_ptr<arrow::RecordBatch> next;
    if (batches != nullptr) {
      ipc::check(batches->ReadNext(&next), "table");
    }
    if (next == nullptr) {
      only.move_to(out);
    } else if (!export_columns(next, out)) {
      throw error(errc::exchange, "a batch of the table has come to lie on a device");
    }
  }
};

batches_left& left_of(ArrowArrayStream* stream) noexcept {
  return *static_cast<batches_left*>(stream->private_data);
}

/// Runs `step` for a C caller: 0, or an errno value with its text in the stream.
template <class Step>
int answer(ArrowArrayStream* stream, Step step) noexcept {
  batches_left& left = left_of(stream);
  left.last_error.clear();
  try {
    try {
      step(left);
      return 0;
    } catch (const error& why) {
      left.last_error = why.message();
      return errno_of(why.code());
    }
  } catch (...) { // no memory, for the structs or for the text
    return ENOMEM;
  }
}

int get_schema(ArrowArrayStream* stream, ArrowSchema* out) noexcept {
  return answer(stream, [out](batches_left& left) { export_fields(left.fields, *out); });
}

int get_next(ArrowArrayStream* stream, ArrowArray* out) noexcept {
  return answer(stream, [out](batches_left& left) { left.take(*out); });
}

const char* get_last_error(ArrowArrayStream* stream) noexcept {
  const std::string& text = left_of(stream).last_error;
  return text.empty() ? nullptr : text.c_str();
}

void release(ArrowArrayStream* stream) noexcept {
  delete &left_of(stream);
  stream->release = nullptr;
}

void give(std::unique_ptr<batches_left> left, ArrowArrayStream& target) {
  target = {get_schema, get_next, get_last_error, release, left.release()};
}

} // namespace

bool stream_table(std::shared_ptr<arrow::Table> source, ArrowArrayStream& target) {
  auto left = std::make_unique<batches_left>();
  left->fields = source->schema();
  const auto one_chunk = [](const auto& column) { return column->num_chunks() == 1; };
  if (source->num_rows() != 0 && std::ranges::all_of(source->columns(), one_chunk)) {
    if (!export_columns(source, *left->only.out())) {
      return false;
    }
  } else {
    if (!std::ranges::all_of(source->columns(), chunks_on_cpu)) {
      return false; // libarrow makes no batches of such a table
    }
    left->batches = std::make_shared<arrow::TableBatchReader>(std::move(source));
  }
  give(std::move(left), target);
  return true;
}

bool stream_batch(const std::shared_ptr<arrow::RecordBatch>& source, ArrowArrayStream& target) {
  auto left = std::make_unique<batches_left>();
  left->fields = source->schema();
  if (source->device_type() != arrow::DeviceAllocationType::kCPU ||
      !export_columns(source, *left->only.out())) {
    return false;
  }
  give(std::move(left), target);
  return true;
}

} // namespace saeta
