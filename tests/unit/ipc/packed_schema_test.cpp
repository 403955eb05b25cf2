// Schemas of the packed form that are kept.

#include "saeta/ipc/format/packed_schema.hpp"
#include "saeta/symbols/symbols.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>

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

TEST(packed_schema, keeps_the_names_of_children_apart) {
  const schema_index first(lists_of("item"));
  const schema_index second(lists_of("element"));
  EXPECT_NE(packed_form(first)->flat, packed_form(second)->flat);
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
