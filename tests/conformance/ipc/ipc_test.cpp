// Reading files into device memory and writing them, on every backend.

#include "conformance/harness/folder_test.hpp"
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/base/error.hpp"
#include "saeta/ipc/reader.hpp"
#include "saeta/ipc/writer.hpp"
#include "saeta/symbols/symbols.hpp"
#include "support/symbols.hpp"
#include "support/tables.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>

namespace saeta::conformance {
namespace {

using support::random_table;
using support::same_contents;

constexpr std::array bodies{ipc::compression::none, ipc::compression::lz4, ipc::compression::zstd};
constexpr std::array containers{ipc::container::file, ipc::container::stream};

class ipc_trip : public folder_test {
protected:
  /// Reads a file into memory of the context, which on the host requires to request a copy. Does not join
  /// batches; whole_read_test.cpp tests that.
  [[nodiscard]] table read(ipc::read_options options = {}) const {
    options.copy = copy_policy::always;
    options.combine_chunks = false;
    return ipc::reader::open(file(), std::move(options))->read_all(ctx());
  }
  [[nodiscard]] traffic sent() const {
    const counter_values now = ctx()->copies().read_counters();
    return ctx()->on_host() ? now.host_to_host : now.host_to_device;
  }

  static std::vector<data_type> plain_types() {
    std::vector<data_type> types = support::file_types();
    std::erase_if(types, [](const data_type& type) { return type.id() == type_id::dictionary; });
    return types;
  }

