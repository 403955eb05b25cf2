// Reads of all batches at once, with one allocation and one transfer; they must equal reads batch by batch.
#include "conformance/harness/folder_test.hpp"
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/base/error.hpp"
#include "saeta/base/report.hpp"
#include "saeta/ipc/reader.hpp"
#include "saeta/ipc/writer.hpp"
#include "support/fail_each_call.hpp"
#include "support/faulty_backend.hpp"
#include "support/foreign_streams.hpp"
#include "support/ring_options.hpp"
#include "support/tables.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <span>
#include <string>

namespace saeta::conformance {
namespace {

using support::nulls;
using support::random_array;
using support::random_table;
using support::same_contents;

/// Returns options for every container with every compression.
const std::vector<ipc::write_options>& writings() {
  static const std::vector<ipc::write_options> all = [] {
    std::vector<ipc::write_options> made;
    for (const auto format : {ipc::container::file, ipc::container::stream}) {
      for (const auto body : {ipc::compression::none, ipc::compression::lz4, ipc::compression::zstd}) {
        made.push_back({.format = format, .body = body});
      }
    }
    return made;
  }();
  return all;
}

::testing::Message text_of(const ipc::write_options& writing) {
  return ::testing::Message() << "container " << static_cast<int>(writing.format) << ", compression "
                              << static_cast<int>(writing.body);
}

class whole_read : public folder_test {
protected:
  /// Uses chunks so small that most columns need several.
  void SetUp() override {
    context_ = small_context(shared_device());
    make_folder();
  }
  std::shared_ptr<context> small_context(std::shared_ptr<saeta::backend> on, std::size_t threads = 2) {
    context_options options = support::ring_options(threads, chunk_bytes);
    options.budget = limit;
    return watch(context::create(std::move(on), options));
  }

  /// Reads a file and joins its batches unless the options say otherwise. On a device this is the default.
  [[nodiscard]] table read(ipc::read_options options = {}, const ipc::progress_hook& hook = {}) const {
    options.copy = copy_policy::always;
    if (!options.combine_chunks && ctx()->on_host()) {
      options.combine_chunks = true;
    }
    return ipc::reader::open(file(), std::move(options))->read_all(ctx(), hook);
  }
  [[nodiscard]] traffic sent() const {
    const counter_values now = ctx()->copies().read_counters();
    return ctx()->on_host() ? now.host_to_host : now.host_to_device;
  }
  /// Compares the rows of all columns, regardless of batches.
  static void expect_rows(const table& seen, const table& expected) {
    ASSERT_EQ(seen.fields(), expected.fields());
    ASSERT_EQ(seen.rows(), expected.rows());
    for (std::size_t c = 0; c < expected.column_count(); ++c) {
      SCOPED_TRACE(expected.fields().fields[c].name);
      EXPECT_TRUE(support::cells(seen, c) == support::cells(expected, c));
      const auto count_nulls = [&](const table& of) {
        const auto pieces = of.pieces(c);
        return std::accumulate(
            pieces.begin(), pieces.end(), std::int64_t{0},
            [](std::int64_t sum, const column& piece) { return sum + piece.null_count(); });
      };
      EXPECT_EQ(count_nulls(seen), count_nulls(expected));
    }
  }
  /// Makes a table of arrays with offsets and various null patterns.
  [[nodiscard]] table sliced_table(const std::vector<data_type>& types,
                                   const std::vector<std::int64_t>& rows) const {
    schema fields;
    std::vector<std::vector<support::shared_array>> batches(rows.size());
    constexpr std::array patterns{nulls::some, nulls::absent, nulls::all, nulls::none};
    for (std::size_t c = 0; c < types.size(); ++c) {
      fields.fields.push_back({std::to_string(c), types[c], true, {}});
      for (std::size_t b = 0; b < rows.size(); ++b) {
        const auto offset = static_cast<std::int64_t>((b * 3 + c) % 11);
        batches[b].push_back(random_array(
            types[c], {rows[b], offset, patterns[(b + c) % patterns.size()], true}, b * 100 + c));
      }
    }
    return support::table_of(host_, fields, batches);
  }
  /// Returns the types without dictionaries, because random dictionaries differ from batch to batch.
  static std::vector<data_type> plain_types() {
    std::vector<data_type> types = support::file_types();
    std::erase_if(types, [](const data_type& type) { return type.id() == type_id::dictionary; });
    return types;
  }

