#include "saeta/base/error.hpp"
#include "saeta/base/text.hpp"
#include "saeta/column/schema.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace saeta {
namespace {

field named(std::string name) { return {std::move(name), data_type(type_id::int32), true, {}}; }

std::string message_of(const schema& fields, std::string_view name) {
  try {
    static_cast<void>(fields.index_of(name));
  } catch (const error& seen) {
    EXPECT_EQ(seen.code(), errc::column_name);
    return seen.message();
  }
  return "no error";
}

TEST(schema, finds_the_only_field_of_a_name) {
  const schema fields{{named("a"), named(""), named("b")}, {}};
  EXPECT_EQ(fields.index_of("a"), 0U);
  EXPECT_EQ(fields.index_of(""), 1U);
  EXPECT_EQ(fields.index_of("b"), 2U);
}

TEST(schema, lists_the_existing_names_if_one_is_missing) {
  EXPECT_EQ(message_of({{named("a"), named("b")}, {}}, "c"), "no column 'c': the columns are 'a', 'b'");
  EXPECT_EQ(message_of({}, "c"), "no column 'c': there are no columns");
}

TEST(schema, suggests_the_closest_name) {
  const schema fields{{named("fare_amount"), named("fare"), named("tip"), named("id")}, {}};
  const std::string all = "The columns are 'fare_amount', 'fare', 'tip', 'id'";
  for (const auto& [wanted, meant] :
       std::vector<std::pair<std::string, std::string>>{{"Fare", "fare"},
                                                        {"fair", "fare"},
                                                        {"fares", "fare"},
                                                        {"fare_amonut", "fare_amount"},
                                                        {"ID", "id"},
                                                        {"top", "tip"}}) {
    EXPECT_EQ(message_of(fields, wanted),
              concat("no column '", wanted, "': did you mean '", meant, "'? ", all));
  }
  for (const std::string& far : std::vector<std::string>{"ix", "city", "", std::string(100, 'x')}) {
    EXPECT_EQ(message_of(fields, far).find("did you mean"), std::string::npos) << far;
  }
}

TEST(schema, limits_the_list_of_names) {
  schema wide;
  for (int i = 0; i < 40; ++i) {
    wide.fields.push_back(named("x" + std::to_string(i)));
  }
  const std::string seen = message_of(wide, "c");
  EXPECT_NE(seen.find("'x31' and 8 more"), std::string::npos) << seen;
  EXPECT_EQ(seen.find("'x32'"), std::string::npos) << seen;
  wide.fields.resize(32);
  EXPECT_TRUE(message_of(wide, "c").ends_with("'x30', 'x31'")) << "all of them are listed";
}

TEST(schema, refuses_a_name_that_several_fields_have) {
  EXPECT_EQ(message_of({{named("a"), named("b"), named("a")}, {}}, "a"),
            "2 columns are named 'a': choose one by its index");
}

TEST(schema, is_equal_only_with_all_of_its_fields_and_metadata) {
  const schema one{{named("a")}, {{"k", "v"}}};
  schema other = one;
  EXPECT_EQ(one, other);
  other.fields[0].nullable = false;
  EXPECT_NE(one, other);
  other = one;
  other.metadata.emplace_back("k", "v");
  EXPECT_NE(one, other);
  other = one;
  other.fields[0].metadata.emplace_back("k", "v");
  EXPECT_NE(one, other);
}

TEST(schema, moves_extension_keys_from_metadata_to_the_type) {
  const data_type storage(type_id::int32);
  metadata_list marked{{"k", "v"},
                       {"ARROW:extension:metadata", "m"},
                       {"ARROW:extension:name", "first"},
                       {"ARROW:extension:name", "second"}};
  EXPECT_EQ(take_extension(storage, marked), storage.with_extension("first", "m"));
  EXPECT_EQ(marked, (metadata_list{{"k", "v"}, {"ARROW:extension:name", "second"}}));
  for (const metadata_list& plain :
       {metadata_list{}, metadata_list{{"ARROW:extension:metadata", "m"}, {"ARROW:extension:name", ""}}}) {
    metadata_list same = plain;
    EXPECT_EQ(take_extension(storage, same), storage);
    EXPECT_EQ(same, plain);
  }
}

TEST(schema_index, finds_names_as_the_schema_does) {
  const schema fields{{named("a"), named("b"), named("a"), named("")}, {}};
  const schema_index index(fields);
  EXPECT_EQ(index.index_of("b"), 1U);
  EXPECT_EQ(index.index_of(""), 3U);
  for (const char* name : {"a", "c"}) {
    try {
      static_cast<void>(index.index_of(name));
      ADD_FAILURE() << name;
    } catch (const error& seen) {
      EXPECT_EQ(seen.message(), message_of(fields, name));
    }
  }
}

} // namespace
} // namespace saeta
