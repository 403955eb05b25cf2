// The cache of encoded schemas for the packed form.

#include "saeta/ipc/format/message_fields.hpp"
#include "saeta/ipc/format/message_layout.hpp"
#include "saeta/ipc/format/packed_schema.hpp"
#include "saeta/symbols/symbols.hpp"
#include "support/error_of.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace saeta::ipc::detail {
namespace {

schema lists_of(const std::string& name) {
  const field item{name, data_type(type_id::int64), true, {}};
  return {{{"rows", data_type::nested("+l", std::vector<field>{item}), true, {}}}, {{"of", "a test"}}};
}

TEST(packed_schema, of_equal_schemas_is_encoded_once) {
  const schema_index first(lists_of("item"));
  const schema_index second(lists_of("item"));
  EXPECT_EQ(packed_form(first), packed_form(second));
}

TEST(packed_schema, distinguishes_the_names_of_children) {
  const schema_index first(lists_of("item"));
  const schema_index second(lists_of("element"));
  EXPECT_NE(packed_form(first)->flat, packed_form(second)->flat);
}

TEST(packed_schema, of_shared_dictionaries_differs_from_that_of_separate_ones) {
  const auto words = data_type::dictionary(data_type(type_id::int32), data_type(type_id::string));
  const schema_index two({{{"a", words, true, {}}, {"b", words, true, {}}}, {}});
  const auto form = packed_form(two);
  ASSERT_EQ(form->dictionaries.ids.size(), 2U);
  std::vector<std::byte> flat = form->flat;
  const auto second = schema_table(container::stream, flat).tables(schema_fields)[1].table(field_dictionary);
  const auto at = second->place(encoding_id);
  ASSERT_TRUE(at.has_value());
  std::memcpy(flat.data() + *at, &form->dictionaries.ids[0], sizeof(std::int64_t));

  const decoded_schema one = decode_schema(flat);
  EXPECT_EQ(one.form->dictionaries.ids.size(), 1U);
  EXPECT_EQ(one.shown->fields(), two.fields());
  EXPECT_EQ(packed_form(schema_index(two.fields()))->dictionaries.ids.size(), 2U);
  EXPECT_EQ(packed_form(*one.shown)->dictionaries.ids.size(), 2U);
  EXPECT_EQ(decode_schema(flat).shown, one.shown);
}

TEST(packed_schema, with_dictionaries_of_one_id_and_different_types_is_refused) {
  const data_type index(type_id::int32);
  const schema_index two({{{"a", data_type::dictionary(index, data_type(type_id::string)), true, {}},
                           {"b", data_type::dictionary(index, data_type(type_id::int8)), true, {}}},
                          {}});
  std::vector<std::byte> flat = packed_form(two)->flat;
  const auto second = schema_table(container::stream, flat).tables(schema_fields)[1].table(field_dictionary);
  const auto at = second->place(encoding_id);
  ASSERT_TRUE(at.has_value());
  flat[*at] = std::byte{0};
  const error seen = support::error_of([&] { static_cast<void>(decode_schema(flat)); });
  EXPECT_EQ(seen.code(), errc::format);
  EXPECT_EQ(seen.message(),
            "dictionary of column 'b': its values are of type int8, those of the same id 0 before "
            "of type string");
}

TEST(packed_schema, with_a_column_that_no_context_can_hold_is_refused) {
  std::vector<std::byte> flat = packed_form(schema_index(lists_of("item")))->flat;
  constexpr std::string_view name = "rows";
  const auto at = std::ranges::search(flat, std::as_bytes(std::span(name)));
  ASSERT_FALSE(at.empty());
  at.front() = std::byte{0};
  const error seen = support::error_of([&] { static_cast<void>(decode_schema(flat)); });
  EXPECT_EQ(seen.code(), errc::unsupported);
  EXPECT_NE(seen.message().find("has a zero byte in its name"), std::string::npos) << seen.message();
}

TEST(packed_schema, of_symbols_does_not_keep_their_table) {
  auto names = symbol_table::make();
  const std::weak_ptr<symbol_table> seen = names;
  {
    const schema_index of({{{"name", symbol_type(names), true, {}}}, {}});
    EXPECT_NE(packed_form(of), nullptr);
  }
  names.reset();
  EXPECT_TRUE(seen.expired());
}

} // namespace
} // namespace saeta::ipc::detail
