// Scans of a file by windows have the rows of a whole read for any window size, on every backend.
#include "conformance/harness/folder_test.hpp"
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/base/error.hpp"
#include "saeta/base/report.hpp"
#include "saeta/compute/combine.hpp"
#include "saeta/ipc/reader.hpp"
#include "saeta/ipc/scan.hpp"
#include "saeta/ipc/writer.hpp"
#include "support/fail_each_call.hpp"
#include "support/faulty_backend.hpp"
#include "support/tables.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <latch>
#include <string>
#include <thread>
#include <vector>

namespace saeta::conformance {
namespace {

using support::nulls;
using support::random_array;
using support::random_table;
using support::shared_array;
using ::testing::HasSubstr;

class scanned_file : public folder_test {
protected:
  [[nodiscard]] std::unique_ptr<ipc::scan> scan(const ipc::scan_options& windows = {},
                                                ipc::read_options options = {}) const {
    options.copy = copy_policy::always;
    return ipc::reader::open(file(), std::move(options))->scan_windows(ctx(), windows);
  }
  /// All rows of a scan, and the number of rows of each table.
  struct scanned {
    table rows;
    std::vector<std::int64_t> lengths;
  };
  [[nodiscard]] scanned all(ipc::scan& of, const schema& fields) const {
    std::vector<batch> batches;
    std::vector<std::int64_t> lengths;
    while (const auto part = of.next()) {
      lengths.push_back(part->rows());
      EXPECT_EQ(part->fields(), fields);
      batches.insert(batches.end(), part->batches().begin(), part->batches().end());
    }
    EXPECT_FALSE(of.next()) << "behind the end";
    expect_closed(of, "the scan is at its end");
    return {table::make(ctx(), fields, std::move(batches)), std::move(lengths)};
  }
  static void expect_closed(const ipc::scan& of, const char* part) {
    EXPECT_THAT([&] { of.require_more(); }, ::testing::Throws<error>(::testing::AllOf(
                                                ::testing::Property(&error::code, errc::closed),
                                                ::testing::Property(&error::message, HasSubstr(part)))));
  }
  static void expect_rows(const table& seen, const table& expected) {
    ASSERT_EQ(seen.rows(), expected.rows());
    for (std::size_t c = 0; c < expected.column_count(); ++c) {
      SCOPED_TRACE(expected.fields().fields[c].name);
      EXPECT_TRUE(support::cells(seen, c) == support::cells(expected, c));
    }
  }
  [[nodiscard]] std::vector<std::int64_t> lengths_of(const table& of) const {
    std::vector<std::int64_t> lengths;
    for (const batch& each : of.batches()) {
      lengths.push_back(each.rows);
    }
    return lengths;
  }

