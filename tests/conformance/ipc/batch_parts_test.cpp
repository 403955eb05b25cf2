// Compressed batches that are decoded in parts of their rows, on every backend.
#include "conformance/harness/folder_test.hpp"
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/base/error.hpp"
#include "saeta/ipc/data_set.hpp"
#include "saeta/ipc/reader.hpp"
#include "saeta/ipc/scan.hpp"
#include "saeta/ipc/writer.hpp"
#include "support/tables.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

namespace saeta::conformance {
namespace {

using ipc::batch_span;
using ipc::compression;
using support::random_table;
using ::testing::HasSubstr;

bool is_divided(const data_type& type) {
  return !type.has_variadic_buffers() && type.mapping() != row_mapping::scattered &&
         type.mapping() != row_mapping::run_ends &&
         std::ranges::all_of(type.children(), [](const field& child) { return is_divided(child.type); });
}

class batch_parts : public folder_test {
protected:
  static constexpr std::array codecs{compression::lz4, compression::zstd};

  static std::vector<data_type> divided_types() {
    std::vector<data_type> types;
    std::ranges::copy_if(support::file_types(), std::back_inserter(types), is_divided);
    return types;
  }
  [[nodiscard]] ipc::data_set opened(ipc::read_options options = {}) const {
    options.copy = copy_policy::always;
    std::vector<std::unique_ptr<ipc::reader>> readers;
    readers.push_back(ipc::reader::open(file(), std::move(options)));
    return ipc::data_set(std::move(readers));
  }
  static void expect_rows(const table& seen, const table& expected) {
    ASSERT_EQ(seen.rows(), expected.rows());
    for (std::size_t c = 0; c < expected.column_count(); ++c) {
      SCOPED_TRACE(expected.fields().fields[c].name);
      EXPECT_TRUE(support::cells(seen, c) == support::cells(expected, c));
    }
  }
  void expect_parts(const std::vector<std::vector<batch_span>>& windows, const table& original) const {
    const auto scan = opened().scan_spans(ctx(), windows, 2);
    for (const auto& window : windows) {
      std::vector<batch> expected;
      for (const batch_span& span : window) {
        const auto parts = original.slice(span.first_row, span.rows);
        expected.insert(expected.end(), parts.batches().begin(), parts.batches().end());
      }
      const auto seen = scan->next();
      ASSERT_TRUE(seen);
      SCOPED_TRACE(window.front().first_row);
      expect_rows(*seen, table::make(host_, original.fields(), std::move(expected)));
    }
    EXPECT_FALSE(scan->next());
  }
  /// A context with room for decoders, which LZ4 with blocks of 4 MiB needs 8 MiB for, but not for a batch of
  /// 8 MiB besides.
  [[nodiscard]] std::shared_ptr<context> small(std::uint64_t mebibytes = 12) {
    return watch(ctx()->with_budget("small", mebibytes << 20));
  }
  [[nodiscard]] table large() const {
    return random_table(host_, {data_type(type_id::int64)}, {.batch_rows = {1 << 20}});
  }

  std::shared_ptr<context> host_ = watch(context::create(make_host_backend()));
};

TEST_P(batch_parts, have_the_rows_of_every_divided_type) {
  const std::vector<data_type> types = divided_types();
  ASSERT_GT(types.size(), 30U);
  const std::vector<std::vector<batch_span>> forward{{{0, 0, 64}},    {{0, 64, 7}},   {{0, 71, 1}},
                                                     {{0, 72, 1000}}, {{0, 1100, 1}}, {{0, 1101, 1900}}};
  const std::vector<std::vector<batch_span>> any_order{
      {{0, 2000, 1001}}, {{0, 0, 3}, {0, 5, 90}}, {{0, 90, 10}, {0, 3, 2}, {0, 2900, 101}}, {{0, 17, 1300}}};
  constexpr std::size_t columns = 8; // of a file: each of their buffers has a decoder
  for (std::size_t first = 0; first < types.size(); first += columns) {
    const auto some = std::span(types).subspan(first, std::min(columns, types.size() - first));
    const table original = random_table(host_, {some.begin(), some.end()}, {.batch_rows = {3001}});
    for (const compression body : codecs) {
      ipc::write(original, file(), {.body = body, .batch_rows = 3001});
      expect_parts(forward, original);
      expect_parts(any_order, original);
    }
  }
}

TEST_P(batch_parts, are_read_where_the_budget_has_no_room_for_the_batch) {
  const table original = large();
  for (const compression body : codecs) {
    ipc::write(original, file(), {.body = body, .batch_rows = original.rows()});
    const auto few = small();
    {
      const auto scan = opened().scan_windows(few, {});
      std::int64_t rows = 0;
      std::size_t tables = 0;
      while (const auto part = scan->next()) {
        ++tables;
        expect_rows(*part, original.slice(rows, part->rows()));
        rows += part->rows();
        few->synchronize(few->work_stream());
      }
      EXPECT_EQ(rows, original.rows());
      EXPECT_GT(tables, 2U);
    }
    few->synchronize(few->work_stream());
    EXPECT_EQ(few->memory_budget()->statistics().current, 0U);
  }
}

TEST_P(batch_parts, are_not_read_where_the_budget_has_room_for_the_batch) {
  const table original = large();
  for (const compression body : codecs) {
    ipc::write(original, file(), {.body = body, .batch_rows = original.rows()});
    const auto scan = opened().scan_windows(ctx(), {.window_bytes = 1 << 20});
    const auto all = scan->next();
    ASSERT_TRUE(all.has_value());
    EXPECT_EQ(all->rows(), original.rows());
    EXPECT_FALSE(scan->next().has_value());
  }
}

TEST_P(batch_parts, of_broken_frames_end_the_scan) {
  std::vector<std::int32_t> numbers(2 << 20);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<std::int32_t>(i * i / 7919 % 3);
  }
  const auto words = data_type::dictionary(data_type(type_id::int32), data_type(type_id::string));
  const table original = support::table_of(host_, schema{{{"words", words, false, {}}}, {}},
                                           {{support::indices(numbers, support::strings({"a", "b", "c"}))}});
  for (const compression body : codecs) {
    ipc::write(original, file(), {.body = body, .batch_rows = original.rows()});
    std::string bytes(std::filesystem::file_size(file()), ' ');
    std::ifstream(file(), std::ios::binary).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(bytes.size() * 3 / 4), 4096, '\xFF');
    std::ofstream(file(), std::ios::binary) << bytes;
    const auto read_all = [&](const std::shared_ptr<context>& into) {
      const auto scan = opened().scan_windows(into, {});
      std::int64_t rows = 0;
      while (const auto part = scan->next()) {
        rows += part->rows();
        into->synchronize(into->work_stream());
      }
      return rows;
    };
    for (const auto& into : {ctx(), small()}) {
      EXPECT_THAT([&] { static_cast<void>(read_all(into)); },
                  ::testing::Throws<error>(
                      ::testing::AllOf(::testing::Property(&error::code, errc::format),
                                       ::testing::Property(&error::message, HasSubstr("batch 0")),
                                       ::testing::Property(&error::message, HasSubstr("column 'words'")))));
    }
  }
}

