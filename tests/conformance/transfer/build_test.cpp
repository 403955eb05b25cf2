// Building tables from values in host memory.

#include "conformance/harness/context_test.hpp"
#include "saeta/transfer/upload.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <limits>

namespace saeta::conformance {
namespace {

class building : public context_test {
protected:
  template <class T>
  [[nodiscard]] std::vector<T> values_in(const column& from) const {
    const std::vector<std::uint8_t> bytes = read(from.values());
    std::vector<T> values(static_cast<std::size_t>(from.length()));
    // memcpy does not allow the null pointer of an empty vector.
    if (!values.empty()) {
      std::memcpy(values.data(), bytes.data() + static_cast<std::size_t>(from.offset()) * sizeof(T),
                  values.size() * sizeof(T));
    }
    return values;
  }
  template <class T>
  void expect_column(type_id id, const std::vector<T>& values) const {
    const host_values given = values_of("x", std::span<const T>(values));
    const table made = table_of_values(ctx(), {&given, 1});
    ASSERT_EQ(made.rows(), static_cast<std::int64_t>(values.size()));
    const column& only = made.batches()[0].columns[0];
    EXPECT_EQ(only.type(), data_type(id));
    EXPECT_FALSE(made.fields().fields[0].nullable);
    EXPECT_EQ(only.null_count(), 0);
    EXPECT_FALSE(only.validity().present());
    EXPECT_EQ(values_in<T>(only), values);
  }
  void expect_refused(const std::vector<host_values>& given, errc code, const std::string& said) const {
    const std::uint64_t before = ctx()->reports().statistics().budget.current;
    try {
      static_cast<void>(table_of_values(ctx(), given));
      ADD_FAILURE() << "taken; expected: " << said;
    } catch (const error& refused) {
      EXPECT_EQ(refused.code(), code);
      EXPECT_THAT(refused.message(), ::testing::HasSubstr(said));
    }
    EXPECT_EQ(ctx()->reports().statistics().budget.current, before);
  }
  static host_values raw(std::string name, data_type type, std::span<const std::byte> bytes) {
    return {{std::move(name), std::move(type), true, {}}, bytes};
  }
};

TEST_P(building, accepts_spans_of_every_number_type) {
  expect_column<std::int8_t>(type_id::int8, {-128, 0, 127});
  expect_column<std::uint8_t>(type_id::uint8, {0, 255});
  expect_column<std::int16_t>(type_id::int16, {-32768, 32767});
  expect_column<std::uint16_t>(type_id::uint16, {65535});
  expect_column<std::int32_t>(type_id::int32, {std::numeric_limits<std::int32_t>::min(), 7});
  expect_column<std::uint32_t>(type_id::uint32, {std::numeric_limits<std::uint32_t>::max(), 7});
  expect_column<std::int64_t>(type_id::int64, {std::numeric_limits<std::int64_t>::min(), 7});
  expect_column<std::uint64_t>(type_id::uint64, {std::numeric_limits<std::uint64_t>::max()});
  expect_column<float>(type_id::float32, {0.5F, -0.0F});
  expect_column<double>(type_id::float64, {0.1, 2});
  expect_column<double>(type_id::float64, {});
}

TEST_P(building, accepts_bools_of_one_byte) {
  const std::array<bool, 3> values{true, false, true};
  const host_values given = values_of("x", std::span<const bool>(values));
  const table made = table_of_values(ctx(), {&given, 1});
  EXPECT_EQ(made.fields().fields[0].type, data_type::byte_bool());
  EXPECT_EQ(values_in<std::uint8_t>(made.batches()[0].columns[0]), (std::vector<std::uint8_t>{1, 0, 1}));
}

TEST_P(building, takes_one_transfer_for_each_table) {
  const std::vector<std::uint32_t> numbers(1000, 7);
  const std::vector<double> others(1000, 0.5);
  const std::vector<host_values> given{values_of("a", std::span<const std::uint32_t>(numbers)),
                                       values_of("b", std::span<const double>(others)),
                                       values_of("", std::span<const std::uint32_t>(numbers))};
  ctx()->copies().reset_counters();
  const table made = table_of_values(ctx(), given);
  const counter_values now = ctx()->copies().read_counters();
  EXPECT_EQ((ctx()->on_host() ? now.host_to_host : now.host_to_device).transfers, 1U);
  EXPECT_EQ(made.rows(), 1000);
  EXPECT_EQ(made.batches().size(), 1U);
  EXPECT_EQ(made.fields().fields[2].name, "");
  EXPECT_EQ(values_in<double>(made.batches()[0].columns[1]), others);
  EXPECT_EQ(values_in<std::uint32_t>(made.batches()[0].columns[2]), numbers);
}

TEST_P(building, does_not_refer_to_the_values_afterwards) {
  std::vector<std::uint32_t> numbers{1, 2, 3};
  const host_values given = values_of("a", std::span<const std::uint32_t>(numbers));
  const table made = table_of_values(ctx(), {&given, 1});
  std::ranges::fill(numbers, 9U);
  EXPECT_EQ(values_in<std::uint32_t>(made.batches()[0].columns[0]), (std::vector<std::uint32_t>{1, 2, 3}));
}

TEST_P(building, accepts_raw_bytes_of_every_type_with_whole_bytes) {
  const std::vector<std::byte> bytes(96, std::byte{1});
  const std::vector<host_values> given{raw("decimal", data_type::parse("d:10,2,128"), bytes),
                                       raw("id", data_type::parse("w:16"), bytes),
                                       raw("interval", data_type::parse("tin"), bytes)};
  const table made = table_of_values(ctx(), given);
  EXPECT_EQ(made.rows(), 6);
  const std::vector<host_values> times{raw("time", data_type::parse("tsu:UTC"), bytes)};
  EXPECT_EQ(table_of_values(ctx(), times).rows(), 12);
}

TEST_P(building, is_charged_under_the_given_tag) {
  const std::vector<std::byte> bytes(64);
  const host_values given = raw("a", data_type(type_id::int64), bytes);
  const table made = table_of_values(ctx(), {&given, 1}, "mine");
  EXPECT_EQ(ctx()->reports().live_by_tag().front().first, "mine");
}

TEST_P(building, without_columns_has_no_rows) { EXPECT_EQ(table_of_values(ctx(), {}).rows(), 0); }

TEST_P(building, refuses_a_partial_value_with_the_column) {
  const std::vector<std::byte> bytes(10);
  expect_refused({raw("a", data_type(type_id::int16), bytes), raw("b", data_type(type_id::int64), bytes)},
                 errc::invalid_argument,
                 "column 'b': 10 bytes are not a whole number of int64 values, expected a multiple of 8");
}

TEST_P(building, refuses_columns_of_different_lengths) {
  const std::vector<std::byte> bytes(16);
  expect_refused({raw("a", data_type(type_id::int32), bytes), raw("b", data_type(type_id::int64), bytes)},
                 errc::invalid_argument, "column 'b' has 2 rows, expected 4 as column 'a'");
}

TEST_P(building, refuses_types_whose_row_count_is_unknown) {
  const std::vector<std::byte> bytes(16);
  expect_refused(
      {raw("a", data_type(type_id::boolean), bytes)}, errc::unsupported,
      "column 'a': raw values of type bool are not supported, expected a type of whole bytes per value,"
      " for bools bool8");
  for (const data_type& type : {data_type(type_id::string), data_type(), data_type::parse("w:0"),
                                data_type::dictionary(data_type(type_id::int32), data_type(type_id::string)),
                                data_type::nested("+l", {{"item", data_type(type_id::int32), true, {}}})}) {
    expect_refused({raw("a", type, bytes)}, errc::unsupported,
                   "column 'a': raw values of type " + type.name() + " are not supported");
  }
}

TEST_P(building, beyond_the_budget_leaks_nothing) {
  const std::vector<std::byte> bytes(limit + 8);
  expect_refused({raw("a", data_type(type_id::int64), bytes)}, errc::budget_exceeded, "");
}

SAETA_CONFORMANCE_SUITE(building);

} // namespace
} // namespace saeta::conformance
