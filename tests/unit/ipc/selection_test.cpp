// Reads of selected columns and batches, reading batch by batch, and reports of progress.

#include "ipc_test.hpp"
#include "saeta/bridge/arrow_status.hpp"
#include "support/foreign_streams.hpp"

#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/table.h>

namespace saeta::ipc {
namespace {

using bridge::check;
using bridge::take;

using support::cells;
using ::testing::ElementsAre;

constexpr std::array both{container::file, container::stream};

class selection : public ipc_test {
protected:
  /// Makes a table with the columns "a", "b" and two named "twice", in batches of 3, 2 and 1 rows.
  [[nodiscard]] table small() const {
    const auto row = [](std::vector<std::string_view> values) {
      const auto words = support::strings(values);
      return std::vector{words, support::indices(std::vector<std::int32_t>(values.size(), 0), words), words,
                         words};
    };
    const auto batches = std::vector{row({"1", "2", "3"}), row({"4", "5"}), row({"6"})};
    schema fields;
    for (std::size_t i = 0; i < 4; ++i) {
      fields.fields.push_back({std::array{"a", "b", "twice", "twice"}[i], batches[0][i]->type, true, {}});
    }
    return support::table_of(ctx(), fields, batches);
  }

  [[nodiscard]] static std::vector<std::string> names_of(const schema& fields) {
    std::vector<std::string> names;
    for (const field& each : fields.fields) {
      names.push_back(each.name);
    }
    return names;
  }
};

TEST_F(selection, columns_have_the_requested_order_and_may_repeat) {
  for (const auto format : both) {
    for (const auto body : {compression::none, compression::lz4}) {
      const table seen = read_bytes(write_bytes(small(), {format, body}), {.columns = {{"b", "a", "b"}}});
      EXPECT_THAT(names_of(seen.fields()), ElementsAre("b", "a", "b"));
      EXPECT_THAT(cells(seen, 0), ElementsAre("1", "1", "1", "4", "4", "6"));
      EXPECT_THAT(cells(seen, 1), ElementsAre("1", "2", "3", "4", "5", "6"));
      EXPECT_EQ(cells(seen, 2), cells(seen, 0));
      const table doubled = read_bytes(write_bytes(small(), {format, body}), {.columns = {{"a", "a", "b"}}});
      EXPECT_EQ(cells(doubled, 1), cells(seen, 1));
      EXPECT_EQ(cells(doubled, 2), cells(seen, 0));
    }
  }
}

TEST_F(selection, an_empty_selection_keeps_the_row_count) {
  for (const auto format : both) {
    const table seen = read_bytes(write_bytes(small(), {format}), {.columns = std::vector<std::string>{}});
    EXPECT_EQ(seen.column_count(), 0U);
    EXPECT_EQ(seen.rows(), 6);
  }
}

TEST_F(selection, a_requested_name_must_be_unique) {
  const std::string bytes = write_bytes(small());
  EXPECT_ERROR(read_bytes(bytes, {.columns = {{"a", "c"}}}), column_name, "no column 'c'",
               "'a', 'b', 'twice', 'twice'");
  EXPECT_ERROR(read_bytes(bytes, {.columns = {{"twice"}}}), column_name, "more than one", "'twice'");
}

TEST_F(selection, a_nested_column_can_be_left_out_or_read_alone) {
  const std::string bytes = support::from_hex(support::nested_stream_hex);
  const table plain = read_bytes(bytes, {.columns = {{"plain"}}});
  EXPECT_EQ(plain.rows(), 3);
  EXPECT_EQ(plain.pieces(0).front().null_count(), 1);
  const table nested = read_bytes(bytes, {.columns = {{"nested"}}});
  const auto rows = support::cells(nested, 0);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0], std::string("4:\1\0\0\0"
                                 "4:\2\0\0\0",
                                 12));
  EXPECT_EQ(rows[1], std::nullopt);
  EXPECT_EQ(rows[2], std::string("4:\3\0\0\0", 6));
}

TEST_F(selection, batches_are_chosen_by_number) {
  for (const auto format : both) {
    const std::string bytes = write_bytes(small(), {format, compression::zstd});
    EXPECT_THAT(cells(read_bytes(bytes, {.batches = {{1, 3}}}), 0), ElementsAre("4", "5", "6"));
    EXPECT_THAT(cells(read_bytes(bytes, {.batches = {{1, 2}}}), 1), ElementsAre("4", "4"));
    EXPECT_EQ(read_bytes(bytes, {.batches = {{3, 3}}}).rows(), 0);
    EXPECT_ERROR(read_bytes(bytes, {.batches = {{1, 4}}}), out_of_range, "[1, 4)", "3");
    EXPECT_THAT(cells(read_bytes(bytes, {.batches = {{0, 1}}}), 0), ElementsAre("1", "2", "3"));
    EXPECT_EQ(read_bytes(bytes, {.batches = {{0, 0}}}).rows(), 0);
    EXPECT_ERROR(read_bytes(bytes, {.batches = {{2, 1}}}), out_of_range,
                 format == container::file ? "batches [2, 1) are not a range of 3 batches"
                                           : "batches [2, 1) are not a range of a stream");
    EXPECT_ERROR(read_bytes(bytes, {.batches = {{-1, 1}}}), out_of_range, "[-1, 1)");
  }
}

