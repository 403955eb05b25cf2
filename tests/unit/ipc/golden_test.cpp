// Reads the integration files of the Arrow project, written by other implementations.
//
// The files are not part of this project. The environment variable or CMake option SAETA_SHARED_DATA names a
// folder with golden/VERSION/NAME.arrow_file and NAME.stream.

#include "ipc_test.hpp"

#include <algorithm>
#include <cstdlib>

namespace saeta::ipc {
namespace {

using support::same_contents;

std::filesystem::path golden_folder() {
  const char* const named = std::getenv("SAETA_SHARED_DATA"); // NOLINT(concurrency-mt-unsafe)
#ifdef SAETA_SHARED_DATA
  return std::filesystem::path(named != nullptr ? named : SAETA_SHARED_DATA) / "golden";
#else
  return named != nullptr ? std::filesystem::path(named) / "golden" : std::filesystem::path();
#endif
}

class golden : public ipc_test {
protected:
  void SetUp() override {
    std::error_code ignored;
    if (!std::filesystem::is_directory(golden_folder(), ignored)) {
      GTEST_SKIP() << "no golden files: SAETA_SHARED_DATA names no folder that has them";
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(golden_folder())) {
      if (entry.path().extension() == ".arrow_file" || entry.path().extension() == ".stream") {
        files_.push_back(entry.path());
      }
    }
    std::sort(files_.begin(), files_.end());
    ASSERT_GT(files_.size(), 20U);
  }

  std::vector<std::filesystem::path> files_;
};

TEST_F(golden, all_files_round_trip_in_every_container_and_compression) {
  std::size_t read_files = 0;
  for (const auto& path : files_) {
    SCOPED_TRACE(path.string());
    ++read_files;
    const table original = read(path);
    EXPECT_TRUE(same_contents(read(path, {.copy = copy_policy::always}), original));
    for (const auto format : {container::file, container::stream}) {
      for (const auto body : {compression::none, compression::lz4, compression::zstd}) {
        EXPECT_TRUE(same_contents(read_bytes(write_bytes(original, {format, body})), original));
      }
    }
  }
  EXPECT_GT(read_files, 30U);
}

TEST_F(golden, files_and_streams_of_the_same_name_have_equal_tables) {
  std::size_t pairs = 0;
  for (auto path : files_) {
    SCOPED_TRACE(path.string());
    if (path.extension() != ".stream") {
      continue;
    }
    const table streamed = read(path);
    EXPECT_TRUE(same_contents(read(path.replace_extension(".arrow_file")), streamed));
    ++pairs;
  }
  EXPECT_GT(pairs, 15U);
}

TEST_F(golden, inspect_agrees_with_reading) {
  for (const auto& path : files_) {
    SCOPED_TRACE(path.string());
    const file_summary summary = inspect(path);
    const table seen = read(path);
    ASSERT_EQ(summary.batch_rows.size(), seen.batches().size());
    for (std::size_t b = 0; b < summary.batch_rows.size(); ++b) {
      EXPECT_EQ(summary.batch_rows[b], seen.batches()[b].rows);
    }
    for (std::size_t c = 0; c < seen.column_count(); ++c) {
      std::int64_t nulls = 0;
      for (const column& piece : seen.pieces(c)) {
        nulls += piece.null_count();
      }
      EXPECT_EQ(summary.columns[c].nulls, nulls) << summary.columns[c].name;
    }
  }
}

} // namespace
} // namespace saeta::ipc
