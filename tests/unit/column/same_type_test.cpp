#include "saeta/column/same_type.hpp"
#include "saeta/symbols/symbols.hpp"
#include "unit/base/raises.hpp"

#include <gtest/gtest.h>

namespace saeta {
namespace {

field int_field(std::string name, bool nullable = true, metadata_list metadata = {}) {
  return {std::move(name), data_type(type_id::int32), nullable, std::move(metadata)};
}

data_type map_of(std::string entries, std::string key, field item, bool sorted = false) {
  const data_type rows =
      data_type::nested("+s", {{std::move(key), data_type(type_id::string), false, {}}, std::move(item)});
  return data_type::nested("+m", {{std::move(entries), rows, false, {}}}, sorted);
}

TEST(same_type, ignores_the_names_of_list_values_unless_metadata_counts) {
  for (const char* const format : {"+l", "+L", "+vl", "+vL", "+w:3"}) {
    const data_type one = data_type::nested(format, {int_field("item")});
    const data_type other = data_type::nested(format, {int_field("element")});
    EXPECT_TRUE(same_type(one, other)) << format;
    EXPECT_FALSE(same_type(one, other, true)) << format;
    EXPECT_FALSE(same_type(one, data_type::nested(format, {int_field("item", false)}))) << format;
    const data_type described = data_type::nested(format, {int_field("item", true, {{"k", "v"}})});
    EXPECT_TRUE(same_type(one, described)) << format;
    EXPECT_FALSE(same_type(one, described, true)) << format;
    EXPECT_TRUE(same_type(described, described, true)) << format;
  }
}

TEST(same_type, compares_the_field_names_of_structs_and_unions) {
  for (const char* const format : {"+s", "+ud:0", "+us:0"}) {
    const data_type one = data_type::nested(format, {int_field("a")});
    EXPECT_TRUE(same_type(one, data_type::nested(format, {int_field("a", true, {{"k", "v"}})}))) << format;
    EXPECT_FALSE(same_type(one, data_type::nested(format, {int_field("b")}))) << format;
    EXPECT_FALSE(same_type(one, data_type::nested(format, {int_field("a", false)}))) << format;
  }
  EXPECT_FALSE(
      same_type(data_type::nested("+ud:0", {int_field("a")}), data_type::nested("+ud:1", {int_field("a")})));
}

TEST(same_type, compares_maps_without_the_names_of_their_entries) {
  const data_type one = map_of("entries", "key", int_field("value"));
  EXPECT_TRUE(same_type(one, map_of("key_value", "k", int_field("v"))));
  EXPECT_TRUE(same_type(one, map_of("entries", "key", int_field("value")), true));
  EXPECT_FALSE(same_type(one, map_of("key_value", "key", int_field("value")), true));
  EXPECT_FALSE(same_type(one, map_of("entries", "k", int_field("value")), true));
  EXPECT_FALSE(same_type(one, map_of("entries", "key", int_field("value", false))));
  EXPECT_FALSE(same_type(one, map_of("entries", "key", int_field("value"), true)));
  EXPECT_FALSE(same_type(one, map_of("entries", "key", {"value", data_type(type_id::int64), true, {}})));
}

TEST(same_type, compares_dictionaries_and_run_end_encoded_types) {
  const data_type index(type_id::int8);
  const auto lists_of = [](std::string name) {
    return data_type::nested("+l", {int_field(std::move(name))});
  };
  const data_type one = data_type::dictionary(index, lists_of("a"));
  EXPECT_TRUE(same_type(one, data_type::dictionary(index, lists_of("b"))));
  EXPECT_FALSE(same_type(one, data_type::dictionary(index, lists_of("b")), true));
  EXPECT_FALSE(same_type(one, data_type::dictionary(index, lists_of("a"), true)));
  EXPECT_FALSE(same_type(one, data_type::dictionary(data_type(type_id::int16), lists_of("a"))));
  EXPECT_FALSE(same_type(one, data_type::dictionary(index, index)));
  const auto runs_of = [](type_id ends, std::string name) {
    return data_type::nested("+r", {{"run_ends", data_type(ends), false, {}}, int_field(std::move(name))});
  };
  EXPECT_TRUE(same_type(runs_of(type_id::int16, "values"), runs_of(type_id::int16, "v")));
  EXPECT_FALSE(same_type(runs_of(type_id::int16, "values"), runs_of(type_id::int32, "values")));
}

TEST(same_type, compares_the_parameters_of_types) {
  EXPECT_FALSE(same_type(data_type::parse("tsu:"), data_type::parse("tsu:UTC")));
  EXPECT_FALSE(same_type(data_type::parse("d:10,2"), data_type::parse("d:10,3")));
  EXPECT_FALSE(same_type(data_type(type_id::int8), data_type::bool8()));
  EXPECT_FALSE(same_type(data_type(type_id::int8), data_type::byte_bool()));
  const data_type plain(type_id::int8);
  EXPECT_FALSE(same_type(plain.with_extension("a", "x"), plain.with_extension("a", "y")));
  EXPECT_FALSE(same_type(plain.with_extension("a", "x"), plain.with_extension("b", "x")));
}

TEST(same_type, compares_the_tables_of_symbols) {
  const auto other = symbol_table::make();
  EXPECT_TRUE(same_type(symbol_type(), symbol_type()));
  EXPECT_TRUE(same_type(symbol_type(other), symbol_type(other)));
  EXPECT_FALSE(same_type(symbol_type(), symbol_type(other)));
  EXPECT_FALSE(same_type(symbol_type(), data_type(type_id::uint32)));
}

TEST(same_schema, compares_fields_in_order_and_metadata_on_request) {
  const schema one{{int_field("a"), int_field("b")}, {}};
  EXPECT_TRUE(same_schema(one, {{int_field("a"), int_field("b", true, {{"k", "v"}})}, {{"k", "v"}}}));
  EXPECT_FALSE(same_schema(one, {{int_field("a"), int_field("b")}, {{"k", "v"}}}, true));
  EXPECT_FALSE(same_schema(one, {{int_field("a"), int_field("b", true, {{"k", "v"}})}, {}}, true));
  EXPECT_TRUE(same_schema(one, one, true));
  EXPECT_FALSE(same_schema(one, {{int_field("b"), int_field("a")}, {}}));
  EXPECT_FALSE(same_schema(one, {{int_field("a")}, {}}));
  EXPECT_FALSE(same_schema(one, {{int_field("a"), int_field("b", false)}, {}}));
}

TEST(united_type, has_the_names_of_the_first_type) {
  const data_type number(type_id::int32);
  EXPECT_EQ(united_type(number, number), number);
  EXPECT_EQ(united_type(number, data_type(type_id::int64)), std::nullopt);
  for (const char* const format : {"+l", "+L", "+vl", "+vL", "+w:3"}) {
    const data_type first = data_type::nested(format, {int_field("item", false, {{"k", "v"}})});
    const data_type other = data_type::nested(format, {int_field("element")});
    EXPECT_EQ(united_type(first, other), data_type::nested(format, {int_field("item", true, {{"k", "v"}})}));
    EXPECT_EQ(united_type(other, first), other);
  }
  EXPECT_EQ(
      united_type(map_of("entries", "key", int_field("value", false)), map_of("e", "k", int_field("v"))),
      map_of("entries", "key", int_field("value")));
  const auto structs = [](std::string name) { return data_type::nested("+s", {int_field(std::move(name))}); };
  EXPECT_EQ(united_type(structs("a"), structs("b")), std::nullopt);
  const data_type named = structs("a").with_extension("x", "y");
  EXPECT_EQ(united_type(named, data_type::nested("+s", {int_field("a", false)}).with_extension("x", "y")),
            named);
  EXPECT_EQ(united_type(named, structs("a")), std::nullopt);
}

TEST(united_type, of_null_and_another_type_is_the_other_at_every_depth) {
  const data_type none;
  const data_type text(type_id::string);
  const auto pair = [](const data_type& second) {
    return data_type::nested("+s", {int_field("a"), {"b", second, true, {}}});
  };
  const auto list = [](const data_type& of) { return data_type::nested("+l", {{"item", of, true, {}}}); };
  const auto words = [](const data_type& of) { return data_type::dictionary(data_type(type_id::int8), of); };
  for (const auto& [first, other] :
       {std::pair(none, text), std::pair(pair(none), pair(text)), std::pair(list(none), list(text)),
        std::pair(words(none), words(text)), std::pair(list(pair(none)), list(pair(text)))}) {
    EXPECT_EQ(united_type(first, other), other);
    EXPECT_EQ(united_type(other, first), other);
  }
  EXPECT_EQ(united_type(none.with_extension("x", ""), text), std::nullopt);
}

TEST(united_schema, is_nullable_if_one_of_both_is) {
  const schema strict{{int_field("a", false), int_field("b", false)}, {{"k", "v"}}};
  const schema loose{{int_field("a"), int_field("b", false)}, {}};
  const schema both{{int_field("a"), int_field("b", false)}, {{"k", "v"}}};
  EXPECT_EQ(united_schema(strict, "0", loose, "1"), both);
  EXPECT_EQ(united_schema(loose, "0", strict, "1"), loose);
  require_fits(strict, "0", loose);
  std::string message;
  EXPECT_EQ(unit::code_raised_by([&] { require_fits(loose, "a file", strict); }, &message),
            errc::type_mismatch);
  EXPECT_EQ(message, "a file: column 0 is 'a' (int32), expected 'a' (int32, not null)");
}

TEST(united_schema, refuses_fields_that_differ) {
  const schema first{{int_field("a"), int_field("b")}, {}};
  const auto refused = [&](const schema& other, const char* text) {
    std::string message;
    const auto unite = [&] { static_cast<void>(united_schema(first, "one", other, "two")); };
    EXPECT_EQ(unit::code_raised_by(unite, &message), errc::type_mismatch);
    EXPECT_NE(message.find(text), std::string::npos) << message;
  };
  refused({{int_field("a"), int_field("c")}, {}},
          "two: column 1 is 'c' (int32), expected 'b' (int32) as in one");
  refused({{int_field("a")}, {}}, "two: column 1 is missing, expected 'b' (int32) as in one");
  refused({{int_field("a"), int_field("b"), int_field("c")}, {}},
          "column 2 is 'c' (int32), expected no such");
  refused({{int_field("a"), {"b", data_type(type_id::string), true, {}}}, {}},
          "is 'b' (string), expected 'b'");
}

} // namespace
} // namespace saeta
