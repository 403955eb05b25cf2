// Codes: the integers of dictionary and symbol columns, without their values.
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/symbols/symbols.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

namespace saeta {
namespace {

const data_type text(type_id::string);
const data_type bytes(type_id::uint8);

TEST(codes, have_the_type_of_indices_or_of_symbols) {
  EXPECT_EQ(*code_type(data_type::dictionary(bytes, text)), bytes);
  EXPECT_EQ(*code_type(symbol_type()), data_type(type_id::uint32));
  EXPECT_EQ(code_type(data_type(type_id::uint32)), nullptr);
  EXPECT_EQ(code_type(text), nullptr);
}

TEST(codes, of_a_column_are_integers) {
  const auto ctx = context::create(make_host_backend());
  EXPECT_EQ(codes_of(column::empty(ctx, data_type::dictionary(bytes, text))).type(), bytes);
  EXPECT_EQ(codes_of(column::empty(ctx, symbol_type())).type(), data_type(type_id::uint32));
}

TEST(codes, are_bounded_by_the_index_type_or_the_symbol_table) {
  host_array values;
  values.type = text;
  host_array array;
  array.type = data_type::dictionary(bytes, text);
  for (const auto& [entries, limit] : {std::pair(3, 3), std::pair(1000, 256)}) {
    values.length = entries;
    array.dictionary = std::make_shared<const host_array>(values);
    EXPECT_EQ(code_limit(array), limit);
  }
  EXPECT_EQ(codes_of(array).type, bytes);
  EXPECT_EQ(code_limit(codes_of(array)), std::nullopt);
  const auto table = symbol_table::make();
  table->intern("a");
  array = {};
  array.type = symbol_type(table);
  EXPECT_EQ(code_limit(array), 1);
  EXPECT_EQ(codes_of(array).type, data_type(type_id::uint32));
}

} // namespace
} // namespace saeta