  static constexpr std::size_t chunk_bytes = 8192;
  std::shared_ptr<context> host_ = watch(context::create(make_host_backend()));
};

TEST_P(whole_read, reads_streams_without_continuation_markers) {
  std::ofstream(file(), std::ios::binary) << support::from_hex(support::legacy_stream_hex);
  const table seen = read();
  EXPECT_EQ(seen.rows(), 3);
  EXPECT_EQ(support::cells(seen, 1), (std::vector<support::cell>{"one", "", "three"}));

  // The end marker before Arrow 0.15, 4 zero bytes, followed by arbitrary bytes.
  const table original = random_table(host_, plain_types(), {.batch_rows = {20, 7}});
  ipc::write(original, file(), {.format = ipc::container::stream});
  std::filesystem::resize_file(file(), std::filesystem::file_size(file()) - 8);
  std::ofstream(file(), std::ios::binary | std::ios::app) << std::string(4, '\0') << std::string(100, 'U');
  expect_rows(read(), original);
}

TEST_P(whole_read, joins_batches_of_every_type) {
  const std::vector<std::vector<std::int64_t>> shapes{
      {100}, {0}, {70, 33}, {1, 1}, {64, 0, 1, 200, 7, 0, 129}, {0, 0, 3}};
  for (const auto& rows : shapes) {
    const table original = random_table(host_, support::file_types(), {.batch_rows = rows});
    for (const ipc::write_options& writing : writings()) {
      SCOPED_TRACE(text_of(writing));
      SCOPED_TRACE(rows.size());
      ipc::write(original, file(), writing);
      const table seen = read();
      EXPECT_EQ(seen.batches().size(), 1U);
      expect_rows(seen, original);
      EXPECT_TRUE(same_contents(read({.combine_chunks = false}), original));
    }
  }
}

TEST_P(whole_read, counts_nulls_of_every_pattern_in_sliced_arrays) {
  const table original = sliced_table(plain_types(), {65, 7, 0, 1, 64, 131, 40});
  for (const ipc::write_options& writing : writings()) {
    SCOPED_TRACE(text_of(writing));
    ipc::write(original, file(), writing);
    for (const auto check : {validation::full, validation::structure}) {
      expect_rows(read({.check = check}), original);
      EXPECT_TRUE(same_contents(read({.check = check, .combine_chunks = false}), original));
    }
  }
}

TEST_P(whole_read, joins_a_thousand_batches) {
  std::vector<std::int64_t> rows(1000);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i] = static_cast<std::int64_t>(i * 7 % 13);
  }
  const table original =
      sliced_table({data_type(type_id::int64), data_type(type_id::string), data_type(type_id::boolean),
                    data_type::parse("d:10,2"), data_type(type_id::string_view),
                    data_type::nested("+l", {{"item", data_type(type_id::int16), true, {}}})},
                   rows);
  for (const auto body : {ipc::compression::none, ipc::compression::lz4, ipc::compression::zstd}) {
    ipc::write(original, file(), {.body = body});
    const table seen = read();
    ASSERT_EQ(seen.batches().size(), 1U);
    expect_rows(seen, original);
    const table again = read({.combine_chunks = false});
    EXPECT_EQ(again.batches().size(), 1000U);
    expect_rows(again, original);
  }
}

TEST_P(whole_read, is_the_same_with_shared_chunks) {
  const table original = sliced_table(plain_types(), {1000, 7, 0, 1, 64, 3001, 40});
  context_ = small_context(shared_device(), 3);
  for (const ipc::write_options& writing : writings()) {
    SCOPED_TRACE(text_of(writing));
    ipc::write(original, file(), writing);
    expect_rows(read(), original);
    EXPECT_TRUE(same_contents(read({.combine_chunks = false}), original));
  }
}

