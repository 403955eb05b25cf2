// Reads bytes as a schema message and a record batch message, with the batch in host memory and in memory of
// a simulated device.
//
// libarrow verifies the metadata on the host. Saeta checks the ranges of buffers, and the offsets and indices
// in them, on the device that has them. Both reads must succeed or both must fail, and every value of a batch
// must be valid.
#include "saeta/bridge/message.hpp"

#include "fuzz/harness.hpp"
#include "saeta/base/text.hpp"
#include "saeta/bridge/arrow_status.hpp"
#include "saeta/bridge/bridge.hpp"
#include "saeta/ipc/reader.hpp"
#include "saeta/memory/context.hpp"

#include <arrow/array/array_base.h>
#include <arrow/array/concatenate.h>
#include <arrow/buffer.h>
#include <arrow/device.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/message.h>
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>

namespace saeta::fuzz {
namespace {

/// Copies bytes to memory of the context by libarrow's memory manager.
std::shared_ptr<arrow::Buffer> on_device(const std::shared_ptr<context>& ctx, const std::string& bytes) {
  const auto source = arrow::Buffer::FromString(bytes);
  return bridge::take(arrow::Buffer::Copy(source, memory_manager_of(ctx)), "message");
}

/// Returns whether all child rows that lists refer to are valid. A copy (Concatenate) has only those.
bool is_valid_where_referred_to(const arrow::RecordBatch& of) {
  return std::ranges::all_of(of.columns(), [](const auto& column) {
    const auto copy = arrow::Concatenate({column});
    return copy.ok() && (*copy)->ValidateFull().ok();
  });
}

/// Reads the stream. Returns false if it ends before a batch.
bool read_one(const std::shared_ptr<context>& ctx, const std::shared_ptr<arrow::Buffer>& stream) {
  // libarrow does not validate all of a schema, so Saeta's reader of streams checks it first.
  static_cast<void>(ipc::reader::open(
      std::as_bytes(std::span(stream->data(), static_cast<std::size_t>(stream->size()))), stream));
  arrow::io::BufferReader front(stream);
  const auto described = bridge::take(arrow::ipc::ReadMessage(&front), "schema");
  if (described == nullptr) {
    return false;
  }
  arrow::ipc::DictionaryMemo memo;
  const auto schema = bridge::take(arrow::ipc::ReadSchema(*described, &memo), "schema");
  const auto begin = bridge::take(front.Tell(), "schema");
  if (begin >= stream->size()) {
    return false;
  }
  const std::string rest = stream->ToString().substr(static_cast<std::size_t>(begin));
  const auto message = on_device(ctx, rest);
  const auto read = read_batch(ctx, schema, &memo, message, arrow::default_memory_pool());
  if (read == nullptr || read->num_rows() > many_rows) {
    return read != nullptr;
  }
  const auto here = bridge::take(read->ViewOrCopyTo(arrow::default_cpu_memory_manager()), "batch");
  const auto sound = here->ValidateFull();
  if (!sound.ok() && is_valid_where_referred_to(*here)) {
    return true; // Saeta does not check child rows that no list refers to
  }
  // Saeta does not check these values, which no pointer depends on.
  constexpr std::array unchecked{"UTF8", "null_count value", "acceptable range", "whole number of days",
                                 "fit in precision"};
  const auto says = [&](const char* part) { return sound.message().find(part) != std::string::npos; };
  require(sound.ok() || std::ranges::any_of(unchecked, says), sound.ToString());
  return true;
}

struct outcome {
  bool made = false;
  std::string failure;
  bool lacks_memory = false;
};

outcome read_bytes(const std::shared_ptr<context>& ctx, std::string bytes) {
  try {
    return {.made = read_one(ctx, arrow::Buffer::FromString(std::move(bytes)))};
  } catch (const error& failure) {
    if (failure.code() != errc::out_of_range) {
      require_input_or_memory_error(failure);
    }
    const bool memory = failure.code() == errc::budget_exceeded || failure.code() == errc::out_of_memory;
    return {.failure = failure.message(), .lacks_memory = memory};
  }
}

void require_same(const outcome& host, const outcome& device) {
  require(host.made == device.made || host.lacks_memory || device.lacks_memory,
          concat("host: ", host.made ? "a batch" : host.failure,
                 "; device: ", device.made ? "a batch" : device.failure));
}

} // namespace
} // namespace saeta::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace saeta::fuzz;
  const simulation& machine = simulated_device();
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  require_same(read_bytes(host_context(), bytes), read_bytes(machine.ctx, bytes));
  settle(*host_context());
  require_clean(machine);
  return 0;
}
