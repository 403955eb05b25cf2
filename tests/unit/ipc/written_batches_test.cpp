// How a table is cut into batches when it is written, and which options are refused.

#include "ipc_test.hpp"
#include "system_calls.hpp"

#include <cerrno>
#include <cstdint>
#include <utility>

namespace saeta::ipc {
namespace {

using ::testing::ElementsAre;

class written_batches : public ipc_test {
protected:
  /// A table of int64 without nulls: 8 bytes a row.
  [[nodiscard]] table numbers(const std::vector<std::int64_t>& rows) const {
    const data_type type(type_id::int64);
    std::vector<std::vector<support::shared_array>> batches;
    for (const std::int64_t each : rows) {
      batches.push_back({support::random_array(type, {each, 0, support::nulls::absent}, batches.size())});
    }
    return support::table_of(ctx(), {{{"x", type, true, {}}}, {}}, batches);
  }
  /// The rows of the batches of a table that was written.
  [[nodiscard]] std::vector<std::int64_t> rows_of(const table& source, const write_options& options) const {
    const std::string bytes = write_bytes(source, options);
    EXPECT_TRUE(support::cells(read_bytes(bytes), 0) == support::cells(source, 0));
    return inspect(std::as_bytes(std::span(bytes))).batch_rows;
  }
};

TEST_F(written_batches, of_plain_files_are_those_of_the_table) {
  EXPECT_THAT(rows_of(numbers({1000, 0, 3}), {.batch_bytes = 100}), ElementsAre(1000, 0, 3));
}

TEST_F(written_batches, of_streams_and_of_compressed_files_have_about_as_many_bytes_as_requested) {
  const table source = numbers({1000});
  for (const auto& options : {write_options{.format = container::stream},
                              write_options{.format = container::file, .body = compression::lz4},
                              write_options{.format = container::stream, .body = compression::zstd}}) {
    const auto rows_with = [&](std::uint64_t bytes) {
      write_options chosen = options;
      chosen.batch_bytes = bytes;
      return rows_of(source, chosen);
    };
    EXPECT_THAT(rows_with(8000), ElementsAre(1000));
    EXPECT_THAT(rows_with(7999), ElementsAre(512, 488)) << "two parts of about 500 rows";
    EXPECT_THAT(rows_with(4000), ElementsAre(512, 488));
    EXPECT_THAT(rows_with(2000), ElementsAre(256, 256, 256, 232));
    EXPECT_THAT(rows_with(1000), ::testing::SizeIs(8));
    EXPECT_THAT(rows_with(1), ::testing::Each(::testing::Le(64)));
    EXPECT_THAT(rows_of(numbers({1000, 10}), options), ElementsAre(1000, 10)) << "4 MiB by default";
  }
}

TEST_F(written_batches, have_no_more_rows_than_requested) {
  for (const auto format : {container::file, container::stream}) {
    const auto rows_with = [&](std::int64_t rows) {
      return rows_of(numbers({700, 299}), {.format = format, .batch_rows = rows});
    };
    EXPECT_THAT(rows_with(300), ElementsAre(300, 300, 100, 299));
    EXPECT_THAT(rows_with(700), ElementsAre(700, 299));
    EXPECT_THAT(rows_with(299), ElementsAre(299, 299, 102, 299));
  }
}

TEST_F(written_batches, have_options_that_make_sense) {
  const table source = numbers({1});
  const auto expect_refused = [&](const write_options& options, const std::string& text) {
    EXPECT_ERROR(write_bytes(source, options), invalid_argument, text);
    EXPECT_ERROR(write(source, file("a"), options), invalid_argument, text);
    EXPECT_ERROR(writer(file("a"), std::nullopt, options), invalid_argument, text);
  };
  expect_refused({.level = 1}, "compression level 1 without a compression: choose lz4 or zstd");
  expect_refused({.level = -1}, "compression level -1 without a compression");
  expect_refused({.body = compression::lz4, .level = -1},
                 "compression level -1: lz4 has levels from 1 to 12");
  expect_refused({.body = compression::lz4, .level = 13},
                 "compression level 13: lz4 has levels from 1 to 12");
  expect_refused({.body = compression::zstd, .level = 23},
                 "compression level 23: zstd has levels from 1 to 22");
  expect_refused({.batch_rows = -1}, "batch_rows is -1, expected a number of rows from 1 on");
  EXPECT_THAT(names(), ::testing::IsEmpty());
  for (const auto& [body, most] : {std::pair(compression::lz4, 12), std::pair(compression::zstd, 22)}) {
    for (const int level : {0, 1, most}) {
      EXPECT_THAT(rows_of(source, {.body = body, .level = level}), ElementsAre(1));
    }
  }
}

TEST_F(written_batches, of_a_file_are_written_in_pieces_of_4_mib) {
  const table source = numbers({3 << 19, 100}); // 12 MiB
  const support::system_call_trap trap(support::system_call::pwritev,
                                       [](std::size_t, const std::string&) { return 0; });
  const std::uint64_t bytes = write(source, file("a"), {.durable = false});
  EXPECT_EQ(trap.calls(), 4U);
  EXPECT_EQ(std::filesystem::file_size(file("a")), bytes);
}

TEST_F(written_batches, of_a_sink_come_in_few_calls) {
  std::vector<std::size_t> calls;
  const byte_sink sink = [&](std::span<const std::byte> bytes) { calls.push_back(bytes.size()); };
  const data_type type(type_id::int64);
  const table small = support::random_table(ctx(), std::vector(100, type), {.batch_rows = {500}});
  const std::uint64_t bytes = write(small, sink, "sink");
  EXPECT_LT(calls.size(), bytes / (32 << 10));
  calls.clear();
  write(numbers({1 << 20}), sink, "sink");
  EXPECT_EQ(calls.size(), 4U) << "what is before the values, two pieces, and what is behind them";
}

} // namespace
} // namespace saeta::ipc
