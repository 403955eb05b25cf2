// Every function of the bridge refuses a null context, buffer, batch or table.
#include "conformance/bridge/bridge_test.hpp"
#include "saeta/bridge/buffer_io.hpp"
#include "saeta/bridge/message.hpp"
#include "saeta/bridge/table_import.hpp"
#include "support/refused_arguments.hpp"

#include <arrow/ipc/message.h>
#include <gtest/gtest.h>

namespace saeta::conformance {
namespace {

using support::expect_null_refused;

class null_arguments_of_the_bridge : public bridge_test {};

TEST_P(null_arguments_of_the_bridge, are_refused) {
  const std::shared_ptr<context> none;
  const buffer_ptr some = there("text");
  const batch_ptr rows = arrow::RecordBatch::Make(arrow::schema({}), 0, arrow::ArrayVector());
  expect_null_refused("ctx", [&] { return bytes_of(none, some); });
  expect_null_refused("from", [&] { return bytes_of(ctx(), nullptr); });
  expect_null_refused("of", [&] { return slice_buffer(nullptr, 0, 0); });
  expect_null_refused("ctx", [&] { return memory_manager_of(none); });
  expect_null_refused("ctx", [&] { return memory_manager_of(none, memory_kind::pinned); });
  expect_null_refused("open", [&] {
    register_devices(arrow::DeviceAllocationType::kCUDA, nullptr);
    return 0;
  });
  expect_null_refused("source", [&] { return buffer_reader(nullptr).closed(); });
  expect_null_refused("target", [&] { return buffer_writer(nullptr).closed(); });
  expect_null_refused("ctx", [&] { return serialize_batch(none, rows); });
  expect_null_refused("batch", [&] { return serialize_batch(ctx(), nullptr); });
  expect_null_refused("bytes", [&] { return read_message(nullptr, arrow::default_memory_pool()); });
  expect_null_refused("pool", [&] { return read_message(some, nullptr); });
  expect_null_refused(
      "ctx", [&] { return read_batch(none, rows->schema(), nullptr, some, arrow::default_memory_pool()); });
  expect_null_refused(
      "schema", [&] { return read_batch(ctx(), nullptr, nullptr, some, arrow::default_memory_pool()); });
  expect_null_refused("bytes", [&] {
    return read_batch(ctx(), rows->schema(), nullptr, nullptr, arrow::default_memory_pool());
  });
  expect_null_refused("ctx", [&] { return import_table(none, rows, {}); });
  expect_null_refused("source", [&] { return import_table(ctx(), batch_ptr(), {}); });
  expect_null_refused("source", [&] { return import_table(ctx(), std::shared_ptr<arrow::Table>(), {}); });
}

SAETA_CONFORMANCE_SUITE(null_arguments_of_the_bridge);

} // namespace
} // namespace saeta::conformance
