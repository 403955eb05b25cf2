// The writer that writes a file table by table: from every device, with pending work, and with failing calls.
#include "conformance/ipc/write_test.hpp"

#include <filesystem>
#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace saeta::conformance {
namespace {

using support::same_contents;

class table_writer : public write_test {
protected:
  [[nodiscard]] table original_of(const std::vector<data_type>& types, std::vector<std::int64_t> rows) const {
    return support::random_table(host_, types, {.batch_rows = std::move(rows)});
  }
  /// Writes each batch as a separate table. Returns the bytes.
  static std::uint64_t write_each(const table& source, ipc::writer& to) {
    for (const batch& each : source.batches()) {
      to.write(table::make(source.ctx(), source.fields(), {each}));
    }
    return to.close();
  }
  /// Makes a table of 64 bytes that a pending fill on a stream sets to `value`.
  [[nodiscard]] table pending(std::uint8_t value, stream_ref on) const {
    const buffer bytes = make(64);
    fill(bytes, value, on);
    const data_type type(type_id::uint8);
    const column made = column::make(
        ctx(), {.type = type, .length = 64, .offset = 0, .null_count = 0, .buffers = {{}, bytes}});
    return table::make(ctx(), {{{"x", type, true, {}}}, {}}, {{64, {made}}});
  }
};

TEST_P(table_writer, of_every_type_keeps_the_rows_of_large_and_small_batches) {
  const table original = original_of(support::file_types(), {3, 900, 0, 1, 700});
  const table here = there(ctx(), original);
  for (const auto format : {ipc::container::file, ipc::container::stream}) {
    for (const auto body : bodies) {
      ipc::writer to(file(), original.fields(), options(body, format));
      const auto written = write_each(here, to);
      EXPECT_EQ(written, std::filesystem::file_size(file()));
      EXPECT_TRUE(same_contents(read(), original));
    }
  }
}

TEST_P(table_writer, takes_one_transfer_for_small_tables_that_wait) {
  /// Writes a table, and five that wait until it is written. Returns the transfers.
  const auto transfers_of = [&](const data_type& type, std::int64_t rows, ipc::compression body) {
    const table source = there(ctx(), original_of({type}, {rows}));
    std::promise<void> begun;
    std::promise<void> may_go_on;
    bool first = true;
    ctx()->copies().reset_counters();
    ipc::writer to(file(), std::nullopt, options(body), [&](const ipc::progress&) {
      if (std::exchange(first, false)) {
        begun.set_value();
        may_go_on.get_future().wait();
      }
    });
    to.write(source);
    begun.get_future().wait();
    for (int i = 0; i < 5; ++i) {
      to.write(source);
    }
    may_go_on.set_value();
    to.close();
    const auto transfers = ctx()->copies().read_counters().device_to_host.transfers;
    const table seen = read();
    EXPECT_EQ(seen.batches().size(), 6U);
    for (std::int64_t i = 0; i < 6; ++i) {
      EXPECT_TRUE(same_contents(seen.slice(i * rows, rows), original_of({type}, {rows})));
    }
    return transfers;
  };
  const data_type number(type_id::int64);
  const std::uint64_t few = transfers_of(number, 60, ipc::compression::none);
  const std::uint64_t pairs = transfers_of(number, 200, ipc::compression::none);
  const std::uint64_t compressed = transfers_of(number, 60, ipc::compression::lz4);
  const auto words = data_type::dictionary(data_type(type_id::int32), data_type(type_id::string));
  const std::uint64_t encoded = transfers_of(words, 60, ipc::compression::none);
  if (!ctx()->on_host()) {
    EXPECT_EQ(few, 2U);
    EXPECT_EQ(pairs, 4U) << "two tables fit into a window of 4096 bytes";
    EXPECT_EQ(compressed, 6U) << "nothing is gained";
    EXPECT_EQ(encoded, 7U) << "each table may have another dictionary";
  }
}

TEST_P(table_writer, takes_tables_of_several_contexts) {
  const table original = original_of({data_type(type_id::int64), data_type(type_id::string)}, {50});
  ipc::writer to(file(), std::nullopt, options(ipc::compression::lz4));
  to.write(original);
  to.write(there(ctx(), original));
  to.write(original);
  to.close();
  const table seen = read();
  for (const std::int64_t first : {0, 50, 100}) {
    EXPECT_TRUE(same_contents(seen.slice(first, 50), original));
  }
}

TEST_P(table_writer, waits_for_pending_work_in_the_background) {
  constexpr std::uint8_t tables = 10;
  std::vector<table> rows;
  const stream side(shared_device());
  ipc::write_options joined = options(ipc::compression::none);
  joined.window_bytes = 1 << 20;
  for (std::uint8_t i = 0; i < tables; ++i) {
    rows.push_back(pending(0, side.ref()));
  }
  { // allocates the chunks of the ring in advance
    ipc::writer to(file(), std::nullopt, joined);
    to.write(rows.front());
    to.close();
  }
  ctx()->copies().reset_counters();
  ipc::writer to(file(), std::nullopt, joined);
  {
    const auto held = close_gate(side.ref().native_handle());
    for (std::uint8_t i = 0; i < tables; ++i) {
      fill(rows[i].batches().front().columns.front().buffers()[1], i, side.ref());
      to.write(rows[i]);
    }
    rows.clear();
    if (held) {
      held->open();
    }
  }
  to.close();
  const table seen = read();
  for (std::uint8_t i = 0; i < tables; ++i) {
    const auto cells = support::cells(seen.slice(i * 64, 64), 0);
    EXPECT_EQ(cells, std::vector<support::cell>(64, std::string(1, static_cast<char>(i)))) << int{i};
  }
  if (!ctx()->on_host()) {
    EXPECT_EQ(ctx()->copies().read_counters().device_to_host.bytes, tables * 64U);
  }
}

TEST_P(table_writer, leaks_nothing_if_any_call_fails) {
  const table original = original_of({data_type(type_id::int64), data_type(type_id::string)}, {1000, 3, 700});
  fail_each_call(original, 20, [&](const table& here, ipc::compression body) {
    ipc::writer to(file(), std::nullopt, options(body));
    write_each(here, to);
  });
}

SAETA_CONFORMANCE_SUITE(table_writer);

} // namespace
} // namespace saeta::conformance
