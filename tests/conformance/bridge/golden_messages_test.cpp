// The integration files of the Arrow project through libarrow on every backend: as messages, and as arrays
// that are exported and imported again. Some dates in these files are not whole days, so libarrow's full
// validation fails.
#include "conformance/bridge/bridge_test.hpp"
#include "saeta/bridge/message.hpp"
#include "support/golden_files.hpp"

#include <arrow/io/file.h>
#include <arrow/ipc/api.h>
#include <gtest/gtest.h>

#include <functional>

namespace saeta::conformance {
namespace {

using support::golden_files;

class golden_messages : public bridge_test {
protected:
  void SetUp() override {
    bridge_test::SetUp();
    if (golden_files().empty()) {
      GTEST_SKIP() << "no golden files: SAETA_SHARED_DATA names no folder that has them";
    }
  }
  static void for_each_batch(const std::function<void(const batch_ptr&)>& look) {
    for (const auto& path : golden_files()) {
      if (path.extension() == ".arrow_file") {
        SCOPED_TRACE(path.string());
        const auto file = take(arrow::io::ReadableFile::Open(path));
        const auto reader = take(arrow::ipc::RecordBatchFileReader::Open(file));
        for (int i = 0; i < reader->num_record_batches(); ++i) {
          look(take(reader->ReadRecordBatch(i)));
        }
      }
    }
  }
};

TEST_P(golden_messages, keep_every_batch) {
  for_each_batch([&](const batch_ptr& batch) {
    arrow::ipc::DictionaryMemo memo;
    check(memo.fields().AddSchemaFields(*batch->schema()));
    for (const auto& [id, values] : take(arrow::ipc::CollectDictionaries(*batch, memo.fields()))) {
      check(memo.AddDictionary(id, values->data()));
    }
    const buffer_ptr message = arrow_buffer(serialize_batch(ctx(), batch));
    const batch_ptr seen = read_batch(ctx(), batch->schema(), &memo, message, arrow::default_memory_pool());
    EXPECT_TRUE(take(seen->CopyTo(cpu()))->Equals(*batch));
  });
}

TEST_P(golden_messages, are_equal_for_batches_that_libarrow_exported_again) {
  for_each_batch([&](const batch_ptr& batch) {
    ArrowDeviceArray array;
    ArrowSchema schema;
    check(arrow::ExportDeviceRecordBatch(*take(batch->CopyTo(manager())), nullptr, &array, &schema));
    const batch_ptr seen = take(arrow::ImportDeviceRecordBatch(&array, &schema, mapper()));
    EXPECT_TRUE(take(seen->CopyTo(cpu()))->Equals(*batch));
  });
}

SAETA_CONFORMANCE_SUITE(golden_messages);

} // namespace
} // namespace saeta::conformance
