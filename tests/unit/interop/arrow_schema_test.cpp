#include "saeta/base/error.hpp"
#include "saeta/interop/arrow/c_data.hpp"
#include "saeta/interop/arrow/owned.hpp"
#include "support/error_of.hpp"
#include "support/foreign_schema.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

namespace saeta {
namespace {

using support::error_of;
using support::foreign_schema;

field round_trip(const field& source) {
  arrow_schema exported = export_field(source);
  return import_field(exported.get());
}

TEST(arrow_schema, round_trips_every_part_of_a_schema) {
  const data_type codes =
      data_type::dictionary(data_type(type_id::uint8), data_type(type_id::large_string), true);
  const schema source{{{"a", data_type(type_id::int32), false, {{"unit", "m"}, {"unit", "km"}, {"", ""}}},
                       {"", codes, true, {}},
                       {"a", data_type::bool8(), true, {{"x", std::string("zero\0byte", 9)}}},
                       {"t", data_type::parse("tsu:Europe/Berlin"), true, {}}},
                      {{"origin", "here"}, {"origin", "there"}}};
  arrow_schema exported = export_schema(source);
  EXPECT_STREQ(exported.get().format, "+s");
  EXPECT_STREQ(exported.get().name, "") << "as the C data interface asks of a struct without a name";
  EXPECT_EQ(exported.get().flags, 0);
  EXPECT_EQ(exported.get().n_children, 4);
  EXPECT_EQ(exported.get().children[0]->flags, 0);
  EXPECT_EQ(exported.get().children[1]->flags, ARROW_FLAG_NULLABLE | ARROW_FLAG_DICTIONARY_ORDERED);
  EXPECT_STREQ(exported.get().children[1]->format, "C");
  EXPECT_STREQ(exported.get().children[1]->dictionary->format, "U");
  EXPECT_EQ(import_schema(exported.get()), source);
}

TEST(arrow_schema, round_trips_a_schema_without_columns) {
  arrow_schema exported = export_schema({});
  EXPECT_EQ(import_schema(exported.get()), schema{});
}

TEST(arrow_schema, keeps_an_extension_inside_a_dictionary) {
  const data_type values = data_type::parse("w:16").with_extension("arrow.uuid", "");
  const field source{"ids", data_type::dictionary(data_type(type_id::int32), values), true, {}};
  EXPECT_EQ(round_trip(source), source);
}

TEST(arrow_schema, moves_extension_keys_between_metadata_and_type) {
  foreign_schema foreign("c", "flag");
  foreign.set_metadata({{"before", "1"},
                        {"ARROW:extension:name", "arrow.bool8"},
                        {"ARROW:extension:metadata", ""},
                        {"after", "2"}});
  const field seen = import_field(foreign.get());
  EXPECT_TRUE(seen.type.is_bool8());
  EXPECT_EQ(seen.metadata, (metadata_list{{"before", "1"}, {"after", "2"}}));
}

TEST(arrow_schema, leaves_extension_metadata_without_a_name_alone) {
  foreign_schema foreign("i", "a");
  foreign.set_metadata({{"ARROW:extension:metadata", "lonely"}});
  const field seen = import_field(foreign.get());
  EXPECT_EQ(seen.type, data_type(type_id::int32));
  EXPECT_EQ(seen.metadata, (metadata_list{{"ARROW:extension:metadata", "lonely"}}));
}

TEST(arrow_schema, uses_the_first_of_repeated_extension_keys) {
  support::foreign_schema foreign("i", "x");
  foreign.set_metadata({{"ARROW:extension:name", "first"},
                        {"ARROW:extension:name", "second"},
                        {"ARROW:extension:metadata", "of the first"},
                        {"ARROW:extension:metadata", "of the second"}});
  const field seen = import_field(foreign.get());
  EXPECT_EQ(seen.type.extension_name(), "first");
  arrow_schema exported = export_field(seen);
  const field again = import_field(exported.get());
  EXPECT_EQ(again.type, seen.type);
  EXPECT_EQ(again.metadata, seen.metadata);
}

TEST(arrow_schema, keeps_an_empty_extension_name_in_the_metadata) {
  const metadata_list given{{"ARROW:extension:name", ""}, {"ARROW:extension:name", "second"}};
  support::foreign_schema foreign("i", "x");
  foreign.set_metadata(given);
  const field seen = import_field(foreign.get());
  EXPECT_EQ(seen.type, data_type(type_id::int32));
  EXPECT_EQ(seen.metadata, given);
}

TEST(arrow_schema, reads_a_null_name_as_empty) {
  EXPECT_EQ(import_field(foreign_schema("i", nullptr).get()).name, "");
}

TEST(arrow_schema, children_may_be_moved_away_before_the_parent_is_released) {
  arrow_schema exported = export_schema(
      {{{"a", data_type(type_id::int32), true, {}}, {"b", data_type(type_id::string), true, {}}}, {}});
  const arrow_schema moved(*exported.get().children[1]);
  exported.reset();
  EXPECT_EQ(import_field(moved.get()).name, "b");
}

TEST(arrow_schema, refuses_text_with_zero_bytes) {
  ArrowSchema target{};
  const field source{std::string("a\0b", 3), data_type(type_id::int32), true, {}};
  const error seen = error_of([&] { target = export_field(source).release(); });
  EXPECT_EQ(seen.code(), errc::exchange);
  EXPECT_EQ(target.release, nullptr) << "nothing was handed out";
}

struct nested_case {
  std::function<void(foreign_schema&)> grow;
  const char* format;
  const char* said; ///< the expected type name, or a part of the expected message
};

const auto item = [](foreign_schema& of) { of.add("i", "item"); };
const auto pair = [](foreign_schema& of) { of.add("i", "a", 0).add("u", "b", 0); };

TEST(arrow_schema, supports_nested_types) {
  const std::vector<nested_case> cases{
      {item, "+l", "list<item: int32>"},
      {item, "+L", "large_list<item: int32>"},
      {item, "+vl", "list_view<item: int32>"},
      {item, "+vL", "large_list_view<item: int32>"},
      {item, "+w:3", "fixed_size_list<item: int32>[3]"},
      {item, "+w:0", "fixed_size_list<item: int32>[0]"},
      {pair, "+s", "struct<a: int32 not null, b: string not null>"},
      {[](foreign_schema&) {}, "+s", "struct<>"},
      {pair, "+r", "run_end_encoded<run_ends: int32, values: string>"},
      {pair, "+us:4,7", "sparse_union<a: int32 not null=4, b: string not null=7>"},
      {pair, "+ud:127,0", "dense_union<a: int32 not null=127, b: string not null=0>"},
      {[](foreign_schema&) {}, "+ud:", "dense_union<>"},
      {[](foreign_schema& of) { pair(of.add_nested("+s", "entries", 0)); }, "+m", "map<int32, string>"},
      {[](foreign_schema& of) {
         pair(of.add_nested("+s", "entries", 0));
         of.get().flags |= ARROW_FLAG_MAP_KEYS_SORTED;
       },
       "+m", "map<int32, string, keys_sorted>"},
      {[](foreign_schema& of) { item(of.add_nested("+l", "item")); }, "+l", "list<item: list<item: int32>>"},
      {[](foreign_schema& of) { of.add("vu", nullptr).add("vz", "b").add("w:0", "c"); }, "+s",
       "struct<: string_view, b: binary_view, c: fixed_size_binary[0]>"},
  };
  for (const nested_case& one : cases) {
    foreign_schema foreign(one.format, "x");
    one.grow(foreign);
    const field seen = import_field(foreign.get());
    EXPECT_EQ(seen.type.name(), one.said);
    arrow_schema again = export_field(seen);
    EXPECT_EQ(import_field(again.get()), seen) << one.said;
  }
}

TEST(arrow_schema, keeps_names_metadata_and_extensions_of_children) {
  foreign_schema foreign("+l", "x");
  foreign_schema& child = foreign.add_nested("w:16", "id", 0);
  child.set_metadata({{"k", "v"}, {"ARROW:extension:name", "arrow.uuid"}});
  const field seen = import_field(foreign.get());
  ASSERT_EQ(seen.type.children().size(), 1U);
  const field expected{"id", data_type::parse("w:16").with_extension("arrow.uuid", ""), false, {{"k", "v"}}};
  EXPECT_EQ(seen.type.children()[0], expected);
  arrow_schema again = export_field(seen);
  EXPECT_EQ(import_field(again.get()), seen);
}

TEST(arrow_schema, supports_dictionaries_inside_of_lists_and_of_dictionaries) {
  foreign_schema inner("u", "");
  foreign_schema outer("s", "");
  outer.get().dictionary = &inner.get();
  for (const bool ordered : {false, true}) {
    foreign_schema foreign("+l", "x");
    ArrowSchema& child = foreign.add_nested("i", "item").get();
    child.dictionary = &outer.get();
    child.flags |= ordered ? ARROW_FLAG_DICTIONARY_ORDERED : 0;
    const field seen = import_field(foreign.get());
    EXPECT_EQ(seen.type.name(), std::string("list<item: dictionary<values=dictionary<values=string, "
                                            "indices=int16, ordered=0>, indices=int32, ordered=") +
                                    (ordered ? "1" : "0") + ">>");
    arrow_schema again = export_field(seen);
    EXPECT_EQ(import_field(again.get()), seen);
  }
}

TEST(arrow_schema, refuses_children_that_a_type_can_not_have) {
  const std::vector<nested_case> cases{
      {[](foreign_schema&) {}, "+l",
       "'+l' is not an Arrow type: Expected schema with 1 children but found 0"},
      {pair, "+vl", "Expected schema with 1 children but found 2"},
      {item, "+w:-1", "'+w:-1' is not an Arrow type"},
      {item, "+w: 3", "'+w: 3' is not an Arrow type: expected the canonical form +w:3"},
      {item, "+w:4294967299", "'+w:4294967299' is not an Arrow type: expected the canonical form +w:"},
      {item, "+m", "Expected child of map type to have 2 children but found 0"},
      {pair, "+ud:4", "Expected union type_ids parameter to be a comma-separated list of 2 values"},
      {pair, "+us:4,4", "type id 4 is repeated"},
      {pair, "+us:4,128", "values between 0 and 127"},
      {[](foreign_schema& of) { of.add("u", "a").add("u", "b"); }, "+r",
       "run ends are of type string, expected int16, int32 or int64"},
      {[](foreign_schema& of) { pair(of.add_nested("+s", "entries")); }, "+m",
       "Expected child of map type to be non-nullable"},
      {[](foreign_schema& of) {
         item(of);
         of.get().children[0] = nullptr;
       },
       "+l", "column 'x': children[0] is null"},
      {[](foreign_schema& of) { of.add("i", "a").get().children[0]->format = nullptr; }, "+s",
       "column 'x', child 'a': format is null"},
      {[](foreign_schema& of) { of.add("+x", "c"); }, "+s",
       "column 'x', child 'c': '+x' is not an Arrow type"},
      {[](foreign_schema& of) {
         item(of);
         of.get().flags |= ARROW_FLAG_MAP_KEYS_SORTED;
       },
       "+l", "only the keys of a map can be sorted"},
  };
  for (const nested_case& one : cases) {
    foreign_schema foreign(one.format, "x");
    one.grow(foreign);
    const error seen = error_of([&] { static_cast<void>(import_field(foreign.get())); });
    EXPECT_EQ(seen.code(), errc::format) << one.format;
    EXPECT_NE(seen.message().find(one.said), std::string::npos) << seen.message();
  }
}

TEST(arrow_schema, refuses_a_recursive_type) {
  foreign_schema foreign("i", "x");
  foreign.get().dictionary = &foreign.get();
  EXPECT_EQ(error_of([&] { static_cast<void>(import_field(foreign.get())); }).code(), errc::unsupported);
  foreign.get().dictionary = nullptr;

  foreign_schema many("+s", "x");
  for (int i = 0; i < 16; ++i) {
    many.add("i", "item");
  }
  std::vector<ArrowSchema*> itself(16, &many.get());
  ArrowSchema** const children = std::exchange(many.get().children, itself.data());
  const error seen = error_of([&] { static_cast<void>(import_field(many.get())); });
  many.get().children = children;
  EXPECT_EQ(seen.code(), errc::unsupported);
}

TEST(arrow_schema, supports_64_levels_and_no_more) {
  foreign_schema foreign("+l", "x");
  foreign_schema* deepest = &foreign;
  for (int level = 1; level < 64; ++level) {
    deepest = &deepest->add_nested("+l", "");
  }
  deepest = &deepest->add_nested("n", "");
  EXPECT_EQ(import_field(foreign.get()).type.depth(), 64);
  deepest->get().format = "+l";
  deepest->add("n", "");
  EXPECT_EQ(error_of([&] { static_cast<void>(import_field(foreign.get())); }).code(), errc::unsupported);
}

TEST(arrow_schema, refuses_exponentially_many_fields) {
  std::vector<std::unique_ptr<foreign_schema>> levels;
  levels.push_back(std::make_unique<foreign_schema>("n", "x"));
  std::vector<std::vector<ArrowSchema*>> children;
  for (int level = 0; level < 6; ++level) {
    children.emplace_back(16, &levels.back()->get());
    levels.push_back(std::make_unique<foreign_schema>("+s", "x"));
    levels.back()->get().n_children = 16;
    levels.back()->get().children = children.back().data();
  }
  const error seen = error_of([&] { static_cast<void>(import_field(levels.back()->get())); });
  EXPECT_EQ(seen.code(), errc::unsupported);
  EXPECT_NE(seen.message().find("more than 1048576 fields"), std::string::npos) << seen.message();
}

TEST(arrow_schema, explains_errors_of_fields) {
  const auto said = [](foreign_schema& of) {
    return error_of([&] { static_cast<void>(import_field(of.get())); }).message();
  };
  foreign_schema nameless("+x", nullptr);
  EXPECT_EQ(said(nameless).rfind("column '': '+x' is not an Arrow type", 0), 0U) << said(nameless);
  foreign_schema broken("i", "x");
  broken.get().n_children = -1;
  EXPECT_EQ(said(broken), "column 'x': n_children is -1 and children is null");
  broken.add("i", "a").get().n_children = -1;
  EXPECT_EQ(said(broken), "column 'x': n_children is -1");
  broken.get().n_children = 1;
  EXPECT_EQ(said(broken), "column 'x': n_children is 1, expected 0 for format 'i'");
  broken.get().release = nullptr;
  EXPECT_EQ(said(broken), "column '': the ArrowSchema was released already");
}

TEST(arrow_schema, explains_errors_of_dictionaries) {
  foreign_schema values("u", "");
  foreign_schema codes("f", "x");
  codes.get().dictionary = &values.get();
  const auto seen = [&] { return error_of([&] { static_cast<void>(import_field(codes.get())); }); };
  EXPECT_EQ(seen().code(), errc::format);
  EXPECT_EQ(seen().message(), "column 'x': dictionary indices are of type float, expected an integer");
  values.get().format = nullptr;
  EXPECT_EQ(seen().message(), "dictionary of column 'x': format is null");
  const auto release = std::exchange(values.get().release, nullptr);
  EXPECT_EQ(seen().code(), errc::closed);
  values.get().release = release;
}

TEST(arrow_schema, without_metadata_has_a_null_pointer) {
  arrow_schema exported = export_schema({{{"a", data_type(type_id::int32), true, {}}}, {}});
  EXPECT_EQ(exported.get().metadata, nullptr);
  EXPECT_EQ(exported.get().children[0]->metadata, nullptr);
}

struct mutation {
  const char* defect;
  std::function<void(ArrowSchema&)> apply;
  errc code;
};

TEST(arrow_schema, refuses_every_broken_field_and_leaves_the_struct_releasable) {
  static ArrowSchema* no_children[2] = {nullptr, nullptr};
  const std::int32_t negative = -1;
  std::string bad_metadata(reinterpret_cast<const char*>(&negative), sizeof negative);
  const std::vector<mutation> mutations{
      {"format null", [](ArrowSchema& s) { s.format = nullptr; }, errc::format},
      {"format of no type", [](ArrowSchema& s) { s.format = "y"; }, errc::format},
      {"format empty", [](ArrowSchema& s) { s.format = ""; }, errc::format},
      {"metadata of -1 keys", [&](ArrowSchema& s) { s.metadata = bad_metadata.c_str(); }, errc::format},
      {"unknown flag", [](ArrowSchema& s) { s.flags = 64; }, errc::format},
      {"ordered without a dictionary", [](ArrowSchema& s) { s.flags = ARROW_FLAG_DICTIONARY_ORDERED; },
       errc::format},
      {"n_children negative", [](ArrowSchema& s) { s.n_children = -1; }, errc::format},
      {"children null", [](ArrowSchema& s) { s.n_children = 1; }, errc::format},
      {"children of an int32",
       [](ArrowSchema& s) {
         s.n_children = 2;
         s.children = no_children;
       },
       errc::format},
      {"released", [](ArrowSchema& s) { s.release = nullptr; }, errc::closed},
  };
  for (const mutation& one : mutations) {
    SCOPED_TRACE(one.defect);
    foreign_schema foreign("i", "x");
    const ArrowSchema good = foreign.get();
    one.apply(foreign.get());
    EXPECT_EQ(error_of([&] { static_cast<void>(import_field(foreign.get())); }).code(), one.code);
    foreign.get() = good;
    EXPECT_EQ(foreign.releases(), 0);
    foreign.get().release(&foreign.get());
    EXPECT_EQ(foreign.releases(), 1);
  }
}

TEST(arrow_schema, refuses_text_that_is_not_utf8_with_its_field) {
  const auto said = [](foreign_schema& of) {
    return error_of([&] { static_cast<void>(import_field(of.get())); });
  };
  foreign_schema name("i", "a\xff");
  EXPECT_EQ(said(name).code(), errc::format);
  EXPECT_EQ(said(name).message(), R"(column 'a\xff': name is not UTF-8: 'a\xff')");
  foreign_schema zone("tsu:Mars/\xe9", "when");
  EXPECT_EQ(said(zone).message(), R"(column 'when': format is not UTF-8: 'tsu:Mars/\xe9')");
  foreign_schema indices("i", "codes");
  indices.get().dictionary = &zone.get();
  EXPECT_EQ(said(indices).message(), R"(dictionary of column 'codes': format is not UTF-8: 'tsu:Mars/\xe9')");
  foreign_schema extended("i", "x");
  extended.set_metadata({{"ARROW:extension:name", "\xc3"}});
  EXPECT_EQ(said(extended).message(), R"(column 'x': ARROW:extension:name is not UTF-8: '\xc3')");
  foreign_schema fine("tsu:\xc3\x89", "\xe2\x82\xac");
  fine.set_metadata({{"bytes", "\xff"}});
  EXPECT_EQ(import_field(fine.get()).name, "\xe2\x82\xac") << "values of other keys may be any bytes";
}

TEST(arrow_schema, refuses_broken_children_by_name_or_number) {
  foreign_schema foreign("+s", "");
  foreign.add("i", "a").add("i", "b");
  ArrowSchema* const second = foreign.get().children[1];
  foreign.get().children[1] = nullptr;
  EXPECT_EQ(error_of([&] { static_cast<void>(import_schema(foreign.get())); }).message(),
            "schema: children[1] is null");
  foreign.get().children[1] = second;
  const auto release = std::exchange(second->release, nullptr);
  EXPECT_EQ(error_of([&] { static_cast<void>(import_schema(foreign.get())); }).code(), errc::closed);
  second->release = release;
  second->format = "q";
  EXPECT_NE(error_of([&] { static_cast<void>(import_schema(foreign.get())); })
                .message()
                .find("column 'b': 'q' is not an Arrow type"),
            std::string::npos);
}

TEST(arrow_schema, of_a_table_is_a_struct) {
  const error seen = error_of([] { static_cast<void>(import_schema(foreign_schema("i", "x").get())); });
  EXPECT_EQ(seen.code(), errc::format);
  EXPECT_NE(seen.message().find("type int32, expected a struct"), std::string::npos) << seen.message();
}

} // namespace
} // namespace saeta
