// Text of schemas, columns and tables.
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/base/text.hpp"
#include "saeta/transfer/display.hpp"
#include "saeta/transfer/makers.hpp"
#include "support/arrays.hpp"
#include "support/tables.hpp"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace saeta {
namespace {

class display : public ::testing::Test {
protected:
  template <class T>
  [[nodiscard]] column of(const std::vector<std::optional<T>>& values) const {
    return make_column(ctx_, values);
  }
  /// Numbers as values of another type of the same width.
  template <class T>
  [[nodiscard]] std::string shown(const char* format, const std::vector<T>& values) const {
    const column numbers = make_column(ctx_, values);
    const std::string text = to_string(column::make(
        ctx_,
        {.type = data_type::parse(format), .length = numbers.length(), .buffers = {{}, numbers.values()}}));
    return text.substr(text.find("rows: ") + 6);
  }

  std::shared_ptr<context> ctx_ = context::create(make_host_backend());
};

TEST_F(display, shows_the_first_values_of_a_column) {
  const column numbers = of<std::int64_t>({1, std::nullopt, -3});
  EXPECT_EQ(to_string(numbers), "<int64 on host, 3 rows: 1, null, -3>");
  EXPECT_EQ(to_string(numbers, 2), "<int64 on host, 3 rows: 1, null, ...>");
  EXPECT_EQ(to_string(numbers, 0), "<int64 on host, 3 rows: ...>");
  EXPECT_EQ(to_string(numbers, -7), to_string(numbers, 0));
  EXPECT_EQ(to_string(numbers.slice(2, 1)), "<int64 on host, 1 row: -3>");
  EXPECT_EQ(to_string(numbers.slice(2, 0)), "<int64 on host, 0 rows: >");
  EXPECT_EQ(to_string(of<bool>({true, std::nullopt})), "<bool on host, 2 rows: true, null>");
  EXPECT_EQ(to_string(make_column(ctx_, std::array{1.5, -0.1})), "<double on host, 2 rows: 1.5, -0.1>");
  EXPECT_EQ(to_string(make_column(ctx_, std::array<std::uint8_t, 1>{255})), "<uint8 on host, 1 row: 255>");
  EXPECT_EQ(to_string(make_column(ctx_, std::array<std::int8_t, 1>{-1})), "<int8 on host, 1 row: -1>");
  EXPECT_EQ(to_string(make_column(ctx_, std::array{~std::uint64_t{0}})),
            "<uint64 on host, 1 row: 18446744073709551615>");
}

TEST_F(display, makes_text_printable_and_short) {
  const column texts = of<std::string>({"Ana\x1b[31m", std::nullopt, std::string(50, 'x')});
  EXPECT_EQ(to_string(texts),
            "<string on host, 3 rows: 'Ana\\x1b[31m', null, '" + std::string(40, 'x') + "...'>");
}

TEST_F(display, shows_decimals_as_numbers) {
  EXPECT_EQ(shown<std::int64_t>("d:5,2,64", {12345, -7, 0}), "123.45, -0.07, 0.00>");
  EXPECT_EQ(shown<std::int32_t>("d:5,-2,32", {12, 0}), "1200, 0>");
  EXPECT_EQ(shown<std::int64_t>("tsu:", {1, 2}), "1, 2>");
}

TEST_F(display, shows_tables_across_their_batches) {
  const column first = of<std::int64_t>({1, 2});
  const column second = of<std::int64_t>({3, 4});
  const table rows =
      table::make(ctx_, {{{"n\n", first.type(), false, {}}}, {}}, {{2, {first}}, {2, {second}}});
  EXPECT_EQ(to_string(rows), "<table on host, 4 rows, 1 columns>\n  n\\n: int64 not null: 1, 2, 3, 4");
  EXPECT_EQ(to_string(rows, 3), "<table on host, 4 rows, 1 columns>\n  n\\n: int64 not null: 1, 2, 3, ...");
  EXPECT_EQ(to_string(rows.fields()), "n\\n: int64 not null");
  EXPECT_EQ(to_string(schema()), "");
}

TEST_F(display, has_text_for_every_type) {
  for (const data_type& type : support::carried_types()) {
    const table rows = support::random_table(ctx_, {type}, {});
    EXPECT_GT(to_string(rows).size(), 20U) << type.name();
    EXPECT_LT(to_string(rows).size(), 2000U) << type.name();
  }
}

} // namespace
} // namespace saeta
