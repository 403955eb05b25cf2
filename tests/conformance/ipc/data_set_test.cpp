// Data sets of several files: read completely, by windows and by batches, in any order, on every backend.
#include "conformance/harness/folder_test.hpp"
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/base/error.hpp"
#include "saeta/base/text.hpp"
#include "saeta/compute/combine.hpp"
#include "saeta/compute/take.hpp"
#include "saeta/ipc/data_set.hpp"
#include "saeta/ipc/writer.hpp"
#include "support/tables.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace saeta::conformance {
namespace {

using ipc::batch_span;
using ipc::compression;
using ipc::container;
using support::random_table;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

#define EXPECT_SAETA_ERROR(action, expected_code, text)                                                      \
  EXPECT_THAT(                                                                                               \
      [&] { static_cast<void>(action); },                                                                    \
      ::testing::Throws<error>(::testing::AllOf(::testing::Property(&error::code, errc::expected_code),      \
                                                ::testing::Property(&error::message, HasSubstr(text)))))

class data_sets : public folder_test {
protected:
  [[nodiscard]] std::filesystem::path part(std::size_t number) const {
    return folder_ / concat(number, ".arrow");
  }
  void write(const table& rows, std::size_t number, container format = container::file,
             compression body = compression::none) const {
    ipc::write(rows, part(number), {.format = format, .body = body});
  }
  [[nodiscard]] std::unique_ptr<ipc::data_set>
  open(std::size_t files, const ipc::data_set_options& options = {}, ipc::read_options reading = {}) const {
    reading.copy = copy_policy::always;
    std::vector<std::unique_ptr<ipc::reader>> readers;
    for (std::size_t i = 0; i < files; ++i) {
      readers.push_back(ipc::reader::open(part(i), reading, i % 2 == 0));
    }
    return std::make_unique<ipc::data_set>(std::move(readers), options);
  }
  static table joined(const std::vector<table>& tables) {
    std::vector<batch> batches;
    for (const table& each : tables) {
      batches.insert(batches.end(), each.batches().begin(), each.batches().end());
    }
    return table::make(tables.front().ctx(), tables.front().fields(), std::move(batches));
  }
  static table all(ipc::scan& of, const std::shared_ptr<context>& ctx, const schema& fields) {
    std::vector<batch> batches;
    while (const auto window = of.next()) {
      batches.insert(batches.end(), window->batches().begin(), window->batches().end());
    }
    EXPECT_FALSE(of.next()) << "behind the end";
    return table::make(ctx, fields, std::move(batches));
  }
  static void expect_rows(const table& seen, const table& expected) {
    ASSERT_EQ(seen.rows(), expected.rows());
    for (std::size_t c = 0; c < expected.column_count(); ++c) {
      SCOPED_TRACE(expected.fields().fields[c].name);
      EXPECT_TRUE(support::cells(seen, c) == support::cells(expected, c));
    }
  }
  /// Writes three sources: a mix of files and streams, compressed and uncompressed, with different
  /// dictionaries.
  [[nodiscard]] std::vector<table> mixed_files() const {
    std::vector<table> tables;
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      tables.push_back(random_table(host_, support::file_types(),
                                    {.batch_rows = {40, 0, 77, static_cast<std::int64_t>(seed)},
                                     .one_dictionary = false,
                                     .seed = seed}));
    }
    write(tables[0], 0);
    write(tables[1], 1, container::stream);
    write(tables[2], 2, container::file, compression::lz4);
    write(tables[3], 3, container::stream, compression::zstd);
    return tables;
  }
  static table words(const std::shared_ptr<context>& ctx, const std::vector<std::int32_t>& rows,
                     const std::vector<std::string_view>& values) {
    const auto codes = support::indices(rows, support::strings(values));
    return support::table_of(ctx, {{{"words", codes->type, true, {}}}, {}}, {{codes}});
  }

  std::shared_ptr<context> host_ = watch(context::create(make_host_backend()));
};

