// The descriptions of layouts agree with the types that have them.
#include "saeta/column/column.hpp"
#include "saeta/column/schema.hpp"
#include "saeta/symbols/symbols.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace saeta {
namespace {

field child_of(const char* name, const char* format) { return {name, data_type::parse(format), true, {}}; }

std::vector<data_type> nested_types() {
  const field number = child_of("n", "i");
  const field entries{"entries", data_type::nested("+s", {{"k", number.type, false, {}}, number}), false, {}};
  return {data_type::nested("+l", {number}),
          data_type::nested("+L", {number}),
          data_type::nested("+m", {entries}),
          data_type::nested("+vl", {number}),
          data_type::nested("+vL", {number}),
          data_type::nested("+w:3", {number}),
          data_type::nested("+s", {number, number}),
          data_type::nested("+ud:0,1", {number, number}),
          data_type::nested("+us:0,1", {number, number}),
          data_type::nested("+r", {{"run_ends", data_type(type_id::int16), false, {}}, number})};
}

/// Returns the roles and widths of all buffers, such as "validity offsets:4".
std::string buffers_of(const data_type& type) {
  std::string text;
  for (std::size_t i = 0; i < type.buffer_count(); ++i) {
    const buffer_spec spec = type.buffer(i);
    text += (i == 0 ? "" : " ") + std::string(spec.name);
    text += spec.width == 0 ? "" : ":" + std::to_string(spec.width);
  }
  return text;
}

TEST(layout, names_its_buffers_in_the_order_of_arrow) {
  EXPECT_EQ(buffers_of(data_type()), "");
  EXPECT_EQ(buffers_of(data_type(type_id::boolean)), "validity values");
  EXPECT_EQ(buffers_of(data_type(type_id::int64)), "validity values:8");
  EXPECT_EQ(buffers_of(data_type::parse("w:5")), "validity values:5");
  EXPECT_EQ(buffers_of(data_type(type_id::string)), "validity offsets:4 bytes");
  EXPECT_EQ(buffers_of(data_type(type_id::large_binary)), "validity offsets:8 bytes");
  EXPECT_EQ(buffers_of(data_type(type_id::string_view)), "validity values:16");
  const std::vector<std::string> expected = {"validity offsets:4",
                                             "validity offsets:8",
                                             "validity offsets:4",
                                             "validity offsets:4 sizes:4",
                                             "validity offsets:8 sizes:8",
                                             "validity",
                                             "validity",
                                             "type ids:1 offsets:4",
                                             "type ids:1",
                                             ""};
  std::vector<std::string> seen;
  for (const data_type& each : nested_types()) {
    seen.push_back(buffers_of(each));
  }
  EXPECT_EQ(seen, expected);
}

TEST(layout, maps_rows_to_rows_of_children) {
  const std::vector<row_mapping> expected = {
      row_mapping::offsets,   row_mapping::offsets,    row_mapping::offsets, row_mapping::scattered,
      row_mapping::scattered, row_mapping::fixed_size, row_mapping::same,    row_mapping::scattered,
      row_mapping::same,      row_mapping::run_ends};
  std::vector<row_mapping> seen;
  for (const data_type& each : nested_types()) {
    seen.push_back(each.mapping());
  }
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(data_type(type_id::string).mapping(), row_mapping::none);
}

TEST(layout, has_the_check_of_its_layout) {
  const std::vector<std::optional<check_kind>> expected = {
      check_kind::offsets,    check_kind::offsets, check_kind::offsets, check_kind::list_views,
      check_kind::list_views, std::nullopt,        std::nullopt,        check_kind::unions,
      check_kind::unions,     check_kind::run_ends};
  std::vector<std::optional<check_kind>> seen;
  for (const data_type& each : nested_types()) {
    seen.push_back(each.check());
  }
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(data_type().check(), std::nullopt);
  EXPECT_EQ(data_type(type_id::int32).check(), std::nullopt);
  EXPECT_EQ(data_type(type_id::boolean).check(), std::nullopt);
  EXPECT_EQ(data_type(type_id::string).check(), check_kind::offsets);
  EXPECT_EQ(data_type(type_id::binary_view).check(), check_kind::views);
  EXPECT_EQ(symbol_type().check(), check_kind::indices);
  EXPECT_EQ(data_type::dictionary(data_type(type_id::int8), data_type(type_id::string)).check(),
            check_kind::indices);
}

TEST(layout, has_variadic_buffers_only_for_views) {
  EXPECT_TRUE(data_type(type_id::string_view).has_variadic_buffers());
  EXPECT_TRUE(data_type(type_id::binary_view).has_variadic_buffers());
  EXPECT_FALSE(data_type(type_id::string).has_variadic_buffers());
  for (const data_type& each : nested_types()) {
    EXPECT_FALSE(each.has_variadic_buffers()) << each.name();
  }
}

TEST(layout, has_named_children_only_in_structs_and_unions) {
  for (const data_type& each : nested_types()) {
    const bool named = each.id() == type_id::struct_ || each.id() == type_id::dense_union ||
                       each.id() == type_id::sparse_union;
    EXPECT_EQ(each.has_named_children(), named) << each.name();
  }
}

TEST(layout, gives_the_byte_range_of_rows) {
  const auto bytes = [](type_id type, std::size_t index, std::size_t first, std::size_t rows) {
    const byte_window found = bytes_of_rows(data_type(type).buffer(index), first, rows);
    return std::pair(found.offset, found.bytes);
  };
  EXPECT_EQ(bytes(type_id::int32, 1, 3, 5), std::pair(std::size_t{12}, std::size_t{20}));
  EXPECT_EQ(bytes(type_id::int32, 0, 9, 7), std::pair(std::size_t{1}, std::size_t{1}));
  EXPECT_EQ(bytes(type_id::boolean, 1, 9, 8), std::pair(std::size_t{1}, std::size_t{2}));
  EXPECT_EQ(bytes(type_id::boolean, 1, 9, 0), std::pair(std::size_t{1}, std::size_t{0}));
  EXPECT_EQ(bytes(type_id::string, 1, 3, 5), std::pair(std::size_t{12}, std::size_t{24}));
  EXPECT_EQ(bytes(type_id::string_view, 1, 1, 2), std::pair(std::size_t{16}, std::size_t{32}));
}

TEST(layout, selects_the_rows_of_a_child) {
  constexpr child_rows pointed{7, 2};
  const std::vector<std::pair<std::int64_t, std::int64_t>> expected = {
      {7, 2}, {7, 2}, {7, 2}, {0, 100}, {0, 100}, {12, 15}, {4, 5}, {0, 100}, {4, 5}, {7, 2}};
  std::vector<std::pair<std::int64_t, std::int64_t>> seen;
  for (const data_type& each : nested_types()) {
    const child_rows found = select_child_rows(each, 4, 5, pointed, 100);
    seen.emplace_back(found.first, found.count);
  }
  EXPECT_EQ(seen, expected);
}

} // namespace
} // namespace saeta