  static constexpr std::array body_forms{ipc::compression::none, ipc::compression::lz4,
                                         ipc::compression::zstd};
  std::shared_ptr<context> host_ = watch(context::create(make_host_backend()));
};

TEST_P(scanned_file, has_every_type_in_windows_of_every_size) {
  const table original = random_table(host_, support::file_types(), {.batch_rows = {200, 1, 0, 77, 640}});
  for (const auto format : {ipc::container::file, ipc::container::stream}) {
    for (const auto body : body_forms) {
      ipc::write(original, file(), {.format = format, .body = body});
      for (const std::uint64_t window : {std::uint64_t{1}, std::uint64_t{20'000}, std::uint64_t{1} << 30}) {
        SCOPED_TRACE(::testing::Message() << "container " << static_cast<int>(format) << ", compression "
                                          << static_cast<int>(body) << ", window " << window);
        const auto parts = all(*scan({.window_bytes = window}), original.fields());
        expect_rows(parts.rows, original);
        if (window > 1'000'000 || body != ipc::compression::none) {
          EXPECT_EQ(parts.lengths, lengths_of(original));
        }
      }
    }
  }
}

TEST_P(scanned_file, cuts_a_batch_that_is_larger_than_a_window) {
  const table original =
      random_table(host_, support::file_types(), {.batch_rows = {3001}, .one_dictionary = true});
  ipc::write(original, file());
  const auto parts = all(*scan({.window_bytes = 100'000}), original.fields());
  EXPECT_GT(parts.lengths.size(), 2U);
  expect_rows(parts.rows, original);
}

TEST_P(scanned_file, has_tables_of_any_number_of_rows) {
  const auto words = data_type::dictionary(data_type(type_id::int8), data_type(type_id::string));
  const table original =
      random_table(host_,
                   {data_type(type_id::int64), data_type(type_id::string), words, data_type(type_id::boolean),
                    data_type::nested("+l", {{"item", data_type(type_id::int16), true, {}}})},
                   {.batch_rows = {200, 1, 0, 77, 640}});
  ipc::write(original, file());
  for (const std::int64_t rows : {23, 64, 917, 918, 919, 100'000}) {
    for (const std::uint64_t window : {std::uint64_t{1}, std::uint64_t{1} << 30}) {
      SCOPED_TRACE(::testing::Message() << rows << " rows, window " << window);
      const auto parts = all(*scan({.window_bytes = window, .batch_rows = rows}), original.fields());
      expect_rows(parts.rows, original);
      for (std::size_t i = 0; i + 1 < parts.lengths.size(); ++i) {
        EXPECT_EQ(parts.lengths[i], rows);
      }
      EXPECT_EQ(parts.lengths.size(), static_cast<std::size_t>((original.rows() + rows - 1) / rows));
    }
  }
}

TEST_P(scanned_file, may_have_no_rows_and_no_batches) {
  const table original = random_table(host_, support::file_types(), {.batch_rows = {0, 0}});
  ipc::write(original, file());
  EXPECT_EQ(all(*scan(), original.fields()).lengths, (std::vector<std::int64_t>{0, 0}));
  EXPECT_TRUE(all(*scan({.batch_rows = 10}), original.fields()).lengths.empty());
  EXPECT_TRUE(all(*scan({}, {.batches = {{1, 1}}}), original.fields()).lengths.empty());
  ipc::write(original.slice(0, 0), file());
  EXPECT_TRUE(all(*scan(), original.fields()).lengths.empty());
}

TEST_P(scanned_file, has_the_selected_columns_and_batches) {
  const table original =
      random_table(host_, {data_type(type_id::int64), data_type(type_id::string), data_type(type_id::int8)},
                   {.batch_rows = {10, 20, 30, 40}});
  ipc::write(original, file());
  const auto scanning = scan({.window_bytes = 1}, {.columns = {{"2:int8", "1:string"}}, .batches = {{1, 3}}});
  std::vector<support::cell> seen;
  while (const auto part = scanning->next()) {
    const auto some = support::cells(*part, 0);
    seen.insert(seen.end(), some.begin(), some.end());
  }
  EXPECT_EQ(seen, support::cells(original.slice(10, 50), 2));
}

TEST_P(scanned_file, shares_a_dictionary_among_windows) {
  const auto type = data_type::dictionary(data_type(type_id::int32), data_type(type_id::string));
  const table original =
      random_table(host_, {type, data_type(type_id::int64)}, {.batch_rows = {9000, 9000, 9000}});
  for (const auto format : {ipc::container::file, ipc::container::stream}) {
    ipc::write(original, file(), {.format = format});
    const auto scanning = scan({.window_bytes = 120'000});
    const auto first = scanning->next();
    const auto second = scanning->next();
    ASSERT_TRUE(first && second);
    const column& a = first->batches()[0].columns[0];
    const column& b = second->batches()[0].columns[0];
    EXPECT_EQ(a.dictionary(), b.dictionary());
    EXPECT_NE(a.buffers()[1].owner(), a.dictionary()->buffers()[1].owner());
    EXPECT_NE(a.buffers()[1].owner(), b.buffers()[1].owner());
  }
}

TEST_P(scanned_file, supports_replaced_and_growing_dictionaries_between_windows) {
  for (const bool one : {true, false}) {
    const auto words = data_type::dictionary(data_type(type_id::int32), data_type(type_id::string));
    const auto lists = data_type::nested("+l", {{"item", words, true, {}}});
    const table original =
        random_table(host_, {words, lists}, {.batch_rows = {70, 0, 300, 11, 64, 500}, .one_dictionary = one});
    ipc::write(original, file(), {.format = ipc::container::stream});
    for (const std::uint64_t window : {std::uint64_t{1}, std::uint64_t{2000}, std::uint64_t{1} << 30}) {
      SCOPED_TRACE(window);
      expect_rows(all(*scan({.window_bytes = window}), original.fields()).rows, original);
    }
  }
}

TEST_P(scanned_file, uses_no_more_memory_than_its_windows) {
  constexpr std::int64_t rows = 4096; // pieces so small that a kernel scatters them
  const table original =
      random_table(host_, {data_type(type_id::int64)}, {.batch_rows = std::vector<std::int64_t>(400, rows)});
  ipc::write(original, file());
  const std::uint64_t window = 64 * (rows * 8 + rows / 8) + 1024;
  const auto before = ctx()->memory_budget()->statistics().current;
  ctx()->memory_budget()->reset_peak();
  const auto scanning = scan({.window_bytes = window, .windows_ahead = 2});
  std::int64_t seen = 0;
  while (const auto part = scanning->next()) {
    seen += part->rows();
  }
  ctx()->synchronize(ctx()->work_stream());
  EXPECT_EQ(seen, original.rows());
  EXPECT_LE(ctx()->memory_budget()->statistics().peak - before, 4 * window);
}

TEST_P(scanned_file, uses_smaller_windows_if_the_budget_holds_only_one) {
  constexpr std::int64_t rows = 50'000;
  const table original =
      random_table(host_, {data_type(type_id::int64)}, {.batch_rows = {rows, rows, rows, rows}});
  ipc::write(original, file());
  const auto small = watch(ctx()->with_budget("small", 700'000));
  ipc::read_options options;
  options.copy = copy_policy::always;
  const auto scanning = ipc::reader::open(file(), options)->scan_windows(small, {.windows_ahead = 4});
  std::vector<support::cell> seen;
  while (const auto part = scanning->next()) {
    const auto some = support::cells(*part, 0);
    seen.insert(seen.end(), some.begin(), some.end());
  }
  EXPECT_EQ(seen, support::cells(original, 0));
}

TEST_P(scanned_file, can_be_continued_after_a_budget_refusal) {
  constexpr std::int64_t rows = 50'000;
  const table original =
      random_table(host_, {data_type(type_id::int64)}, {.batch_rows = {rows, rows, rows, rows}});
  ipc::write(original, file(), {.body = ipc::compression::lz4}); // compressed batches are not split
  const auto small = watch(ctx()->with_budget("small", 600'000));
  ipc::read_options options;
  options.copy = copy_policy::always;
  const auto scanning = ipc::reader::open(file(), options)->scan_windows(small, {});
  auto held = scanning->next();
  ASSERT_TRUE(held);
  std::int64_t seen = held->rows();
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT([&] { static_cast<void>(scanning->next()); },
                ::testing::Throws<error>(::testing::Property(&error::code, errc::budget_exceeded)));
    scanning->require_more();
  }
  held.reset();
  small->synchronize(small->work_stream());
  while ((held = scanning->next())) {
    seen += held->rows();
    held.reset();
    small->synchronize(small->work_stream());
  }
  EXPECT_EQ(seen, original.rows());
}

TEST_P(scanned_file, ends_with_an_error_at_a_broken_batch) {
  constexpr std::size_t rows = 30'000; // each batch is a window
  const auto words = data_type::dictionary(data_type(type_id::int32), data_type(type_id::string));
  const schema fields{{{"words", words, false, {}}}, {}};
  const shared_array dictionary = support::strings({"a", "b"});
  const auto column_of = [&](std::int32_t index) {
    return std::vector<shared_array>{support::indices(std::vector<std::int32_t>(rows, index), dictionary)};
  };
  ipc::write(support::table_of(host_, fields, {column_of(0), column_of(0), column_of(1), column_of(0)}),
             file());
  const std::vector<std::int32_t> ones(100, 1);
  std::string bytes(std::filesystem::file_size(file()), ' ');
  std::ifstream(file(), std::ios::binary).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  const auto third = bytes.find(std::string(reinterpret_cast<const char*>(ones.data()), 400));
  ASSERT_NE(third, std::string::npos);
  bytes[third + 4] = 7;
  std::ofstream(file(), std::ios::binary) << bytes;

  const auto scanning = scan({.window_bytes = rows * 4, .windows_ahead = 8});
  EXPECT_EQ(scanning->next()->rows(), rows);
  EXPECT_EQ(scanning->next()->rows(), rows);
  scanning->require_more();
  try {
    static_cast<void>(scanning->next());
    FAIL() << "the third batch is broken";
  } catch (const error& failure) {
    EXPECT_EQ(failure.code(), errc::format);
    EXPECT_THAT(failure.message(), HasSubstr("batch 2"));
    EXPECT_THAT(failure.message(), HasSubstr("column 'words'"));
    EXPECT_THAT(failure.message(), HasSubstr("row 1"));
  }
  expect_closed(*scanning, "the scan is at its end");
  EXPECT_FALSE(scanning->next());
}

TEST_P(scanned_file, leaks_nothing_if_any_call_fails) {
  const auto faulty = std::make_shared<saeta::testing::faulty_backend>(shared_device());
  const table original = random_table(host_, {data_type(type_id::int64), data_type(type_id::string)},
                                      {.batch_rows = {900, 900, 900}});
  const report_sink before = set_report_sink([](std::string_view, std::string_view) noexcept {});
  ipc::read_options options;
  options.copy = copy_policy::always;
  for (const auto body : {ipc::compression::none, ipc::compression::lz4}) {
    ipc::write(original, file(), {.body = body});
    const auto ctx = watch(context::create(faulty, {}));
    SCOPED_TRACE(::testing::Message() << "compression " << static_cast<int>(body));
    const auto read_all = [&] {
      const auto scanning = ipc::reader::open(file(), options)->scan_windows(ctx, {.window_bytes = 9000});
      while (scanning->next()) {
      }
    };
    saeta::testing::fail_each_call(*faulty, read_all, [&] {
      EXPECT_TRUE(ctx->wait_for_releases(std::chrono::seconds(20)));
      EXPECT_EQ(ctx->reports().statistics().ledger.buffers, 0U);
    });
  }
  set_report_sink(before);
}

TEST_P(scanned_file, may_be_closed_and_dropped_at_any_time) {
  const table original = random_table(host_, {data_type(type_id::int64)}, {.batch_rows = {900, 900, 900, 5}});
  ipc::write(original, file());
  for (int taken = 0; taken < 5; ++taken) {
    const auto scanning = scan({.window_bytes = 1, .windows_ahead = 3});
    std::optional<table> kept;
    for (int i = 0; i < taken; ++i) {
      kept = scanning->next();
    }
    scanning->close();
    EXPECT_THAT([&] { static_cast<void>(scanning->next()); },
                ::testing::Throws<error>(::testing::Property(&error::code, errc::closed)));
    expect_closed(*scanning, "the scan is closed");
    scanning->close();
    if (kept) {
      EXPECT_FALSE(support::cells(*kept, 0).empty());
    }
    static_cast<void>(scan({.window_bytes = 1})->next());
  }
}

/// A scan whose second window exceeds the budget while the first one is alive.
class scan_without_room : public scanned_file {
protected:
  void SetUp() override {
    scanned_file::SetUp();
    constexpr std::int64_t rows = 50'000;
    const table original =
        random_table(host_, {data_type(type_id::int64)}, {.batch_rows = {rows, rows, rows}});
    ipc::write(original, file(), {.body = ipc::compression::lz4}); // compressed batches are not split
    small_ = watch(ctx()->with_budget("small", 600'000));
    scanning_ = ipc::reader::open(file(), {.copy = copy_policy::always})->scan_windows(small_, {});
  }
  void TearDown() override {
    scanning_.reset();
    small_.reset();
    context_test::TearDown();
  }
  [[nodiscard]] std::optional<errc> failure_of_next() const {
    try {
      static_cast<void>(scanning_->next());
    } catch (const error& failure) {
      return failure.code();
    }
    return std::nullopt;
  }

  std::shared_ptr<context> small_;
  std::unique_ptr<ipc::scan> scanning_;
};

TEST_P(scan_without_room, may_be_closed_while_its_caller_reads_a_refused_window) {
  const std::thread::id caller = std::this_thread::get_id();
  int closed = 0;
  const auto hook = small_->add_pressure_hook("close", 0, [&](std::uint64_t) -> std::uint64_t {
    if (std::this_thread::get_id() == caller) {
      ++closed;
      scanning_->close();
    }
    return 0;
  });
  const auto held = scanning_->next();
  ASSERT_TRUE(held);
  EXPECT_EQ(failure_of_next(), errc::closed);
  EXPECT_EQ(closed, 1);
  EXPECT_EQ(failure_of_next(), errc::closed);
}

TEST_P(scan_without_room, may_be_closed_and_destroyed_by_a_hook_on_its_own_thread) {
  const std::thread::id caller = std::this_thread::get_id();
  std::latch closed(1);
  std::latch dropped(1);
  std::atomic<bool> asked{false};
  auto hook = small_->add_pressure_hook("close", 0, [&](std::uint64_t) -> std::uint64_t {
    if (std::this_thread::get_id() != caller && !asked.exchange(true)) {
      scanning_->close();
      closed.count_down();
      dropped.wait();
    }
    return 0;
  });
  std::optional<table> held;
  try {
    held = scanning_->next(); // two windows are read at the same time, and either may exceed the budget
  } catch (const error& failure) {
    EXPECT_EQ(failure.code(), errc::closed);
  }
  closed.wait();
  EXPECT_EQ(failure_of_next(), errc::closed);
  scanning_.reset();
  dropped.count_down();
  held.reset();
  hook.remove();
  const std::weak_ptr<context> ended = small_;
  small_.reset();
  EXPECT_TRUE(comes_true([&] { return ended.expired(); })) << "its thread was the last to have it";
}

SAETA_CONFORMANCE_SUITE(scan_without_room);

TEST_P(scanned_file, may_be_scanned_twice_at_the_same_time) {
  const table original = random_table(host_, support::file_types(), {.batch_rows = {300, 200, 100}});
  ipc::write(original, file());
  const auto first = scan({.window_bytes = 50'000});
  const auto second = scan({.window_bytes = 9'000, .batch_rows = 50});
  std::int64_t seen = 0;
  while (const auto part = first->next()) {
    seen += part->rows();
    if (const auto other = second->next()) {
      seen += other->rows();
    }
  }
  while (const auto other = second->next()) {
    seen += other->rows();
  }
  EXPECT_EQ(seen, 2 * original.rows());
}

SAETA_CONFORMANCE_SUITE(scanned_file);

} // namespace
} // namespace saeta::conformance