TEST_P(data_sets, have_the_rows_of_all_files_of_every_type) {
  const std::vector<table> tables = mixed_files();
  const table expected = joined(tables);
  for (const bool join : {true, false}) {
    const table seen = open(4, {}, {.combine_chunks = join})->read_all(ctx());
    expect_rows(seen, expected);
    if (!join) {
      EXPECT_EQ(seen.batches().size(), 16U);
    }
  }
  for (const std::uint64_t window : {std::uint64_t{1}, std::uint64_t{20'000}, std::uint64_t{1} << 30}) {
    SCOPED_TRACE(window);
    const auto set = open(4);
    const auto scan = set->scan_windows(ctx(), {.window_bytes = window});
    ASSERT_TRUE(scan);
    expect_rows(all(*scan, ctx(), set->fields()), expected);
  }
  const auto by_rows = open(4)->scan_windows(ctx(), {.window_bytes = 5000, .batch_rows = 50});
  EXPECT_EQ(by_rows->next()->rows(), 50);
  expect_rows(all(*by_rows, ctx(), expected.fields()), expected.slice(50, expected.rows() - 50));
}

TEST_P(data_sets, can_be_read_batch_by_batch) {
  const table expected = joined(mixed_files());
  const auto set = open(4);
  EXPECT_EQ(set->batch_count(), -1) << "there are streams";
  std::vector<batch> batches;
  while (auto next = set->next(ctx())) {
    batches.push_back(std::move(*next));
  }
  EXPECT_EQ(batches.size(), 16U);
  expect_rows(table::make(ctx(), set->fields(), std::move(batches)), expected);
  EXPECT_FALSE(set->next(ctx()));
  EXPECT_TRUE(set->read_all(ctx()).batches().empty());
}

TEST_P(data_sets, return_batches_by_number_in_any_order) {
  const std::vector<table> tables = mixed_files();
  std::vector<batch> batches;
  for (const table& each : tables) {
    batches.insert(batches.end(), each.batches().begin(), each.batches().end());
  }
  const std::vector<std::int64_t> numbers{15, 0, 9, 10, 11, 2, 2, 4};
  std::vector<batch> chosen;
  for (const std::int64_t number : numbers) {
    chosen.push_back(batches[static_cast<std::size_t>(number)]);
  }
  const table expected = table::make(host_, tables[0].fields(), chosen);
  for (const bool join : {true, false}) {
    const auto set = open(4, {.batches = numbers}, {.combine_chunks = join});
    EXPECT_EQ(set->batch_count(), 8);
    expect_rows(set->read_all(ctx()), expected);
  }
  const auto set = open(4, {.batches = numbers});
  expect_rows(all(*set->scan_windows(ctx(), {.window_bytes = 3000}), ctx(), set->fields()), expected);
  std::vector<batch> one_by_one;
  while (auto next = set->next(ctx())) {
    one_by_one.push_back(std::move(*next));
  }
  expect_rows(table::make(ctx(), set->fields(), std::move(one_by_one)), expected);
  const auto range = open(4, {.range = {{3, 6}}})->read_all(ctx());
  expect_rows(range, table::make(host_, tables[0].fields(), {batches[3], batches[4], batches[5]}));
  EXPECT_SAETA_ERROR(open(4, {.range = {{3, 17}}}), out_of_range, "[3, 17) are not a range of 16 batches");
  EXPECT_SAETA_ERROR(open(4, {.batches = {{0, 16}}}), out_of_range, "batch 16 is not one of 16 batches");
  EXPECT_SAETA_ERROR(open(4, {.batches = {{-1}}}), out_of_range, "batch -1");
}

TEST_P(data_sets, return_windows_of_parts_of_batches_in_any_order) {
  std::vector<data_type> types = support::file_types();
  std::vector<table> tables;
  std::vector<batch> batches;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    tables.push_back(random_table(host_, types, {.batch_rows = {200, 77}, .seed = seed}));
    write(tables.back(), seed - 1, seed == 2 ? container::stream : container::file);
    batches.insert(batches.end(), tables.back().batches().begin(), tables.back().batches().end());
  }
  const std::vector<std::vector<batch_span>> windows{
      {{4, 3, 65}, {0, 199, 1}, {2}},
      {{1, 0, 0}},
      {{5, 1}, {4, 0, 200}, {4, 3, 64}, {0, 7, 100}},
  };
  const auto set = open(3);
  const auto scan = set->scan_spans(ctx(), windows, 2);
  for (const auto& window : windows) {
    std::vector<batch> expected;
    for (const batch_span& span : window) {
      const table whole = table::make(host_, tables[0].fields(), {batches[span.batch]});
      const std::int64_t rows = span.rows < 0 ? whole.rows() - span.first_row : span.rows;
      const table part = whole.slice(span.first_row, rows);
      expected.insert(expected.end(), part.batches().begin(), part.batches().end());
    }
    const auto seen = scan->next();
    ASSERT_TRUE(seen);
    expect_rows(*seen, table::make(host_, tables[0].fields(), expected));
  }
  EXPECT_FALSE(scan->next());
  EXPECT_FALSE(set->scan_spans(ctx(), {}, 2)->next());
}

TEST_P(data_sets, return_windows_with_permuted_rows) {
  std::vector<table> tables;
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    tables.push_back(random_table(host_, support::file_types(), {.batch_rows = {200, 77}, .seed = seed}));
    write(tables.back(), seed - 1);
  }
  const std::vector<std::vector<batch_span>> windows{{{2}, {0, 64, 100}}, {{1}}, {{3}, {2, 0, 10}}};
  const std::vector<ipc::window_order> orders{
      {7, {.batch_rows = 300, .count = 300}},
      {8, {.first = 1, .step = 2, .batch_rows = 5, .count = 30, .lanes = 2, .window_batches = 7, .round = 1}},
      {9, {.first = 16, .batch_rows = 5, .count = 7, .window_batches = 18}}};
  const auto set = open(2);
  const auto plain = set->scan_spans(ctx(), windows, 2);
  const auto scan = set->scan_spans(ctx(), windows, 2, orders);
  for (const ipc::window_order& order : orders) {
    const auto seen = scan->next();
    ASSERT_TRUE(seen);
    expect_rows(*seen, take_permuted(*plain->next(), order.key, order.batches));
  }
  EXPECT_FALSE(scan->next());
  EXPECT_SAETA_ERROR(set->scan_spans(ctx(), windows, 2, {orders.front()}), invalid_argument,
                     "1 orders for 3 windows");
}

