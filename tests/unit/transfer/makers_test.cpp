// Columns and tables of host values.
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/base/text.hpp"
#include "saeta/transfer/download.hpp"
#include "saeta/transfer/makers.hpp"
#include "support/error_of.hpp"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace saeta {
namespace {

using support::error_of;

class makers : public ::testing::Test {
protected:
  /// The values as text; a null is "null".
  [[nodiscard]] std::vector<std::string> shown(const column& of) const {
    const host_batch rows = view_in_place({of.length(), {of}});
    const host_array& array = rows.arrays[0];
    std::vector<std::string> texts;
    for (std::int64_t row = array.offset; row < array.offset + array.length; ++row) {
      const bool null = array.buffers[0].data() != nullptr && !bit_at(array.buffers[0], row);
      if (null) {
        texts.emplace_back("null");
      } else if (of.type().id() == type_id::boolean) {
        texts.emplace_back(bit_at(array.buffers[1], row) ? "true" : "false");
      } else if (of.type().id() == type_id::string) {
        const auto bytes = bytes_of_value(array, row);
        texts.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      } else {
        texts.push_back(std::to_string(
            read_offset(array.buffers[1].data(), static_cast<std::size_t>(of.type().byte_width()), row)));
      }
    }
    return texts;
  }

  std::shared_ptr<context> ctx_ = context::create(make_host_backend());
};

using texts = std::vector<std::string>;

TEST_F(makers, copy_spans_of_numbers) {
  std::vector<std::int16_t> numbers{1, -2, 3};
  const column made = make_column(ctx_, numbers);
  numbers[0] = 9;
  EXPECT_EQ(made.type(), data_type(type_id::int16));
  EXPECT_EQ(made.known_null_count(), 0);
  EXPECT_EQ(shown(made), (texts{"1", "-2", "3"}));
  EXPECT_EQ(make_column(ctx_, std::array{1.5, 2.5}).type(), data_type(type_id::float64));
  EXPECT_EQ(make_column(ctx_, std::span<const float>()).length(), 0);
  EXPECT_EQ(ctx_->reports().live_by_tag().size(), 1U) << "all are charged as values";
}

TEST_F(makers, take_ranges_that_are_not_contiguous) {
  EXPECT_EQ(shown(make_column(ctx_, std::list<std::uint8_t>{4, 5})), (texts{"4", "5"}));
  EXPECT_EQ(shown(make_column(ctx_, std::vector<bool>{true, false})), (texts{"true", "false"}));
  EXPECT_EQ(make_column(ctx_, std::vector<bool>{true}).type(), data_type(type_id::boolean));
}

TEST_F(makers, take_texts_of_every_kind) {
  const texts expected{"Ana", "", "Jos\xc3\xa9"};
  EXPECT_EQ(shown(make_column(ctx_, expected)), expected);
  EXPECT_EQ(shown(make_column(ctx_, std::deque<std::string_view>{"Ana", "", "Jos\xc3\xa9"})), expected);
  EXPECT_EQ(shown(make_column(ctx_, std::array<const char*, 3>{"Ana", "", "Jos\xc3\xa9"})), expected);
  const std::vector<std::optional<std::string>> some{"Ana", std::nullopt};
  EXPECT_EQ(shown(make_column(ctx_, some)), (texts{"Ana", "null"}));
  const error seen = error_of([&] { static_cast<void>(make_column(ctx_, texts{"ok", "\xff"})); });
  EXPECT_EQ(seen.code(), errc::format);
  EXPECT_NE(seen.message().find("row 1"), std::string::npos) << seen.message();
}

TEST_F(makers, keep_nulls_wherever_they_are) {
  for (const std::size_t rows : {1U, 7U, 8U, 9U, 20U}) {
    for (std::size_t null = 0; null < rows; ++null) {
      std::vector<std::optional<std::int32_t>> values;
      texts expected;
      for (std::size_t row = 0; row < rows; ++row) {
        const bool valid = row != null && row % 5 != 3;
        values.push_back(valid ? std::optional(static_cast<std::int32_t>(row)) : std::nullopt);
        expected.push_back(valid ? std::to_string(row) : "null");
      }
      const column made = make_column(ctx_, values);
      EXPECT_EQ(shown(made), expected) << rows << ", " << null;
      EXPECT_EQ(made.known_null_count(), std::count(expected.begin(), expected.end(), "null"));
    }
  }
}

TEST_F(makers, build_value_by_value_and_go_on) {
  column_builder<bool> flags;
  column_builder<std::string> names;
  for (int i = 0; i < 10; ++i) {
    flags.append(i % 3 == 0);
    names.append(std::to_string(i));
  }
  flags.append_null();
  names.append(std::optional<std::string>());
  const column first = names.finish(ctx_);
  names.append("later");
  EXPECT_EQ(first.length(), 11);
  EXPECT_EQ(first.known_null_count(), 1);
  EXPECT_EQ(names.length(), 12);
  EXPECT_EQ(names.null_count(), 1);
  EXPECT_EQ(shown(names.finish(ctx_)).back(), "later");
  EXPECT_EQ(shown(flags.finish(ctx_))[9], "true");
  EXPECT_EQ(shown(flags.finish(ctx_))[10], "null");
  EXPECT_EQ(column_builder<double>().finish(ctx_).length(), 0);
  EXPECT_EQ(column_builder<std::string>().finish(ctx_).length(), 0);
}

TEST_F(makers, make_tables_of_pairs) {
  const column names = make_column(ctx_, texts{"a", "b"});
  const column counts = make_column(ctx_, std::vector<std::optional<std::int64_t>>{1, std::nullopt});
  const table made = make_table(ctx_, {{"name", names}, {"count", counts}});
  EXPECT_EQ(made.rows(), 2);
  EXPECT_FALSE(made.fields().fields[0].nullable);
  EXPECT_TRUE(made.fields().fields[1].nullable);
  const error seen = error_of([&] {
    static_cast<void>(make_table(ctx_, {{"name", names}, {"count", counts.slice(0, 1)}}));
  });
  EXPECT_EQ(seen.code(), errc::invalid_argument);
  EXPECT_EQ(seen.message(), "column 'count' has 1 rows, expected 2 as column 'name'");
  EXPECT_EQ(make_table(ctx_, {}).column_count(), 0U);
}

TEST_F(makers, leave_nothing_where_the_budget_has_no_room) {
  const auto small = ctx_->with_budget("small", 100);
  column_builder<std::string> names;
  for (int i = 0; i < 100; ++i) {
    names.append("name");
  }
  EXPECT_EQ(error_of([&] { static_cast<void>(names.finish(small)); }).code(), errc::budget_exceeded);
  EXPECT_EQ(small->memory_budget()->statistics().current, 0U);
  EXPECT_EQ(names.finish(ctx_).length(), 100) << "the builder keeps its values";
  EXPECT_EQ(error_of([&] { static_cast<void>(names.finish(nullptr)); }).code(), errc::invalid_argument);
}

} // namespace
} // namespace saeta