TEST_P(batch_parts, end_with_the_frames_of_their_batch) {
  constexpr std::int64_t rows = 5003;
  constexpr std::int64_t claimed = rows * 8;
  constexpr std::int64_t too_many = claimed + 8;
  const data_type type(type_id::int64);
  const table original =
      support::table_of(host_, schema{{{"x", type, true, {}}}, {}},
                        {{support::random_array(type, {rows, 0, support::nulls::absent}, 1)}});
  for (const compression body : codecs) {
    ipc::write(original, file(), {.body = body, .batch_rows = rows});
    std::string bytes(std::filesystem::file_size(file()), ' ');
    std::ifstream(file(), std::ios::binary).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    const auto at = bytes.find(std::string_view(reinterpret_cast<const char*>(&claimed), sizeof claimed));
    ASSERT_NE(at, std::string::npos);
    bytes.replace(at, sizeof too_many, reinterpret_cast<const char*>(&too_many), sizeof too_many);
    std::ofstream(file(), std::ios::binary) << bytes;
    const std::vector<std::vector<batch_span>> windows{{{0, 0, 3000}}, {{0, 3000, rows - 3000}}};
    const auto scan = opened().scan_spans(ctx(), windows, 1);
    EXPECT_EQ(scan->next()->rows(), 3000);
    EXPECT_THAT([&] { static_cast<void>(scan->next()); },
                ::testing::Throws<error>(::testing::AllOf(
                    ::testing::Property(&error::code, errc::format),
                    ::testing::Property(&error::message, HasSubstr("batch 0 from row 3000 on: column 'x': ")),
                    ::testing::Property(&error::message,
                                        HasSubstr("decode to 40024 bytes, the buffer claims 40032")))));
  }
}

TEST_P(batch_parts, go_on_after_a_budget_refusal) {
  const table original = large();
  ipc::write(original, file(), {.body = compression::zstd, .batch_rows = original.rows()});
  const auto few = small(6);
  const auto scan = opened().scan_windows(few, {});
  std::vector<table> held;
  std::int64_t rows = 0;
  try {
    while (auto part = scan->next()) {
      held.push_back(std::move(*part));
      rows += held.back().rows();
    }
    FAIL() << "the tables that are held fill the budget";
  } catch (const error& failure) {
    EXPECT_EQ(failure.code(), errc::budget_exceeded);
  }
  scan->require_more();
  held.clear();
  few->synchronize(few->work_stream());
  while (const auto part = scan->next()) {
    expect_rows(*part, original.slice(rows, part->rows()));
    rows += part->rows();
    few->synchronize(few->work_stream());
  }
  EXPECT_EQ(rows, original.rows());
}

TEST_P(batch_parts, are_refused_for_types_whose_rows_may_be_anywhere) {
  for (const data_type& type : support::file_types()) {
    if (is_divided(type)) {
      continue;
    }
    ipc::write(random_table(host_, {type}, {.batch_rows = {100}}), file(), {.body = compression::lz4});
    const std::vector<std::vector<batch_span>> windows{{{0, 0, 64}}};
    EXPECT_THAT([&] { static_cast<void>(opened().scan_spans(ctx(), windows, 1)); },
                ::testing::Throws<error>(
                    ::testing::AllOf(::testing::Property(&error::code, errc::invalid_argument),
                                     ::testing::Property(&error::message, HasSubstr("because of column")))));
  }
}

SAETA_CONFORMANCE_SUITE(batch_parts);

} // namespace
} // namespace saeta::conformance