TEST_P(whole_read, joins_rows_up_to_the_limit_of_16_bit_run_ends) {
  const auto runs = data_type::nested("+r", {{"run_ends", data_type(type_id::int16), false, {}},
                                             {"values", data_type(type_id::int8), true, {}}});
  const table original = random_table(host_, {runs}, {.batch_rows = {20'000, 12'767, 0, 1, 30'000, 2'767}});
  for (const ipc::write_options& writing : {writings().front(), writings().back()}) {
    SCOPED_TRACE(text_of(writing));
    ipc::write(original, file(), writing);
    const table seen = read();
    std::vector<std::int64_t> rows;
    for (const batch& each : seen.batches()) {
      rows.push_back(each.rows);
    }
    EXPECT_EQ(rows, (std::vector<std::int64_t>{32'767, 30'001, 2'767}));
    expect_rows(seen, original);
  }
}

TEST_P(whole_read, takes_one_transfer_into_one_allocation) {
  const table original = random_table(host_, plain_types(), {.batch_rows = {1000, 1, 333, 70}});
  for (const ipc::write_options& writing : writings()) {
    SCOPED_TRACE(text_of(writing));
    ipc::write(original, file(), writing);
    for (const bool joined : {true, false}) {
      ctx()->copies().reset_counters();
      const table seen = read({.combine_chunks = joined});
      EXPECT_EQ(sent().transfers, 1U);
      EXPECT_EQ(ctx()->copies().read_counters().imports, 0U);
      EXPECT_EQ(ctx()->copies().read_counters().device_to_host.transfers, 0U);
      EXPECT_EQ(ctx()->copies().read_counters().device_to_device.transfers, 0U);
      EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
      EXPECT_EQ(ctx()->reports().statistics().ledger.buffers, 1U);
    }
  }
}

/// Without a kernel no steps are uploaded, so exactly the bytes of the columns are transferred.
TEST_P(whole_read, copies_adjacent_columns_together_without_a_kernel) {
  constexpr std::size_t columns = 40;
  constexpr std::int64_t rows = 128; // rows of 4 bytes: no padding, and several columns in a chunk
  schema fields;
  std::vector<std::vector<support::shared_array>> batches(1);
  for (std::size_t c = 0; c < columns; ++c) {
    const data_type type(c % 2 == 0 ? type_id::int32 : type_id::float32);
    fields.fields.push_back({std::to_string(c), type, true, {}});
    batches[0].push_back(random_array(type, {rows, 0, nulls::absent, true}, c));
  }
  const table original = support::table_of(host_, fields, batches);
  ipc::write(original, file());
  ctx()->copies().reset_counters();
  const table seen = read();
  EXPECT_EQ(sent().bytes, columns * rows * 4);
  expect_rows(seen, original);
}

/// Every buffer is padded with zeros to a multiple of 64 bytes, as the Arrow format recommends.
TEST_P(whole_read, pads_buffers_with_zeros) {
  const table original = sliced_table({data_type(type_id::int8), data_type(type_id::string),
                                       data_type(type_id::boolean), data_type(type_id::string_view)},
                                      {65, 7, 1});
  for (const ipc::write_options& writing : writings()) {
    SCOPED_TRACE(text_of(writing));
    ipc::write(original, file(), writing);
    for (const bool joined : {true, false}) {
      fill(make(1 << 16), 0xEE, ctx()->work_stream());
      EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
      const table seen = read({.combine_chunks = joined});
      for (const batch& part : seen.batches()) {
        for (const column& each : part.columns) {
          for (const buffer& used : each.buffers()) {
            const std::size_t end = used.offset() + used.size();
            const std::size_t padding = used.present() ? (end + 63) / 64 * 64 - end : 0;
            if (padding != 0) {
              EXPECT_EQ(context_test::read(buffer(used.owner()).slice(end, padding)),
                        std::vector<std::uint8_t>(padding))
                  << each.type().name();
            }
          }
        }
      }
    }
  }
}

TEST_P(whole_read, uses_the_memory_of_the_table_plus_a_constant) {
  for (const std::size_t batches : {std::size_t{1}, std::size_t{50}, std::size_t{1000}}) {
    const auto rows = static_cast<std::int64_t>(50'000 / batches);
    const table original = random_table(host_, {data_type(type_id::int64), data_type(type_id::string)},
                                        {.batch_rows = std::vector<std::int64_t>(batches, rows)});
    for (const ipc::write_options& writing : writings()) {
      SCOPED_TRACE(text_of(writing) << ", " << batches << " batches");
      ipc::write(original, file(), writing);
      EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
      const budget_window window = ctx()->memory_budget()->open_window();
      const budget_window staged = ctx()->pinned_budget()->open_window();
      const table seen = read();
      const std::uint64_t kept = ctx()->memory_budget()->statistics().current;
      // A landing buffer for each shared chunk, and the steps of the kernels.
      EXPECT_LE(window.read().peak, seen.byte_size() + 12 * chunk_bytes + 160'000);
      EXPECT_LE(kept, window.read().peak);
      // Decoded bytes use only the chunks of the ring, too.
      if (!ctx()->on_host()) {
        EXPECT_LE(staged.read().peak, ctx()->options().staging.pinned_bytes);
      }
    }
  }
}

TEST_P(whole_read, reads_selected_columns_and_batches) {
  const table original = random_table(
      host_, {data_type(type_id::string), data_type(type_id::string_view), data_type(type_id::int8)},
      {.batch_rows = {30, 20, 10, 40}});
  for (const ipc::write_options& writing : writings()) {
    SCOPED_TRACE(text_of(writing));
    ipc::write(original, file(), writing);
    const std::vector<std::string> names{"2:int8", "0:string", "2:int8"};
    const table seen = read({.columns = names, .batches = {{1, 3}}});
    EXPECT_EQ(seen.rows(), 30);
    ASSERT_EQ(seen.column_count(), 3U);
    const table wanted = original.slice(30, 30);
    EXPECT_TRUE(support::cells(seen, 0) == support::cells(wanted, 2));
    EXPECT_TRUE(support::cells(seen, 1) == support::cells(wanted, 0));
    EXPECT_TRUE(support::cells(seen, 2) == support::cells(wanted, 2));
    EXPECT_EQ(read({.columns = std::vector<std::string>{}}).rows(), 100);
    EXPECT_EQ(read({.batches = {{2, 2}}}).rows(), 0);
    if (writing.format == ipc::container::stream) {
      EXPECT_THROW(static_cast<void>(read({.batches = {{1, 5}}})), error);
    }
  }
}

TEST_P(whole_read, reads_the_rest_after_single_batches) {
  const auto type = data_type::dictionary(data_type(type_id::int32), data_type(type_id::string));
  const table original = random_table(host_, {type, data_type(type_id::int64)}, {.batch_rows = {30, 20, 10}});
  for (const ipc::write_options& writing : writings()) {
    SCOPED_TRACE(text_of(writing));
    ipc::write(original, file(), writing);
    const auto reading = ipc::reader::open(file(), {.copy = copy_policy::always});
    EXPECT_EQ(reading->next(ctx())->rows, 30);
    expect_rows(reading->read_all(ctx()), original.slice(30, 30));
    EXPECT_FALSE(reading->next(ctx()).has_value());
    EXPECT_EQ(reading->read_all(ctx()).rows(), 0);
  }
}

TEST_P(whole_read, does_not_join_batches_with_replaced_dictionaries) {
  const auto type = data_type::dictionary(data_type(type_id::int16), data_type(type_id::string));
  const table original = random_table(host_, {type, data_type(type_id::int8)},
                                      {.batch_rows = {50, 60, 70}, .one_dictionary = false});
  for (const auto body : {ipc::compression::none, ipc::compression::lz4, ipc::compression::zstd}) {
    ipc::write(original, file(), {.format = ipc::container::stream, .body = body});
    const table seen = read();
    expect_rows(seen, original);
    EXPECT_TRUE(same_contents(read({.combine_chunks = false}), original));
  }
}

TEST_P(whole_read, shares_a_dictionary_between_separate_batches) {
  const auto type = data_type::dictionary(data_type(type_id::int32), data_type(type_id::string));
  const table original = random_table(host_, {type}, {.batch_rows = {90, 90, 90}});
  ipc::write(original, file());
  const table seen = read({.combine_chunks = false});
  EXPECT_EQ(seen.batches()[0].columns[0].dictionary(), seen.batches()[2].columns[0].dictionary());
  EXPECT_TRUE(same_contents(seen, original));
}

TEST_P(whole_read, can_read_from_bytes) {
  const table original = random_table(host_, support::file_types(), {.batch_rows = {50, 3, 20}});
  for (const ipc::write_options& writing : writings()) {
    SCOPED_TRACE(text_of(writing));
    const std::string bytes = "xyz" + ipc::write_bytes(original, writing); // an unaligned address
    const auto reading =
        ipc::reader::open(std::as_bytes(std::span(bytes)).subspan(3), nullptr, {.copy = copy_policy::always});
    expect_rows(reading->read_all(ctx()), original);
  }
}

TEST_P(whole_read, reports_progress_in_batches_rows_and_bytes) {
  const table original =
      random_table(host_, {data_type(type_id::int64)}, {.batch_rows = std::vector<std::int64_t>(40, 1000)});
  for (const auto body : {ipc::compression::none, ipc::compression::zstd}) {
    ipc::write(original, file(), {.body = body});
    std::vector<ipc::progress> heard;
    static_cast<void>(read({}, [&](const ipc::progress& so_far) { heard.push_back(so_far); }));
    ASSERT_FALSE(heard.empty());
    EXPECT_EQ(heard.back().batches, 40);
    EXPECT_EQ(heard.back().total_batches, 40);
    EXPECT_EQ(heard.back().rows, 40'000);
    EXPECT_TRUE(std::ranges::is_sorted(heard, {}, &ipc::progress::bytes));
    EXPECT_TRUE(std::ranges::is_sorted(heard, {}, &ipc::progress::rows));
    for (std::size_t call = 0; call + 1 < heard.size(); ++call) {
      std::size_t calls = 0;
      const auto stop = [&](const ipc::progress&) {
        if (calls++ == call) {
          throw std::runtime_error("stop");
        }
      };
      bool stopped = false;
      try {
        static_cast<void>(read({}, stop));
      } catch (const std::runtime_error&) {
        stopped = true;
      }
      EXPECT_EQ(stopped, calls > call) << "how often it tells is a matter of time";
      EXPECT_TRUE(stopped || call != 0) << "never told";
      EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
      EXPECT_EQ(ctx()->reports().statistics().budget.current, 0U);
    }
  }
}

TEST_P(whole_read, can_be_repeated_after_a_budget_refusal) {
  const table original = random_table(host_, plain_types(), {.batch_rows = {200, 100}});
  ipc::write(original, file());
  const auto reading = ipc::reader::open(file(), {.copy = copy_policy::always});
  ctx()->memory_budget()->set_limit(1000);
  EXPECT_THROW(static_cast<void>(reading->read_all(ctx())), error);
  EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
  EXPECT_EQ(ctx()->reports().statistics().budget.current, 0U);
  ctx()->memory_budget()->set_limit(limit);
  expect_rows(reading->read_all(ctx()), original);
}

TEST_P(whole_read, leaks_nothing_if_any_call_fails) {
  const auto faulty = std::make_shared<saeta::testing::faulty_backend>(shared_device());
  const table original = random_table(
      host_, {data_type(type_id::int64), data_type(type_id::string), data_type(type_id::string_view)},
      {.batch_rows = {300, 200}});
  const report_sink before = set_report_sink([](std::string_view, std::string_view) noexcept {});
  for (const auto body : {ipc::compression::none, ipc::compression::lz4, ipc::compression::zstd}) {
    ipc::write(original, file(), {.body = body});
    const auto ctx = small_context(faulty, 1);
    const auto read_all = [&] {
      return ipc::reader::open(file(), {.copy = copy_policy::always})->read_all(ctx);
    };
    saeta::testing::fail_each_call(*faulty, read_all, [&] {
      EXPECT_TRUE(ctx->wait_for_releases(std::chrono::seconds(20)));
      EXPECT_EQ(ctx->reports().statistics().ledger.buffers, 0U);
      expect_rows(read_all(), original);
    });
  }
  set_report_sink(before);
}

/// Damaged values that the reader does not check on the host must be found by checks on the device.
TEST_P(whole_read, of_damaged_bytes_is_an_error_or_other_values) {
  constexpr std::size_t changes = 40;
  const table original = random_table(host_, support::file_types(), {.batch_rows = {9, 40, 0, 5}});
  std::mt19937_64 random(17);
  for (const ipc::write_options& writing : writings()) {
    SCOPED_TRACE(text_of(writing));
    const std::string bytes = ipc::write_bytes(original, writing);
    std::size_t errors = 0;
    for (std::size_t i = 0; i < changes; ++i) {
      std::string damaged = bytes;
      const std::size_t place = random() % damaged.size();
      if (i % 2 == 0) {
        damaged[place] = static_cast<char>(random());
      } else {
        const std::int64_t number =
            std::array<std::int64_t, 4>{-1, std::int64_t{1} << 40, INT64_MAX, INT64_MIN}[random() % 4];
        std::memcpy(damaged.data() + std::min(place / 8 * 8, damaged.size() - 8), &number, sizeof number);
      }
      SCOPED_TRACE(place);
      try {
        const auto reading = ipc::reader::open(std::as_bytes(std::span(damaged)), nullptr,
                                               {.copy = copy_policy::always, .combine_chunks = i % 3 != 0});
        const table read = reading->read_all(ctx());
        if (read.rows() < 1000) { // a null column can have any number of rows
          for (std::size_t c = 0; c < read.column_count(); ++c) {
            support::cells(read, c);
          }
        }
      } catch (const error& failure) {
        ++errors;
        EXPECT_THAT(failure.code(), ::testing::AnyOf(errc::format, errc::unsupported, errc::overflow,
                                                     errc::budget_exceeded, errc::out_of_memory))
            << failure.message();
      }
      EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
      EXPECT_EQ(ctx()->reports().statistics().ledger.buffers, 0U);
    }
    EXPECT_GT(errors, 0U);
  }
}

TEST_P(whole_read, of_a_file_that_shrinks_is_an_error) {
  const table original = random_table(host_, {data_type(type_id::int64)},
                                      {.batch_rows = std::vector<std::int64_t>(100, 40'000)});
  for (const ipc::write_options& writing : writings()) {
    SCOPED_TRACE(text_of(writing));
    for (const std::uint64_t left : {std::uint64_t{20'000}, std::uint64_t{0}}) {
      ipc::write(original, file(), writing);
      const auto reading = ipc::reader::open(file(), {.copy = copy_policy::always});
      // Truncates the file after the reader has begun. There are more batches than it reads at once.
      bool cut = false;
      try {
        static_cast<void>(reading->read_all(ctx(), [&](const ipc::progress&) {
          if (!std::exchange(cut, true)) {
            std::filesystem::resize_file(file(), left);
          }
        }));
        ADD_FAILURE() << "a file that was cut off was read";
      } catch (const error& failure) {
        EXPECT_EQ(name_of(failure.code()), name_of(errc::io)) << failure.message();
      }
      EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
      EXPECT_EQ(ctx()->reports().statistics().budget.current, 0U);
    }
  }
}

SAETA_CONFORMANCE_SUITE(whole_read);

} // namespace
} // namespace saeta::conformance