TEST_P(data_sets, can_repeat_a_permutation_that_the_budget_refused) {
  constexpr std::int64_t rows = 50'000;
  write(random_table(host_, {data_type(type_id::int64)}, {.batch_rows = {rows, rows}}), 0);
  const auto small = watch(ctx()->with_budget("small", 2'300'000));
  const std::vector<std::vector<batch_span>> windows{{{1}}, {{0}}};
  const std::vector<ipc::window_order> orders{{1, {.batch_rows = rows, .count = rows}},
                                              {2, {.batch_rows = rows, .count = rows}}};
  const auto scan = open(1)->scan_spans(small, windows, 1, orders);
  auto blocked = std::make_optional(buffer::allocate(small, 1'400'000, small->work_stream(), "held"));
  EXPECT_SAETA_ERROR(scan->next(), budget_exceeded, "small");
  const auto has_both = [&] { return small->memory_budget()->statistics().current >= 1'400'000 + 16 * rows; };
  for (int i = 0; i < 200 && !has_both(); ++i) { // mostly the other window is read while the first one waits
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_SAETA_ERROR(scan->next(), budget_exceeded, "small");
  blocked.reset();
  small->synchronize(small->work_stream());
  const auto plain = open(1)->scan_spans(ctx(), windows, 1, orders);
  for (int i = 0; i < 2; ++i) {
    expect_rows(*scan->next(), *plain->next());
  }
  EXPECT_FALSE(scan->next());
}

TEST_P(data_sets, know_the_sizes_of_batches) {
  const auto numbers = data_type(type_id::int64);
  const table plain = random_table(host_, {numbers, data_type(type_id::boolean)}, {.batch_rows = {64, 0, 8}});
  write(plain, 0);
  write(plain, 1, container::stream, compression::lz4);
  const auto set = open(2, {}, {.columns = {{"0:int64"}}});
  const auto& sizes = set->sizes();
  std::vector<std::int64_t> rows;
  std::vector<bool> compressed;
  for (const ipc::batch_size& each : sizes) {
    rows.push_back(each.rows);
    compressed.push_back(each.compressed);
  }
  EXPECT_THAT(rows, ElementsAre(64, 0, 8, 64, 0, 8));
  EXPECT_THAT(compressed, ElementsAre(false, false, false, true, true, true));
  EXPECT_EQ(sizes[0].bytes, 64 * 8 + 64 / 8U);
  EXPECT_EQ(sizes[1].bytes, 0U);
  EXPECT_EQ(open(2, {.batches = {{2, 0}}})->sizes()[0].rows, 8);
}

TEST_P(data_sets, refuse_windows_that_they_can_not_read) {
  const table rows = random_table(host_, {data_type(type_id::string_view)}, {.batch_rows = {64, 8}});
  write(rows, 0);
  write(rows, 1, container::file, compression::lz4);
  const auto set = open(2);
  const auto spans = [&](std::vector<batch_span> window) {
    const std::vector<std::vector<batch_span>> windows{{{0}}, std::move(window)};
    return set->scan_spans(ctx(), windows, 1);
  };
  EXPECT_SAETA_ERROR(spans({}), invalid_argument, "window 1 has no batches");
  EXPECT_SAETA_ERROR(spans({{4}}), out_of_range, "window 1: batch 4 is not one of 4 batches");
  EXPECT_SAETA_ERROR(spans({{1, 8, 1}}), out_of_range, "rows [8, 9) of batch 1, which has 8 rows");
  EXPECT_SAETA_ERROR(spans({{1, 9}}), out_of_range, "of batch 1, which has 8 rows");
  EXPECT_SAETA_ERROR(spans({{1, -1, 2}}), out_of_range, "of batch 1, which has 8 rows");
  EXPECT_SAETA_ERROR(spans({{0, 0, -2}}), out_of_range, "of batch 0");
  EXPECT_SAETA_ERROR(spans({{2, 1}}), invalid_argument, "batch 2 is compressed");
  EXPECT_EQ(all(*spans({{2, 0, 64}, {3}, {1, 8}}), ctx(), set->fields()).rows(), 64 + 64 + 8);
}

TEST_P(data_sets, can_repeat_a_window_that_the_budget_refused) {
  constexpr std::int64_t rows = 50'000;
  for (std::size_t i = 0; i < 3; ++i) {
    write(random_table(host_, {data_type(type_id::int64)}, {.batch_rows = {rows}, .seed = i + 1}), i);
  }
  const auto small = watch(ctx()->with_budget("small", 600'000));
  const std::vector<std::vector<batch_span>> windows{{{2}}, {{0}}, {{1}}};
  const auto scan = open(3)->scan_spans(small, windows, 2);
  std::optional<table> held = scan->next();
  ASSERT_TRUE(held);
  for (int i = 0; i < 3; ++i) {
    EXPECT_SAETA_ERROR(scan->next(), budget_exceeded, "small");
  }
  std::int64_t seen = 0;
  while (held) {
    EXPECT_EQ(held->rows(), rows) << "a window is not made smaller";
    seen += held->rows();
    held.reset();
    small->synchronize(small->work_stream());
    held = scan->next();
  }
  EXPECT_EQ(seen, 3 * rows);
}

TEST_P(data_sets, keep_separate_dictionaries_of_files) {
  const std::vector<table> tables{words(host_, {0, 1, 1}, {"a", "b"}), words(host_, {1, 0}, {"c", "d", "e"}),
                                  words(host_, {0, 2}, {"c", "d", "e"}), words(host_, {}, {})};
  for (const auto second : {container::file, container::stream}) {
    for (std::size_t i = 0; i < tables.size(); ++i) {
      write(tables[i], i, i == 1 ? second : container::file);
    }
    const table expected = joined(tables);
    expect_rows(open(4)->read_all(ctx()), expected);
    const std::vector<std::vector<batch_span>> windows{{{2}, {0}}, {{1}}, {{3}, {2}}};
    const auto scan = open(4)->scan_spans(ctx(), windows, 1);
    EXPECT_THAT(support::cells(*scan->next(), 0), ElementsAre("c", "e", "a", "b", "b"));
    EXPECT_THAT(support::cells(*scan->next(), 0), ElementsAre("d", "c"));
    EXPECT_THAT(support::cells(*scan->next(), 0), ElementsAre("c", "e"));
  }
}

TEST_P(data_sets, read_a_common_dictionary_once) {
  const std::vector<table> tables{words(host_, {0, 1, 1}, {"a", "b"}), words(host_, {1, 0}, {"a", "b"}),
                                  words(host_, {0}, {"a", "b"})};
  for (std::size_t i = 0; i < tables.size(); ++i) {
    write(tables[i], i);
  }
  const table seen = open(3, {}, {.combine_chunks = true})->read_all(ctx());
  expect_rows(seen, joined(tables));
  EXPECT_EQ(seen.batches().size(), 1U) << "one dictionary, so no rows are cut off";
}

TEST_P(data_sets, do_not_compare_large_dictionaries) {
  const std::string large(5 << 20, 'a'); // comparing them would take longer than reading them again
  for (std::size_t i = 0; i < 2; ++i) {
    write(words(host_, {0, 1}, {large, "b"}), i);
  }
  const table seen = open(2, {}, {.combine_chunks = true})->read_all(ctx());
  EXPECT_EQ(seen.batches().size(), 2U);
  EXPECT_TRUE(support::cells(seen, 0) == (std::vector<support::cell>{large, "b", large, "b"}));
}

TEST_P(data_sets, support_growing_dictionaries_in_reverse_order) {
  const auto grown = support::strings({"a", "b", "c"});
  const auto begin = std::make_shared<support::plain_array>(*grown);
  begin->length = 1;
  const auto codes = support::indices({0}, begin);
  const table first =
      support::table_of(host_, {{{"words", codes->type, true, {}}}, {}},
                        {{codes}, {support::indices({2, 1}, grown)}, {support::indices({1}, grown)}});
  ipc::write(first, part(0), {.format = container::stream, .dictionary_deltas = true});
  write(words(host_, {0}, {"z"}), 1);
  const std::vector<std::vector<batch_span>> windows{{{1}, {0}, {3}, {2}, {0}}};
  EXPECT_THAT(support::cells(*open(2)->scan_spans(ctx(), windows, 1)->next(), 0),
              ElementsAre("c", "b", "a", "z", "b", "a"));
}

TEST_P(data_sets, name_the_broken_file) {
  const table rows =
      random_table(host_, {data_type(type_id::int64), data_type(type_id::string)}, {.batch_rows = {64, 8}});
  for (std::size_t i = 0; i < 3; ++i) {
    write(rows, i);
  }
  const auto set = open(3);
  std::filesystem::resize_file(part(1), std::filesystem::file_size(part(1)) / 4);
  EXPECT_SAETA_ERROR(set->read_all(ctx()), io, part(1).string());
  EXPECT_SAETA_ERROR(open(3), format, part(1).string());
  std::filesystem::remove(part(1));
  EXPECT_SAETA_ERROR(open(3), io, part(1).string());
}

TEST_P(data_sets, name_the_broken_batch_of_a_file) {
  for (std::size_t i = 0; i < 3; ++i) {
    write(
        joined({words(host_, {0, 1, 1, 0, 1, 0}, {"a", "b"}), words(host_, {1, 0, 1, 1, 0, 1}, {"a", "b"})}),
        i);
  }
  const std::vector<std::int32_t> codes{1, 0, 1, 1, 0, 1};
  std::string bytes(std::filesystem::file_size(part(1)), ' ');
  std::ifstream(part(1), std::ios::binary).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  const auto second = bytes.find(std::string(reinterpret_cast<const char*>(codes.data()), 24));
  ASSERT_NE(second, std::string::npos);
  bytes[second + 8] = 9;
  std::ofstream(part(1), std::ios::binary) << bytes;
  EXPECT_SAETA_ERROR(open(3)->read_all(ctx()), format,
                     concat(part(1).string(), ": batch 1: column 'words': index 9 at row 2"));
}

TEST_P(data_sets, refuse_files_with_other_columns) {
  const auto one = [&](const char* name, type_id type, bool nullable) {
    const auto values = support::random_array(data_type(type), {3, 0, support::nulls::absent}, 1);
    return support::table_of(host_, {{{name, data_type(type), nullable, {}}}, {}}, {{values}});
  };
  write(one("a", type_id::int64, true), 0);
  const auto message = [&](const std::string& of) { return concat(part(1).string(), ": column 0 is ", of); };
  write(one("b", type_id::int64, true), 1);
  EXPECT_SAETA_ERROR(open(2), type_mismatch, message("'b' (int64), expected 'a' (int64)"));
  write(one("a", type_id::int32, true), 1);
  EXPECT_SAETA_ERROR(open(2), type_mismatch, message("'a' (int32), expected 'a' (int64)"));
  write(one("a", type_id::int64, false), 1);
  EXPECT_EQ(open(2)->read_all(ctx()).rows(), 6) << "a column without nulls is one that may have nulls";
  const schema meant{{{"a", data_type(type_id::int64), false, {}}}, {}};
  EXPECT_SAETA_ERROR(open(2, {.meant = meant}), type_mismatch, "expected 'a' (int64, not null)");
  std::filesystem::rename(part(1), part(0));
  EXPECT_FALSE(open(1, {.meant = meant})->read_all(ctx()).fields().fields[0].nullable);
  EXPECT_SAETA_ERROR(open(1, {.meant = schema{}}), type_mismatch, "expected no such column");
}

TEST_P(data_sets, may_have_their_columns_in_different_order) {
  const auto numbers = data_type(type_id::int64);
  const table both = random_table(host_, {numbers, data_type(type_id::string)}, {.batch_rows = {9}});
  const auto& fields = both.fields().fields;
  write(both, 0);
  write(table::make(host_, {{fields[1], fields[0]}, {}},
                    {{9, {both.batches()[0].columns[1], both.batches()[0].columns[0]}}}),
        1);
  const auto set = open(2, {}, {.columns = {{"0:int64"}}});
  const table seen = set->read_all(ctx());
  EXPECT_FALSE(set->planned()) << "one tree of columns does not describe both";
  EXPECT_EQ(seen.rows(), 18);
  EXPECT_EQ(support::cells(seen.slice(9, 9), 0), support::cells(both, 0));
  EXPECT_SAETA_ERROR(set->sizes(), unsupported, "and other sources");
}

SAETA_CONFORMANCE_SUITE(data_sets);

} // namespace
} // namespace saeta::conformance
