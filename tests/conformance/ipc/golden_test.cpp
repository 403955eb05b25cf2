// The integration files of the Arrow project on every backend: read, exchanged by every Arrow protocol, and
// written. Their values are compared with a read on the host, which tests/unit/ipc/golden_test.cpp and
// tests/interop/test_golden.py check.

#include "conformance/harness/context_test.hpp"
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/compute/copy_to.hpp"
#include "saeta/interop/arrow/device.hpp"
#include "saeta/interop/arrow/owned.hpp"
#include "saeta/ipc/reader.hpp"
#include "saeta/ipc/writer.hpp"
#include "support/golden_files.hpp"
#include "support/tables.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <vector>

#include <stdlib.h>

namespace saeta::conformance {
namespace {

using support::golden_files;
using support::same_contents;

class golden_exchange : public context_test {
protected:
  void SetUp() override {
    context_test::SetUp();
    if (files_.empty()) {
      GTEST_SKIP() << "no golden files: SAETA_SHARED_DATA names no folder that has them";
    }
  }

  /// Reads a file without joining its batches.
  [[nodiscard]] table read(const std::filesystem::path& path) const {
    return ipc::reader::open(path, {.combine_chunks = false})->read_all(ctx());
  }
  [[nodiscard]] table expected(const std::filesystem::path& path) const {
    return ipc::reader::open(path)->read_all(host_);
  }

  std::shared_ptr<context> host_ = watch(context::create(make_host_backend()));
  std::vector<std::filesystem::path> files_ = golden_files();
};

TEST_P(golden_exchange, tables_pass_the_streams_of_the_host_and_of_the_device) {
  for (const auto& path : files_) {
    SCOPED_TRACE(path.string());
    const table seen = read(path);
    arrow_owned<ArrowArrayStream> on_host = export_stream(seen);
    EXPECT_TRUE(same_contents(import_stream(ctx(), on_host.get()), expected(path)));
    arrow_owned<ArrowDeviceArrayStream> on_device = export_device_stream(seen);
    const imported_stream again = import_device_stream(ctx(), on_device.get());
    EXPECT_TRUE(again.of_structs);
    EXPECT_TRUE(same_contents(again.rows, expected(path)));
  }
}

TEST_P(golden_exchange, batches_pass_the_arrays_of_the_host_and_of_the_device) {
  for (const auto& path : files_) {
    SCOPED_TRACE(path.string());
    const table seen = read(path);
    std::vector<batch> by_host;
    std::vector<batch> by_device;
    dictionary_cache known;
    for (std::size_t b = 0; b < seen.batches().size(); ++b) {
      arrow_array on_host = export_batch(seen, b);
      by_host.push_back(import_batch(ctx(), seen.fields(), on_host.get(), known));
      arrow_device_array on_device = export_device_batch(seen, b);
      by_device.push_back(import_device_batch(ctx(), seen.fields(), on_device.get(), known));
    }
    EXPECT_TRUE(same_contents(table::make(ctx(), seen.fields(), std::move(by_host)), expected(path)));
    EXPECT_TRUE(same_contents(table::make(ctx(), seen.fields(), std::move(by_device)), expected(path)));
  }
}

TEST_P(golden_exchange, tables_can_be_copied_to_another_device) {
  const auto second = second_device();
  if (!second) {
    GTEST_SKIP() << one_device_alone;
  }
  const auto there = watch(context::create(second));
  for (const auto& path : files_) {
    SCOPED_TRACE(path.string());
    const table seen = read(path);
    EXPECT_TRUE(same_contents(copy_to(seen, there), expected(path)));
    const table joined = ipc::reader::open(path, {.combine_chunks = true})->read_all(ctx());
    EXPECT_TRUE(same_contents(copy_to(joined, there), joined));
  }
}

TEST_P(golden_exchange, joined_batches_have_the_same_rows) {
  for (const auto& path : files_) {
    SCOPED_TRACE(path.string());
    const table seen = ipc::reader::open(path, {.combine_chunks = true})->read_all(ctx());
    const table wanted = expected(path);
    EXPECT_EQ(seen.rows(), wanted.rows());
    EXPECT_EQ(seen.fields(), wanted.fields());
    for (std::size_t c = 0; c < wanted.column_count(); ++c) {
      EXPECT_TRUE(support::cells(seen, c) == support::cells(wanted, c)) << wanted.fields().fields[c].name;
    }
  }
}

TEST_P(golden_exchange, tables_are_written_as_they_were_read) {
  std::string pattern = (std::filesystem::path(::testing::TempDir()) / "saeta-golden-XXXXXX").string();
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  const std::filesystem::path folder = pattern;
  for (const auto& path : files_) {
    SCOPED_TRACE(path.string());
    const bool file = path.extension() == ".arrow_file";
    ipc::write(read(path), folder / "again",
               {.format = file ? ipc::container::file : ipc::container::stream});
    EXPECT_TRUE(same_contents(expected(folder / "again"), expected(path)));
  }
  std::filesystem::remove_all(folder);
}

SAETA_CONFORMANCE_SUITE(golden_exchange);

} // namespace
} // namespace saeta::conformance