  /// A host context to make and compare tables.
  std::shared_ptr<context> host_ = watch(context::create(make_host_backend()));
};

TEST_P(ipc_trip, an_uncompressed_body_is_uploaded_unchanged) {
  const table original = random_table(host_, plain_types(), {.batch_rows = {20'000}});
  ipc::write(original, file());
  ctx()->copies().reset_counters();
  const table seen = read();
  const auto size = std::filesystem::file_size(file());
  EXPECT_LE(sent().bytes, size);
  EXPECT_GT(sent().bytes, size - size / 10);
}

TEST_P(ipc_trip, every_type_round_trips_in_every_container_and_compression) {
  const table original = random_table(host_, support::file_types(), {});
  for (const auto format : containers) {
    for (const auto body : bodies) {
      ipc::write(original, file(), {.format = format, .body = body});
      EXPECT_TRUE(same_contents(read(), original));
    }
  }
}

TEST_P(ipc_trip, symbols_round_trip_with_their_names) {
  const table strings = random_table(host_, {data_type(type_id::string), data_type(type_id::int64)},
                                     {.batch_rows = {90, 0, 7}});
  const auto names = symbol_table::make();
  const table symbols = support::with_symbols(strings, names);
  for (const auto format : containers) {
    ipc::write(symbols, file(), {.format = format});
    const table seen = read();
    EXPECT_TRUE(seen.fields().fields[0].type.is_symbol());
    for (std::size_t b = 0; b < strings.batches().size(); ++b) {
      const auto& [rows, columns] = seen.batches()[b];
      const auto& expected = strings.batches()[b].columns;
      EXPECT_EQ(support::names_of(columns[0]), support::cells(expected[0]));
      EXPECT_EQ(support::cells(columns[1]), support::cells(expected[1]));
    }
  }
}

TEST_P(ipc_trip, a_dictionary_is_uploaded_once_for_all_batches) {
  const auto type = data_type::dictionary(data_type(type_id::int32), data_type(type_id::string));
  const table original = random_table(host_, {type, data_type(type_id::int64)}, {.batch_rows = {90, 90, 90}});
  ipc::write(original, file());
  ctx()->copies().reset_counters();
  const table seen = read();
  EXPECT_EQ(sent().transfers, 1U) << "three batches and their dictionary";
  EXPECT_EQ(seen.batches()[0].columns[0].dictionary(), seen.batches()[2].columns[0].dictionary());
  EXPECT_TRUE(same_contents(seen, original));
}

TEST_P(ipc_trip, a_selection_uploads_only_its_columns) {
  const table original =
      random_table(host_, {data_type(type_id::string), data_type(type_id::int64), data_type(type_id::int8)},
                   {.batch_rows = {9000}});
  ipc::write(original, file());
  ctx()->copies().reset_counters();
  const table seen = read({.columns = {{"2:int8"}}});
  EXPECT_EQ(sent().transfers, 1U);
  EXPECT_LT(sent().bytes, 12'000U);
  EXPECT_EQ(support::cells(seen, 0), support::cells(original, 2));
}

TEST_P(ipc_trip, a_table_of_the_context_can_be_written) {
  const table original = random_table(host_, support::file_types(), {});
  ipc::write(original, file());
  const table here = read();
  for (const auto format : containers) {
    for (const auto body : bodies) {
      ipc::write(here, file(), {.format = format, .body = body});
      EXPECT_TRUE(same_contents(read(), original));
    }
  }
  const table window = here.slice(7, 240);
  ipc::write(window, file(), {.format = ipc::container::stream});
  EXPECT_TRUE(same_contents(read(), original.slice(7, 240)));
}

TEST_P(ipc_trip, writing_takes_one_transfer_for_each_window_and_dictionary) {
  const auto type = data_type::dictionary(data_type(type_id::int32), data_type(type_id::string));
  ipc::write(random_table(host_, {type, data_type(type_id::int64)}, {.batch_rows = {90, 90, 90}}), file());
  const table here = read();
  ctx()->copies().reset_counters();
  ipc::write(here, file());
  const counter_values now = ctx()->copies().read_counters();
  EXPECT_EQ(now.device_to_host.transfers, ctx()->on_host() ? 0U : 2U);
  EXPECT_EQ(now.host_to_host.transfers, 0U);
}

TEST_P(ipc_trip, a_dictionary_inside_of_another_type_is_written_in_the_transfer_of_its_rows) {
  const auto words = data_type::dictionary(data_type(type_id::int32), data_type(type_id::string));
  const table original =
      random_table(host_, {data_type::nested("+s", {{"words", words, true, {}}})}, {.batch_rows = {90}});
  ipc::write(original, file());
  const table here = read();
  for (const auto format : {ipc::container::stream, ipc::container::file}) {
    ctx()->copies().reset_counters();
    ipc::write(here, file(), {.format = format});
    EXPECT_EQ(ctx()->copies().read_counters().device_to_host.transfers, ctx()->on_host() ? 0U : 1U);
    EXPECT_TRUE(same_contents(read(), original));
  }
}

TEST_P(ipc_trip, only_a_device_is_downloaded_to_write_a_batch_larger_than_a_window) {
  const table original = random_table(host_, {data_type(type_id::int64)}, {.batch_rows = {3000}});
  ipc::write(original, file());
  const table here = read();
  for (const auto body : bodies) {
    ctx()->copies().reset_counters();
    ipc::write(here, file(), {.body = body, .window_bytes = 8192, .batch_rows = 3000});
    const counter_values now = ctx()->copies().read_counters();
    EXPECT_EQ(now.host_to_host.transfers, 0U);
    EXPECT_EQ(now.device_to_host.transfers, ctx()->on_host() ? 0U : 3U) << "24 kB in windows of 8 KiB";
    EXPECT_TRUE(same_contents(read(), original));
  }
}

TEST_P(ipc_trip, different_dictionaries_are_united_in_a_file) {
  const auto type = data_type::dictionary(data_type(type_id::int16), data_type(type_id::string));
  const table original = random_table(host_, {type}, {.batch_rows = {50, 60, 70}, .one_dictionary = false});
  ipc::write(original, file(), {.format = ipc::container::stream});
  const table here = read();
  EXPECT_TRUE(same_contents(here, original));
  ipc::write(here, file());
  const table united = read();
  EXPECT_TRUE(same_contents(united, original));
  EXPECT_EQ(united.batches()[0].columns[0].dictionary(), united.batches()[2].columns[0].dictionary());
}

TEST_P(ipc_trip, a_budget_refusal_leaves_no_live_memory) {
  const table original = random_table(host_, plain_types(), {.batch_rows = {1000, 1000, 1000}});
  for (const auto body : bodies) {
    ipc::write(original, file(), {.body = body});
    const auto bytes = original.byte_size();
    ctx()->memory_budget()->set_limit(bytes / 2);
    try {
      static_cast<void>(read());
      ADD_FAILURE() << bytes << " bytes went into a budget of " << bytes / 2;
    } catch (const error& refused) {
      EXPECT_EQ(name_of(refused.code()), name_of(errc::budget_exceeded)) << refused.what();
      ASSERT_NE(refused.refusal(), nullptr);
      EXPECT_EQ(refused.refusal()->limit, bytes / 2);
      EXPECT_EQ(refused.refusal()->current, 0U) << "all at once";
    }
    EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
    EXPECT_EQ(ctx()->reports().statistics().budget.current, 0U);
    EXPECT_EQ(ctx()->reports().statistics().ledger.buffers, 0U);
    ctx()->memory_budget()->set_limit(limit);
    EXPECT_TRUE(same_contents(read(), original));
  }
}

TEST_P(ipc_trip, a_device_can_not_read_a_file_if_copies_are_forbidden) {
  if (ctx()->on_host()) {
    GTEST_SKIP() << "the host views a file without a copy";
  }
  ipc::write(random_table(host_, {data_type(type_id::int64)}, {}), file());
  try {
    static_cast<void>(ipc::reader::open(file(), {.copy = copy_policy::never})->read_all(ctx()));
    ADD_FAILURE() << "read without a copy";
  } catch (const error& refused) {
    EXPECT_EQ(name_of(refused.code()), name_of(errc::exchange)) << refused.what();
  }
}

TEST_P(ipc_trip, damaged_bodies_leave_no_live_memory) {
  const table original = random_table(host_, support::file_types(), {.batch_rows = {30, 30}});
  for (const auto body : bodies) {
    const std::string whole = ipc::write_bytes(original, {.format = ipc::container::stream, .body = body});
    const auto cut = std::as_bytes(std::span(whole)).first(whole.size() - 100);
    EXPECT_THROW(static_cast<void>(ipc::reader::open(cut, nullptr)->read_all(ctx())), error);
    EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
    EXPECT_EQ(ctx()->reports().statistics().ledger.buffers, 0U);
  }
}

SAETA_CONFORMANCE_SUITE(ipc_trip);

} // namespace
} // namespace saeta::conformance
