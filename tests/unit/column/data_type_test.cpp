#include "saeta/base/text.hpp"
#include "saeta/column/schema.hpp"
#include "saeta/symbols/symbols.hpp"
#include "support/error_of.hpp"

#include <gtest/gtest.h>

namespace saeta {
namespace {

using support::error_of;

struct type_case {
  const char* format;
  type_id id;
  const char* name;
  layout_kind layout;
  std::int32_t byte_width;
};

void PrintTo(const type_case& shown, std::ostream* out) { *out << shown.format; }

class carried_type : public ::testing::TestWithParam<type_case> {};

TEST_P(carried_type, is_parsed_named_and_laid_out) {
  const type_case& expected = GetParam();
  const data_type seen = data_type::parse(expected.format);
  EXPECT_EQ(seen.id(), expected.id);
  EXPECT_EQ(seen.format(), expected.format);
  EXPECT_EQ(seen.name(), expected.name);
  EXPECT_EQ(seen.layout(), expected.layout);
  EXPECT_EQ(seen.byte_width(), expected.byte_width);
  EXPECT_EQ(seen, data_type::parse(seen.format()));
}

constexpr auto fixed = layout_kind::fixed;

INSTANTIATE_TEST_SUITE_P(
    data_type, carried_type,
    ::testing::Values(
        type_case{"n", type_id::null, "null", layout_kind::none, 0},
        type_case{"b", type_id::boolean, "bool", layout_kind::bits, 0},
        type_case{"c", type_id::int8, "int8", fixed, 1}, type_case{"C", type_id::uint8, "uint8", fixed, 1},
        type_case{"s", type_id::int16, "int16", fixed, 2},
        type_case{"S", type_id::uint16, "uint16", fixed, 2},
        type_case{"i", type_id::int32, "int32", fixed, 4},
        type_case{"I", type_id::uint32, "uint32", fixed, 4},
        type_case{"l", type_id::int64, "int64", fixed, 8},
        type_case{"L", type_id::uint64, "uint64", fixed, 8},
        type_case{"e", type_id::half_float, "halffloat", fixed, 2},
        type_case{"f", type_id::float32, "float", fixed, 4},
        type_case{"g", type_id::float64, "double", fixed, 8},
        type_case{"d:7,2,32", type_id::decimal32, "decimal32(7, 2)", fixed, 4},
        type_case{"d:18,-3,64", type_id::decimal64, "decimal64(18, -3)", fixed, 8},
        type_case{"d:9,0,32", type_id::decimal32, "decimal32(9, 0)", fixed, 4},
        type_case{"d:1,0", type_id::decimal128, "decimal128(1, 0)", fixed, 16},
        type_case{"d:38,2", type_id::decimal128, "decimal128(38, 2)", fixed, 16},
        type_case{"d:10,2", type_id::decimal128, "decimal128(10, 2)", fixed, 16},
        type_case{"d:76,38,256", type_id::decimal256, "decimal256(76, 38)", fixed, 32},
        type_case{"tdD", type_id::date32, "date32[day]", fixed, 4},
        type_case{"tdm", type_id::date64, "date64[ms]", fixed, 8},
        type_case{"tts", type_id::time32, "time32[s]", fixed, 4},
        type_case{"ttm", type_id::time32, "time32[ms]", fixed, 4},
        type_case{"ttu", type_id::time64, "time64[us]", fixed, 8},
        type_case{"ttn", type_id::time64, "time64[ns]", fixed, 8},
        type_case{"tss:", type_id::timestamp, "timestamp[s]", fixed, 8},
        type_case{"tsm:Europe/Berlin", type_id::timestamp, "timestamp[ms, tz=Europe/Berlin]", fixed, 8},
        type_case{"tsu:UTC", type_id::timestamp, "timestamp[us, tz=UTC]", fixed, 8},
        type_case{"tsn:+02:00", type_id::timestamp, "timestamp[ns, tz=+02:00]", fixed, 8},
        type_case{"tDs", type_id::duration, "duration[s]", fixed, 8},
        type_case{"tDm", type_id::duration, "duration[ms]", fixed, 8},
        type_case{"tDu", type_id::duration, "duration[us]", fixed, 8},
        type_case{"tDn", type_id::duration, "duration[ns]", fixed, 8},
        type_case{"tiM", type_id::interval_months, "month_interval", fixed, 4},
        type_case{"tiD", type_id::interval_day_time, "day_time_interval", fixed, 8},
        type_case{"tin", type_id::interval_month_day_nano, "month_day_nano_interval", fixed, 16},
        type_case{"w:16", type_id::fixed_size_binary, "fixed_size_binary[16]", fixed, 16},
        type_case{"z", type_id::binary, "binary", layout_kind::bytes, 0},
        type_case{"w:0", type_id::fixed_size_binary, "fixed_size_binary[0]", fixed, 0},
        type_case{"vz", type_id::binary_view, "binary_view", layout_kind::views, 0},
        type_case{"vu", type_id::string_view, "string_view", layout_kind::views, 0},
        type_case{"Z", type_id::large_binary, "large_binary", layout_kind::bytes, 0},
        type_case{"u", type_id::string, "string", layout_kind::bytes, 0},
        type_case{"U", type_id::large_string, "large_string", layout_kind::bytes, 0}));

TEST(data_type, is_null_by_default) {
  EXPECT_EQ(data_type(), data_type::parse("n"));
  EXPECT_EQ(data_type().buffer_count(), 0U);
  EXPECT_EQ(data_type().byte_width(), 0);
}

TEST(data_type, from_a_simple_id_equals_that_from_its_format) {
  EXPECT_EQ(data_type(type_id::large_string), data_type::parse("U"));
  EXPECT_EQ(data_type(type_id::date64), data_type::parse("tdm"));
  EXPECT_EQ(data_type(type_id::interval_month_day_nano), data_type::parse("tin"));
  for (const type_id parametric : {type_id::decimal128, type_id::time32, type_id::timestamp,
                                   type_id::duration, type_id::fixed_size_binary, type_id::dictionary}) {
    EXPECT_EQ(error_of([&] { data_type{parametric}; }).code(), errc::invalid_argument);
  }
  EXPECT_EQ(error_of([] { data_type{type_id::timestamp}; }).message(),
            "type timestamp has parameters: make it from its format string");
  EXPECT_EQ(error_of([] { data_type{static_cast<type_id>(99)}; }).message(),
            "type of unknown id has parameters: make it from its format string");
}

TEST(data_type, normalises_the_format_of_decimals) {
  EXPECT_EQ(data_type::parse("d:10,2,128"), data_type::parse("d:10,2"));
  EXPECT_EQ(data_type::parse("d:10,2,128").format(), "d:10,2");
}

TEST(data_type, counts_its_buffers) {
  EXPECT_EQ(data_type(type_id::boolean).buffer_count(), 2U);
  EXPECT_EQ(data_type(type_id::float64).buffer_count(), 2U);
  EXPECT_EQ(data_type(type_id::string).buffer_count(), 3U);
  EXPECT_EQ(data_type(type_id::large_string).buffer_count(), 3U);
}

TEST(data_type, distinguishes_integers_and_floats) {
  EXPECT_TRUE(data_type(type_id::int64).is_integer() && data_type(type_id::int64).is_signed());
  for (const type_id id : {type_id::int8, type_id::int16, type_id::int32}) {
    EXPECT_TRUE(data_type(id).is_integer() && data_type(id).is_signed());
  }
  EXPECT_TRUE(data_type(type_id::uint64).is_integer() && !data_type(type_id::uint64).is_signed());
  EXPECT_TRUE(data_type(type_id::float64).is_floating());
  EXPECT_FALSE(data_type(type_id::uint64).is_floating());
  EXPECT_FALSE(data_type::parse("d:7,2,32").is_floating());
  EXPECT_TRUE(data_type(type_id::uint8).is_integer() && !data_type(type_id::uint8).is_signed());
  EXPECT_TRUE(data_type(type_id::half_float).is_floating() && !data_type(type_id::half_float).is_integer());
  EXPECT_FALSE(data_type(type_id::boolean).is_integer());
  EXPECT_FALSE(data_type(type_id::date32).is_integer());
}

TEST(dictionary_type, keeps_indices_values_and_order) {
  const data_type plain = data_type::dictionary(data_type(type_id::int16), data_type(type_id::string));
  const data_type ordered =
      data_type::dictionary(data_type(type_id::int16), data_type(type_id::string), true);
  EXPECT_EQ(plain.name(), "dictionary<values=string, indices=int16, ordered=0>");
  EXPECT_EQ(ordered.name(), "dictionary<values=string, indices=int16, ordered=1>");
  EXPECT_NE(plain, ordered);
  EXPECT_NE(plain, data_type::dictionary(data_type(type_id::int16), data_type(type_id::binary)));
  EXPECT_NE(plain, data_type::dictionary(data_type(type_id::uint16), data_type(type_id::string)));
  EXPECT_NE(plain, data_type(type_id::int16));
  EXPECT_EQ(plain.format(), "s");
  EXPECT_EQ(plain.byte_width(), 2);
  EXPECT_EQ(plain.buffer_count(), 2U);
  EXPECT_EQ(*plain.value_type(), data_type(type_id::string));
  EXPECT_EQ(*plain.index_type(), data_type(type_id::int16));
  EXPECT_FALSE(plain.is_integer());
}

TEST(dictionary_type, refuses_indices_that_are_not_integers) {
  EXPECT_EQ(error_of([&] {
              static_cast<void>(
                  data_type::dictionary(data_type(type_id::float32), data_type(type_id::string)));
            }).code(),
            errc::type_mismatch);
}

TEST(nested_type, is_equal_if_all_its_parts_are_equal) {
  const field number{"a", data_type(type_id::int32), true, {}};
  const data_type made = data_type::nested("+s", {number});
  EXPECT_EQ(made, data_type::nested("+s", {number}));
  EXPECT_NE(made, data_type::nested("+s", {}));
  EXPECT_NE(made, data_type::nested("+s", {{"b", number.type, true, {}}}));
  EXPECT_NE(made, data_type::nested("+s", {{"a", number.type, false, {}}}));
  EXPECT_NE(made, data_type::nested("+s", {{"a", number.type, true, {{"k", "v"}}}}));
  EXPECT_NE(made, data_type::nested("+l", {number}));
  EXPECT_NE(data_type::nested("+us:0", {number}), data_type::nested("+us:1", {number}));
  EXPECT_NE(data_type::nested("+w:2", {number}), data_type::nested("+w:3", {number}));
  const field entries{"entries", data_type::nested("+s", {{"k", number.type, false, {}}, number}), false, {}};
  EXPECT_NE(data_type::nested("+m", {entries}, true), data_type::nested("+m", {entries}, false));
  EXPECT_TRUE(data_type::nested("+m", {entries}, true).keys_sorted());
}

TEST(nested_type, knows_its_buffers_children_and_levels) {
  const field number{"a", data_type(type_id::int32), true, {}};
  const data_type list = data_type::nested("+L", {number});
  EXPECT_EQ(list.buffer_count(), 2U);
  EXPECT_EQ(list.offset_width(), 8U);
  EXPECT_EQ(list.depth(), 1);
  EXPECT_EQ(list.children().size(), 1U);
  EXPECT_TRUE(list.has_validity());
  const data_type either = data_type::nested("+ud:3,9", {number, {"l", list, true, {}}});
  EXPECT_EQ(either.buffer_count(), 2U);
  EXPECT_FALSE(either.has_validity());
  EXPECT_EQ(either.buffer(0).width, 1);
  EXPECT_EQ(either.buffer(1).width, 4);
  EXPECT_EQ(either.offset_width(), 0U);
  EXPECT_EQ(either.depth(), 2);
  EXPECT_EQ(either.type_codes()[1], 9);
  const data_type views = data_type::nested("+vL", {number});
  EXPECT_EQ(views.buffer_count(), 3U);
  EXPECT_EQ(views.buffer(2).width, 8);
  EXPECT_EQ(data_type::nested("+w:7", {number}).list_size(), 7);
  EXPECT_EQ(data_type::nested("+r", {{"r", data_type(type_id::int16), false, {}}, number}).buffer_count(),
            0U);
  EXPECT_FALSE(data_type().has_validity());
  EXPECT_EQ(data_type(type_id::string).children().size(), 0U);
  EXPECT_EQ(data_type(type_id::string).depth(), 0);
  EXPECT_EQ(data_type::dictionary(number.type, list).depth(), 2);
}

TEST(extension_type, keeps_name_and_metadata_over_the_same_storage) {
  const data_type uuid = data_type::parse("w:16").with_extension("arrow.uuid", "v");
  EXPECT_EQ(uuid.name(), "extension<arrow.uuid>");
  EXPECT_EQ(uuid.extension_metadata(), "v");
  EXPECT_EQ(uuid.format(), "w:16");
  EXPECT_EQ(uuid.byte_width(), 16);
  EXPECT_NE(uuid, data_type::parse("w:16"));
  EXPECT_NE(uuid, uuid.with_extension("arrow.uuid", ""));
  EXPECT_EQ(uuid.with_extension("", "dropped"), data_type::parse("w:16"));
}

TEST(extension_type, recognises_bool8_by_storage_and_name) {
  EXPECT_TRUE(data_type::bool8().is_bool8());
  EXPECT_EQ(data_type::bool8().name(), "extension<arrow.bool8>");
  EXPECT_EQ(data_type::bool8().id(), type_id::int8);
  EXPECT_FALSE(data_type(type_id::int8).is_bool8());
  EXPECT_FALSE(data_type(type_id::uint8).with_extension("arrow.bool8", "").is_bool8());
}

TEST(byte_bool, is_a_type_of_top_level_columns_without_an_extension) {
  const data_type type = data_type::byte_bool();
  EXPECT_TRUE(type.is_bool8());
  EXPECT_EQ(type.name(), "bool8");
  EXPECT_EQ(type.extension_name(), "");
  EXPECT_NE(type, data_type::bool8());
  EXPECT_NE(type, data_type(type_id::int8));
  EXPECT_EQ(type.with_extension("arrow.bool8", ""), data_type::bool8());
  EXPECT_EQ(type.with_extension("", ""), data_type(type_id::int8));
  EXPECT_EQ(data_type::nested("+l", {{"item", type, true, {}}}).children()[0].type, data_type::bool8());
  EXPECT_EQ(*data_type::dictionary(data_type(type_id::int8), type).value_type(), data_type::bool8());
}

TEST(symbol_type, is_a_uint32_with_a_symbol_table) {
  const data_type type = symbol_type();
  EXPECT_TRUE(type.is_symbol());
  EXPECT_EQ(type.name(), "symbol");
  EXPECT_EQ(type.id(), type_id::uint32);
  EXPECT_EQ(type.byte_width(), 4);
  EXPECT_FALSE(type.is_integer());
  EXPECT_EQ(type.symbols(), process_symbols());
  EXPECT_EQ(type, symbol_type(process_symbols()));
  EXPECT_NE(type, data_type(type_id::uint32));
  EXPECT_FALSE(data_type(type_id::uint32).is_symbol());
  EXPECT_EQ(data_type(type_id::uint32).symbols(), nullptr);
  const auto table = symbol_table::make();
  EXPECT_NE(type, symbol_type(table));
  EXPECT_EQ(symbol_type(table).name(), concat("symbol[table ", table->number(), "]"));
  EXPECT_EQ(type.with_extension("", ""), data_type(type_id::uint32));
  EXPECT_FALSE(type.with_extension("x", "").is_symbol());
}

TEST(symbol_type, can_not_be_nested_in_another_type) {
  const auto inside = [] { static_cast<void>(data_type::nested("+l", {{"item", symbol_type(), true, {}}})); };
  EXPECT_EQ(error_of(inside).code(), errc::unsupported);
  const auto values = [] {
    static_cast<void>(data_type::dictionary(data_type(type_id::int8), symbol_type()));
  };
  EXPECT_EQ(error_of(values).code(), errc::unsupported);
  const auto indices = [] {
    static_cast<void>(data_type::dictionary(symbol_type(), data_type(type_id::string)));
  };
  EXPECT_EQ(error_of(indices).code(), errc::type_mismatch);
}

struct refusal_case {
  const char* format;
  errc code;
  const char* said;
};

void PrintTo(const refusal_case& shown, std::ostream* out) { *out << '\'' << shown.format << '\''; }

class refused_format : public ::testing::TestWithParam<refusal_case> {};

TEST_P(refused_format, gives_an_error_with_the_reason) {
  const error seen = error_of([] { static_cast<void>(data_type::parse(GetParam().format)); });
  EXPECT_EQ(seen.code(), GetParam().code);
  EXPECT_NE(seen.message().find(GetParam().said), std::string::npos) << seen.message();
}

INSTANTIATE_TEST_SUITE_P(
    data_type, refused_format,
    ::testing::Values(refusal_case{"+l", errc::format, "with 1 children but found 0"},
                      refusal_case{"+x", errc::format, "'+x'"}, refusal_case{"w:", errc::format, "'w:'"},
                      refusal_case{"w:00", errc::format, "'w:00'"}, refusal_case{"", errc::format, "''"},
                      refusal_case{"?", errc::format, "'?'"}, refusal_case{"ii", errc::format, "'ii'"},
                      refusal_case{"+", errc::format, "'+'"}, refusal_case{"tsx:", errc::format, "tsx"},
                      refusal_case{"tt", errc::format, "tt"}, refusal_case{"w:-1", errc::format, "w:-1"},
                      refusal_case{"w: 16", errc::format, "w: 16"},
                      refusal_case{"w:4294967297", errc::format, "w:4294967297"},
                      refusal_case{"d:10", errc::format, "d:10"},
                      refusal_case{"d:0,0", errc::format, "precision is 0, expected 1 to 38"},
                      refusal_case{"d:39,2", errc::format, "precision is 39, expected 1 to 38"},
                      refusal_case{"d:10,2,32", errc::format, "precision is 10, expected 1 to 9"},
                      refusal_case{"d:19,2,64", errc::format, "precision is 19, expected 1 to 18"},
                      refusal_case{"d:77,2,256", errc::format, "precision is 77, expected 1 to 76"},
                      refusal_case{"d:10,2,96", errc::format, "d:10,2,96"},
                      refusal_case{"d:4294967306,2", errc::format, "d:4294967306,2"}));

TEST(data_type, refuses_a_zero_byte_in_its_format) {
  const std::string hidden("i\0u", 3);
  const error seen = error_of([&] { static_cast<void>(data_type::parse(hidden)); });
  EXPECT_EQ(seen.code(), errc::format);
  EXPECT_EQ(seen.message(), "'i' is not an Arrow type: a zero byte follows");
}

} // namespace
} // namespace saeta