TEST_F(selection, a_file_without_batches_refuses_batch_numbers) {
  const std::string bytes = write_bytes(support::random_table(ctx(), {data_type(type_id::int8)}, {{}}));
  EXPECT_EQ(read_bytes(bytes, {.batches = {{0, 0}}}).rows(), 0);
  EXPECT_ERROR(read_bytes(bytes, {.batches = {{0, 1}}}), out_of_range,
               "batches [0, 1) are not a range of 0 batches");
}

TEST_F(selection, a_damaged_batch_has_its_number_in_the_source) {
  const std::string whole = write_bytes(small(), {container::stream});
  EXPECT_ERROR(read_bytes(whole.substr(0, whole.size() - 50), {.batches = {{1, 3}}}), format,
               "bytes: batch 2");
}

TEST_F(selection, an_empty_selection_decodes_one_column_at_most) {
  const table original = support::random_table(ctx(), {data_type(type_id::int8), data_type(type_id::int64)},
                                               {.batch_rows = {4999}});
  const std::string bytes = write_bytes(original, {.body = compression::lz4});
  const std::vector<std::string> none;
  const auto narrow = ctx()->with_budget("narrow", 20'000);
  const auto open = [&](std::vector<std::string> columns) {
    return reader::open(std::as_bytes(std::span(bytes)), nullptr, {.columns = std::move(columns)});
  };
  EXPECT_EQ(open(none)->read_all(narrow).rows(), 4999);
  EXPECT_EQ(error_of([&] { static_cast<void>(open({"1:int64"})->read_all(narrow)); }).code(),
            errc::budget_exceeded);
  const table no_columns = table::make(ctx(), {}, {{5, {}}});
  EXPECT_EQ(read_bytes(write_bytes(no_columns), {.columns = none}).rows(), 5);
}

TEST_F(selection, the_number_of_batches_is_known_for_a_file_only) {
  const std::string file_bytes = write_bytes(small());
  const std::string stream_bytes = write_bytes(small(), {container::stream});
  const auto open = [](const std::string& bytes, read_options options = {}) {
    return reader::open(std::as_bytes(std::span(bytes)), nullptr, std::move(options));
  };
  EXPECT_EQ(open(file_bytes)->format(), container::file);
  EXPECT_EQ(open(file_bytes)->batch_count(), 3);
  EXPECT_EQ(open(file_bytes, {.batches = {{1, 2}}})->batch_count(), 1);
  EXPECT_EQ(open(stream_bytes)->format(), container::stream);
  EXPECT_EQ(open(stream_bytes)->batch_count(), -1);
}

TEST_F(selection, read_all_reads_the_batches_after_next) {
  for (const auto format : both) {
    const std::string bytes = write_bytes(small(), {format});
    const auto reading = reader::open(std::as_bytes(std::span(bytes)), nullptr);
    EXPECT_EQ(names_of(reading->fields()).size(), 4U);
    EXPECT_EQ(reading->next(ctx())->rows, 3);
    EXPECT_THAT(cells(reading->read_all(ctx()), 0), ElementsAre("4", "5", "6"));
    EXPECT_FALSE(reading->next(ctx()).has_value());
    EXPECT_FALSE(reading->next(ctx()).has_value());
  }
}

TEST_F(selection, one_reader_can_read_into_two_contexts) {
  const auto other = context::create(make_host_backend());
  const std::string bytes = write_bytes(small());
  const auto reading = reader::open(std::as_bytes(std::span(bytes)), nullptr, {.copy = copy_policy::always});
  const auto first = reading->next(ctx());
  const auto second = reading->next(other);
  EXPECT_EQ(first->columns[1].dictionary()->ctx(), ctx());
  EXPECT_EQ(second->columns[1].dictionary()->ctx(), other);
}

TEST_F(selection, progress_begins_with_zero_batches_and_an_unknown_total) {
  const progress begun;
  EXPECT_EQ(begun.batches, 0);
  EXPECT_EQ(begun.total_batches, -1);
  EXPECT_EQ(begun.total_rows, -1);
  EXPECT_EQ(begun.rows, 0);
  EXPECT_EQ(begun.bytes, 0U);
}

TEST_F(selection, progress_counts_batches_rows_and_body_bytes) {
  for (const auto format : both) {
    const std::string bytes = write_bytes(small(), {format});
    std::vector<progress> heard;
    const auto reading = reader::open(std::as_bytes(std::span(bytes)), nullptr);
    static_cast<void>(reading->read_all(ctx(), [&](const progress& p) { heard.push_back(p); }));
    ASSERT_EQ(heard.size(), 3U);
    EXPECT_EQ(heard[0].batches, 1);
    EXPECT_EQ(heard[0].rows, 3);
    EXPECT_EQ(heard[2].batches, 3);
    EXPECT_EQ(heard[2].rows, 6);
    EXPECT_EQ(heard[2].total_batches, format == container::file ? 3 : -1);
    EXPECT_LT(heard[0].bytes, heard[1].bytes);
    EXPECT_LT(heard[2].bytes, bytes.size());

    std::vector<progress> written;
    write(small(), file("out"), {format}, [&](const progress& p) { written.push_back(p); });
    ASSERT_EQ(written.size(), 3U);
    EXPECT_EQ(written[1].rows, 5);
    EXPECT_EQ(written[1].total_batches, 3);
    EXPECT_EQ(written[1].total_rows, written[2].rows);
    EXPECT_EQ(written[2].bytes, heard[2].bytes);
  }
}

TEST_F(selection, compressed_batches_are_planned_so_that_their_rows_are_known) {
  for (const auto format : both) {
    for (const auto body : {compression::none, compression::lz4, compression::zstd}) {
      std::vector<progress> heard;
      const std::string bytes = write_bytes(small(), {format, body});
      const auto reading = reader::open(std::as_bytes(std::span(bytes)), nullptr);
      static_cast<void>(reading->read_all(ctx(), [&](const progress& p) { heard.push_back(p); }));
      EXPECT_EQ(heard.back().total_rows, body == compression::none ? -1 : 6) << "views are read one by one";
    }
  }
}

TEST_F(selection, progress_goes_on_after_single_batches) {
  for (const auto format : both) {
    for (const copy_policy copy : {copy_policy::when_needed, copy_policy::always}) {
      const std::string bytes = write_bytes(small(), {format});
      const auto progress_of = [&](int batches) {
        const auto reading = reader::open(std::as_bytes(std::span(bytes)), nullptr, {.copy = copy});
        for (int i = 0; i < batches; ++i) {
          static_cast<void>(reading->next(ctx()));
        }
        std::vector<progress> heard;
        static_cast<void>(reading->read_all(ctx(), [&](const progress& p) { heard.push_back(p); }));
        return heard;
      };
      const std::vector<progress> all = progress_of(0);
      const std::vector<progress> rest = progress_of(1);
      ASSERT_FALSE(rest.empty());
      EXPECT_GT(rest.front().batches, 1);
      EXPECT_GT(rest.front().rows, 3);
      EXPECT_EQ(rest.back().batches, 3);
      EXPECT_EQ(rest.back().rows, 6);
      EXPECT_EQ(rest.back().bytes, all.back().bytes);
      EXPECT_EQ(rest.back().total_rows, copy == copy_policy::always ? 6 : -1);
      EXPECT_EQ(all.back().total_rows, rest.back().total_rows);
      EXPECT_EQ(rest.back().total_batches, format == container::file ? 3 : -1);
    }
  }
}

TEST_F(selection, a_batch_refused_by_the_budget_can_be_read_again) {
  const table original = every_type();
  const std::string bytes = write_bytes(original);
  const auto reading = reader::open(std::as_bytes(std::span(bytes)), nullptr, {.copy = copy_policy::always});
  const auto before = ctx()->reports().statistics().ledger.own;
  ctx()->memory_budget()->set_limit(1000);
  const error refused = error_of([&] { static_cast<void>(reading->next(ctx())); });
  EXPECT_EQ(refused.code(), errc::budget_exceeded);
  ASSERT_NE(refused.refusal(), nullptr);
  EXPECT_EQ(refused.refusal()->limit, 1000U);
  EXPECT_EQ(ctx()->reports().statistics().ledger.own, before) << "nothing of the refused batch is left";
  ctx()->memory_budget()->set_limit(budget::unlimited);
  EXPECT_TRUE(support::same_contents(reading->read_all(ctx()), original));
}

TEST_F(selection, messages_without_the_continuation_marker_are_read) {
  const table seen = read_bytes(support::from_hex(support::legacy_stream_hex));
  EXPECT_THAT(cells(seen, 1), ElementsAre("one", "", "three"));
  EXPECT_EQ(cells(seen, 0)[1], std::nullopt);
}

TEST_F(selection, files_without_the_continuation_marker_are_read) {
  std::vector<data_type> types = support::file_types();
  std::erase_if(types, [](const data_type& type) { return type.id() == type_id::dictionary; });
  const table original = support::random_table(ctx(), types, {});
  const auto reading = take(arrow::ipc::RecordBatchFileReader::Open(std::make_shared<arrow::io::BufferReader>(
                                arrow::Buffer::FromString(write_bytes(original)))),
                            "file");
  auto options = arrow::ipc::IpcWriteOptions::Defaults();
  options.write_legacy_ipc_format = true;
  const auto sink = take(arrow::io::BufferOutputStream::Create(), "sink");
  const auto writing = take(arrow::ipc::MakeFileWriter(sink, reading->schema(), options), "writer");
  check(writing->WriteTable(*take(reading->ToTable(), "table")), "batches");
  check(writing->Close(), "file");
  const std::string bytes = take(sink->Finish(), "sink")->ToString();
  for (const copy_policy copy : {copy_policy::always, copy_policy::when_needed}) {
    EXPECT_TRUE(support::same_contents(read_bytes(bytes, {.copy = copy, .combine_chunks = false}), original));
  }
}

} // namespace
} // namespace saeta::ipc
