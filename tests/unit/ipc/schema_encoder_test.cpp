// Encoded schemas are decoded to the same schema, by Saeta and by libarrow.

#include "saeta/ipc/format/message_fields.hpp"
#include "saeta/ipc/format/message_layout.hpp"
#include "saeta/ipc/format/metadata_encoder.hpp"
#include "saeta/symbols/symbols.hpp"
#include "support/arrays.hpp"
#include "support/libarrow_schema.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace saeta::ipc::detail {
namespace {

field of_type(const data_type& type, bool nullable = true) { return {"c", type, nullable, {}}; }

data_type list_of(const field& child) { return data_type::nested("+l", {child}); }

/// Encodes a schema and decodes it again.
schema read_again(const schema& of) {
  std::vector<std::byte> stream;
  append_message(stream, encode_schema(of));
  append_end_of_stream(stream);
  const auto by_libarrow = support::schema_of_libarrow(stream);
  EXPECT_TRUE(by_libarrow.has_value());
  const schema read = read_schema(container::stream, encode_schema(of)).fields;
  EXPECT_EQ(by_libarrow, read);
  return read;
}

std::vector<std::int64_t> ids_in(const schema& of) {
  std::vector<std::int64_t> ids;
  const std::vector<std::byte> flat = encode_schema(of);
  const auto collect = [&](const auto& self, const flat_tables& fields) -> void {
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (const auto encoding = fields[i].table(field_dictionary)) {
        ids.push_back(encoding->scalar<std::int64_t>(encoding_id, -1));
      }
      self(self, fields[i].tables(field_children));
    }
  };
  collect(collect, schema_table(container::stream, flat).tables(schema_fields));
  return ids;
}

std::vector<data_type> types_with_parameters() {
  std::vector<data_type> types;
  for (const char* const format : {"n",
                                   "b",
                                   "c",
                                   "C",
                                   "s",
                                   "S",
                                   "i",
                                   "I",
                                   "l",
                                   "L",
                                   "e",
                                   "f",
                                   "g",
                                   "z",
                                   "Z",
                                   "u",
                                   "U",
                                   "vz",
                                   "vu",
                                   "d:9,2,32",
                                   "d:18,-3,64",
                                   "d:38,10",
                                   "d:76,5,256",
                                   "w:0",
                                   "w:16",
                                   "tdD",
                                   "tdm",
                                   "tts",
                                   "ttm",
                                   "ttu",
                                   "ttn",
                                   "tDs",
                                   "tDm",
                                   "tDu",
                                   "tDn",
                                   "tiM",
                                   "tiD",
                                   "tin",
                                   "tss:",
                                   "tsm:",
                                   "tsu:",
                                   "tsn:",
                                   "tsu:Europe/Madrid"}) {
    types.push_back(data_type::parse(format));
  }
  return types;
}

TEST(schema_encoder, keeps_every_type_with_its_parameters) {
  const auto words = data_type::dictionary(data_type(type_id::int16), data_type(type_id::large_string));
  const field number{"number", data_type(type_id::int32), false, {{"unit", "m"}}};
  const field word{"word", words, true, {}};
  std::vector<data_type> types = types_with_parameters();
  for (const type_id index : {type_id::int8, type_id::uint8, type_id::int16, type_id::uint16, type_id::int32,
                              type_id::uint32, type_id::int64, type_id::uint64}) {
    types.push_back(data_type::dictionary(data_type(index), data_type(type_id::string)));
    types.push_back(data_type::dictionary(data_type(index), list_of(number), true));
  }
  const field entries{
      "entries",
      data_type::nested("+s", {{"key", data_type(type_id::string), false, {}}, {"value", words, true, {}}}),
      false,
      {}};
  for (const data_type& each :
       {list_of(number), data_type::nested("+L", {word}), data_type::nested("+vl", {number}),
        data_type::nested("+vL", {word}), data_type::nested("+w:3", {number}),
        data_type::nested("+w:0", {word}), data_type::nested("+s", {}),
        data_type::nested("+s", {number, word, {"inner", list_of(word), true, {}}}),
        data_type::nested("+m", {entries}), data_type::nested("+m", {entries}, true),
        data_type::nested("+us:0,1", {number, word}), data_type::nested("+ud:7,100", {number, word}),
        data_type::nested("+ud:", {}),
        data_type::nested("+r", {{"run_ends", data_type(type_id::int16), false, {}},
                                 {"values", data_type(type_id::string), true, {}}})}) {
    types.push_back(each);
  }
  schema all;
  for (const data_type& each : types) {
    for (const bool nullable : {true, false}) {
      const schema one{{of_type(each, nullable)}, {}};
      EXPECT_EQ(read_again(one), one) << each.name();
      all.fields.push_back(of_type(each, nullable));
    }
  }
  EXPECT_EQ(read_again(all), all);
}

TEST(schema_encoder, keeps_names_and_metadata_of_any_bytes_in_order) {
  const metadata_list noted{
      {"b", "1"}, {"a", std::string("\0\xff", 2)}, {"b", ""}, {"", std::string(70'000, 'x')}};
  const schema of{{{"", data_type(type_id::int8), true, noted},
                   {"\u00e1", list_of({"child", data_type(type_id::int8), true, noted}), true, noted}},
                  noted};
  EXPECT_EQ(read_again(of), of);
  EXPECT_EQ(read_again({}), schema());
}

TEST(schema_encoder, keeps_extensions_before_metadata_that_repeats_their_keys) {
  metadata_list taken{{"ARROW:extension:name", "ours.point"},
                      {"ARROW:extension:metadata", std::string("{\0}", 3)}};
  const data_type point = take_extension(data_type(type_id::int64), taken);
  const schema of{{{"a", point, true, {{"ARROW:extension:name", "other"}, {"kept", "1"}}}}, {}};
  const schema read = read_again(of);
  EXPECT_EQ(read.fields[0].type.extension_name(), "ours.point");
  EXPECT_EQ(read.fields[0].type.extension_metadata(), std::string("{\0}", 3));
}

TEST(schema_encoder, gives_outer_dictionaries_lower_ids) {
  const auto words = data_type::dictionary(data_type(type_id::int8), data_type(type_id::string));
  const auto of_lists = data_type::dictionary(data_type(type_id::int8), list_of(of_type(words)));
  EXPECT_THAT(ids_in({{of_type(words), of_type(of_lists), of_type(list_of(of_type(words)))}, {}}),
              ::testing::ElementsAre(0, 1, 2, 3));
}

TEST(schema_encoder, encodes_symbols_as_dictionaries_and_byte_bools_as_booleans) {
  const schema of{{{"a", symbol_type(process_symbols()), true, {}}, {"b", data_type::byte_bool(), true, {}}},
                  {}};
  const schema read = read_schema(container::stream, encode_schema(of)).fields;
  EXPECT_EQ(read.fields[0].type.id(), type_id::dictionary);
  EXPECT_EQ(read.fields[1].type, data_type(type_id::boolean));
}

} // namespace
} // namespace saeta::ipc::detail
