// Tables whose row count is in device memory.

#include "conformance/harness/context_test.hpp"
#include "saeta/column/table.hpp"
#include "saeta/interop/arrow/c_data.hpp"
#include "saeta/interop/arrow/owned.hpp"
#include "saeta/transfer/upload.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

namespace saeta::conformance {
namespace {

class counted_tables : public context_test {
protected:
  template <class T>
  [[nodiscard]] column made_of(const std::vector<T>& values) const {
    const host_values given = values_of("x", std::span<const T>(values));
    return table_of_values(ctx(), {&given, 1}).batches()[0].columns[0];
  }
  /// Returns a table with a capacity of eight rows.
  [[nodiscard]] table room() const {
    const std::vector<std::int32_t> values{1, 2, 3, 4, 5, 6, 7, 8};
    const host_values given = values_of("x", std::span<const std::int32_t>(values));
    return table_of_values(ctx(), {&given, 1});
  }
  template <class T>
  [[nodiscard]] counted_table counted(T rows) const {
    return counted_table::make(room(), made_of(std::vector<T>{rows}));
  }
  static void expect_error(const std::function<void()>& action, errc code, const std::string& said) {
    try {
      action();
      ADD_FAILURE() << "taken; expected: " << said;
    } catch (const error& refused) {
      EXPECT_EQ(refused.code(), code);
      EXPECT_THAT(refused.message(), ::testing::HasSubstr(said));
    }
  }
  template <class T>
  void expect_no_room(T rows, const std::string& said) const {
    const counted_table made = counted(rows);
    for (int round = 0; round < 2; ++round) {
      expect_error([&] { static_cast<void>(made.rows()); }, errc::out_of_range,
                   "the row count is " + said + ", the table has room for 8 rows");
      EXPECT_FALSE(made.known_rows()) << "a wrong count is not kept";
    }
    expect_error([&] { static_cast<void>(made.rows_of_table()); }, errc::out_of_range, said);
  }
};

TEST_P(counted_tables, read_their_count_once) {
  const counted_table made = counted(std::uint32_t{5});
  const counted_table copy =
      made; // NOLINT(performance-unnecessary-copy-initialization): copies share the count
  ctx()->copies().reset_counters();
  EXPECT_FALSE(made.known_rows());
  EXPECT_EQ(made.capacity().rows(), 8);
  EXPECT_EQ(ctx()->copies().read_counters().scalars, traffic{});
  EXPECT_EQ(made.rows(), 5);
  EXPECT_EQ(copy.rows(), 5);
  EXPECT_EQ(copy.known_rows(), 5);
  const counter_values now = ctx()->copies().read_counters();
  EXPECT_EQ(now.scalars, (traffic{1, 1, 4}));
  EXPECT_EQ(now.device_to_host, traffic{});
}

TEST_P(counted_tables, accept_counts_of_32_and_64_bit_integers) {
  EXPECT_EQ(counted(std::uint32_t{8}).rows(), 8);
  EXPECT_EQ(counted(std::uint64_t{0}).rows(), 0);
  EXPECT_EQ(counted(std::int32_t{1}).rows(), 1);
  EXPECT_EQ(counted(std::int64_t{7}).rows(), 7);
  const column counts = made_of(std::vector<std::uint64_t>{9, 9, 9, 3, 9});
  EXPECT_EQ(counted_table::make(room(), counts.slice(3, 1)).rows(), 3) << "the offset counts";
}

TEST_P(counted_tables, have_no_more_rows_than_capacity) {
  expect_no_room(std::uint32_t{9}, "9");
  expect_no_room(std::numeric_limits<std::uint32_t>::max(), "4294967295");
  expect_no_room(std::numeric_limits<std::uint64_t>::max(), "18446744073709551615");
  expect_no_room(std::int32_t{-1}, "-1");
  expect_no_room(std::numeric_limits<std::int64_t>::min(), "-9223372036854775808");
}

TEST_P(counted_tables, contain_only_the_counted_rows) {
  const counted_table made = counted(std::uint32_t{3});
  const table valid = made.rows_of_table();
  EXPECT_EQ(valid.rows(), 3);
  EXPECT_EQ(valid.batches()[0].columns[0].values().address(),
            made.capacity().batches()[0].columns[0].values().address());
  arrow_array given = export_column(valid.batches()[0].columns[0]);
  EXPECT_EQ(given.get().length, 3);
}

TEST_P(counted_tables, use_the_last_write_to_the_count) {
  const column count = made_of(std::vector<std::uint32_t>{0});
  const counted_table made = counted_table::make(room(), count);
  const buffer& target = count.values();
  const stream_lease other = ctx()->borrow_stream();
  const std::unique_ptr<gate> held = close_gate(other.ref().native_handle());
  {
    use_token token(other.ref(), {writes(target)});
    // Changes the count to 4 by its lowest byte.
    ctx()->copies().fill(token.span<std::uint8_t>(target).data(), 4, 1, other.ref());
  }
  open_while_the_host_waits(held, [&] { EXPECT_EQ(made.rows(), 4); });
}

TEST_P(counted_tables, accept_a_count_known_to_the_host) {
  ctx()->copies().reset_counters();
  const counted_table made = counted_table::make(room(), made_of(std::vector<std::uint32_t>{7}), 6);
  EXPECT_EQ(made.known_rows(), 6);
  EXPECT_EQ(made.rows_of_table().rows(), 6);
  EXPECT_EQ(ctx()->copies().read_counters().scalars, traffic{});
  expect_error(
      [&] { static_cast<void>(counted_table::make(room(), made_of(std::vector<std::uint32_t>{7}), 9)); },
      errc::out_of_range, "the row count is 9, the table has room for 8 rows");
  expect_error(
      [&] { static_cast<void>(counted_table::make(room(), made_of(std::vector<std::uint32_t>{7}), -2)); },
      errc::out_of_range, "the row count is -2,");
}

TEST_P(counted_tables, refuse_invalid_counts) {
  expect_error([&] { static_cast<void>(counted_table::make(room(), made_of(std::vector<double>{1}))); },
               errc::type_mismatch,
               "the row count is of type double, expected uint32, uint64, int32 or int64");
  expect_error(
      [&] { static_cast<void>(counted_table::make(room(), made_of(std::vector<std::uint16_t>{1}))); },
      errc::type_mismatch, "uint16");
  expect_error(
      [&] {
        static_cast<void>(counted_table::make(room(), made_of(std::vector<std::uint32_t>{1, 2})));
      },
      errc::invalid_argument, "a row count is one number, not 2 rows with 0 nulls");
  expect_error([&] { static_cast<void>(counted_table::make(room(), made_of(std::vector<std::uint32_t>{}))); },
               errc::invalid_argument, "not 0 rows");
}

TEST_P(counted_tables, require_table_and_count_in_one_context) {
  const std::shared_ptr<context> other = new_context();
  const std::vector<std::uint32_t> one{1};
  const host_values given = values_of("n", std::span<const std::uint32_t>(one));
  const column elsewhere = table_of_values(other, {&given, 1}).batches()[0].columns[0];
  expect_error([&] { static_cast<void>(counted_table::make(room(), elsewhere)); }, errc::invalid_argument,
               "another context");
}

SAETA_CONFORMANCE_SUITE(counted_tables);

} // namespace
} // namespace saeta::conformance
