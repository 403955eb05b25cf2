// Conversion of columns to symbols, and of symbols to dictionaries.
#include "conformance/harness/arrow_test.hpp"
#include "saeta/base/text.hpp"
#include "saeta/column/view_cast.hpp"
#include "saeta/interop/arrow/c_data.hpp"
#include "saeta/symbols/symbols.hpp"
#include "support/arrays.hpp"
#include "support/symbols.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace saeta::conformance {
namespace {

using support::cell;
using support::cells;
using support::names_of;
using support::nulls;
using support::random_array;
using support::random_indices;
using support::shared_array;

class symbols : public arrow_test {
protected:
  [[nodiscard]] column numbers(type_id type, const std::vector<std::int32_t>& values) const {
    support::plain_array array;
    array.type = data_type(type);
    array.length = static_cast<std::int64_t>(values.size());
    const auto bytes = std::as_bytes(std::span(values));
    array.buffers = {{}, {bytes.begin(), bytes.end()}};
    return imported(std::make_shared<const support::plain_array>(std::move(array)));
  }
  column one(const column& source) const { return as_symbols(std::span(&source, 1), table_).front(); }

  std::shared_ptr<symbol_table> table_ = symbol_table::make();
};

TEST_P(symbols, of_dictionaries_have_the_names_of_their_rows) {
  std::uint64_t seed = 1;
  for (const char* const index : {"c", "C", "s", "S", "i", "I", "l", "L"}) {
    for (const char* const values : {"u", "U"}) {
      for (const nulls in_values : {nulls::absent, nulls::some, nulls::all}) {
        for (const nulls in_rows : {nulls::absent, nulls::some, nulls::all}) {
          const shared_array dictionary = random_array(data_type::parse(values), {23, 3, in_values}, ++seed);
          const data_type type = data_type::dictionary(data_type::parse(index), data_type::parse(values));
          const column source = imported(random_indices(type, {150, 7, in_rows, false}, dictionary, ++seed));
          for (const auto& [offset, length] : {std::pair{0, 150}, {9, 77}, {0, 1}, {64, 65}, {150, 0}}) {
            const column rows = source.slice(offset, length);
            const column made = one(rows);
            EXPECT_EQ(made.type(), symbol_type(table_));
            const std::vector<cell> expected = cells(rows);
            EXPECT_EQ(names_of(made), expected) << type.name() << ' ' << offset;
            EXPECT_EQ(made.null_count(), std::ranges::count(expected, cell()));
          }
        }
      }
    }
  }
}

TEST_P(symbols, have_the_null_count_of_the_indices_if_the_values_have_no_nulls) {
  const shared_array values = random_array(data_type(type_id::string), {23, 0, nulls::absent}, 1);
  const data_type type = data_type::dictionary(data_type(type_id::int8), values->type);
  const column none = one(imported(random_indices(type, {150, 7, nulls::absent}, values, 2)));
  EXPECT_FALSE(none.validity().present());
  EXPECT_EQ(none.known_null_count(), 0);
  const column source = imported(random_indices(type, {150, 7, nulls::some}, values, 3));
  EXPECT_EQ(one(source).known_null_count(), source.null_count());
}

TEST_P(symbols, of_strings_have_the_names_of_their_rows) {
  for (const char* const type : {"u", "U", "vu"}) {
    for (const nulls in_rows : {nulls::absent, nulls::some, nulls::all}) {
      const column source = imported(random_array(data_type::parse(type), {10'000, 9, in_rows}, 3));
      for (const auto& [offset, length] : {std::pair{0, 10'000}, {13, 8191}, {5000, 1}, {5, 0}}) {
        const column rows = source.slice(offset, length);
        const column made = one(rows);
        EXPECT_EQ(names_of(made), cells(rows)) << type;
        EXPECT_EQ(made.null_count(), rows.null_count());
      }
    }
  }
}

TEST_P(symbols, of_repeated_dictionary_values_are_the_same) {
  const column source = imported(support::indices({0, 1, 2, 0}, support::strings({"a", "b", "a"})));
  EXPECT_EQ(cells(view_cast(one(source), data_type(type_id::uint32))),
            cells(numbers(type_id::uint32, {0, 1, 0, 0})));
}

TEST_P(symbols, of_integers_are_views) {
  table_->intern("a");
  table_->intern("b");
  for (const type_id type : {type_id::uint32, type_id::int32}) {
    const column source = numbers(type, {1, 0, 1, 1}).slice(1, 3);
    const column made = one(source);
    EXPECT_EQ(made.values().address(), source.values().address());
    EXPECT_EQ(made.offset(), source.offset());
    EXPECT_EQ(names_of(made), (std::vector<cell>{"a", "b", "b"}));
  }
  const column none = numbers(type_id::uint32, {}).slice(0, 0);
  ctx()->copies().reset_counters();
  EXPECT_EQ(one(none).length(), 0);
  EXPECT_EQ(ctx()->copies().read_counters().scalars, traffic{}) << "no row was looked at";
}

TEST_P(symbols, of_integers_without_a_name_are_refused_with_the_row) {
  table_->intern("a");
  const auto refused = [&](const column& from) {
    try {
      one(from);
    } catch (const error& why) {
      EXPECT_EQ(why.code(), errc::out_of_range);
      return why.message();
    }
    return std::string("nothing");
  };
  EXPECT_EQ(refused(numbers(type_id::uint32, {0, 0, 1})),
            "row 2: symbol 1 is not in the symbol table, which has 1 names");
  EXPECT_EQ(refused(numbers(type_id::int32, {0, -1}).slice(1, 1)),
            "row 0: symbol 4294967295 is not in the symbol table, which has 1 names");
  // Values under a null are not checked.
  const column any = imported(random_array(data_type(type_id::uint32), {40, 3, nulls::all}, 5));
  EXPECT_EQ(names_of(one(any)), std::vector<cell>(40));
  support::plain_array array;
  array.type = data_type(type_id::uint32);
  array.length = 16;
  array.null_count = -1;
  const std::vector<std::uint32_t> values{0, 9, 0, 9, 9, 9, 0, 0, 9, 0, 9, 9, 9, 0, 0, 0};
  const auto bytes = std::as_bytes(std::span(values));
  array.buffers = {{std::byte{0b1100'0101}, std::byte{0b1110'0010}}, {bytes.begin(), bytes.end()}};
  const column some = imported(std::make_shared<const support::plain_array>(std::move(array)));
  EXPECT_EQ(names_of(one(some.slice(3, 9))), (std::vector<cell>{{}, {}, {}, "a", "a", {}, "a", {}, {}}));
}

TEST_P(symbols, of_another_table_keep_their_names) {
  const auto other = symbol_table::make();
  other->intern("not used");
  const column source = imported(support::strings({"b", "a", "b"}));
  const column there = as_symbols(std::span(&source, 1), other).front();
  table_->intern("a");
  EXPECT_EQ(names_of(one(there.slice(1, 2))), (std::vector<cell>{"a", "b"}));
  EXPECT_EQ(table_->size(), 2U);
  EXPECT_EQ(table_->find("not used"), std::nullopt);
  const column same = one(one(there));
  EXPECT_EQ(same.values().address(), one(same).values().address());
}

TEST_P(symbols, of_pieces_with_a_common_dictionary_look_up_its_values_once) {
  const column source = imported(support::indices({0, 1, 1, 0}, support::strings({"a", "b"})));
  const std::vector<column> pieces{source.slice(0, 1), source.slice(1, 3), source.slice(2, 0)};
  ctx()->copies().reset_counters();
  const std::vector<column> made = as_symbols(pieces, table_);
  if (!ctx()->on_host()) {
    EXPECT_EQ(ctx()->copies().read_counters().device_to_host.transfers, 1U);
  }
  ASSERT_EQ(made.size(), 3U);
  EXPECT_EQ(names_of(made[0]), (std::vector<cell>{"a"}));
  EXPECT_EQ(names_of(made[1]), (std::vector<cell>{"b", "b", "a"}));
  EXPECT_EQ(made[2].length(), 0);
}

TEST_P(symbols, of_pieces_with_different_dictionaries_are_mapped_separately) {
  const column first = imported(support::indices({0, 1, 1}, support::strings({"a", "b"})));
  const column second = imported(support::indices({1, 0, 2}, support::strings({"c", "a", "d"})));
  const std::vector<column> pieces{first, second, first.slice(1, 2), second.slice(2, 1)};
  const std::vector<column> made = as_symbols(pieces, table_);
  ASSERT_EQ(made.size(), 4U);
  EXPECT_EQ(names_of(made[0]), (std::vector<cell>{"a", "b", "b"}));
  EXPECT_EQ(names_of(made[1]), (std::vector<cell>{"a", "c", "d"}));
  EXPECT_EQ(names_of(made[2]), (std::vector<cell>{"b", "b"}));
  EXPECT_EQ(names_of(made[3]), (std::vector<cell>{"d"}));
}

TEST_P(symbols, can_not_be_made_of_other_types) {
  for (const char* const type : {"z", "l", "L", "f", "b", "vz", "w:4", "tdD"}) {
    const data_type from = data_type::parse(type);
    EXPECT_FALSE(can_be_symbols(from)) << type;
    try {
      one(imported(random_array(from, {10, 0, nulls::some}, 1)));
      ADD_FAILURE() << type;
    } catch (const error& why) {
      EXPECT_EQ(why.code(), errc::type_mismatch);
      EXPECT_NE(why.message().find("expected strings, a dictionary of strings, uint32 or int32"),
                std::string::npos);
    }
  }
  const data_type number(type_id::uint32);
  EXPECT_FALSE(can_be_symbols(number.with_extension("x", "")));
  EXPECT_FALSE(can_be_symbols(data_type(type_id::string).with_extension("x", "")));
  EXPECT_FALSE(can_be_symbols(data_type::dictionary(number, number)));
  EXPECT_FALSE(
      can_be_symbols(data_type::dictionary(number, data_type(type_id::string)).with_extension("x", "")));
}

TEST_P(symbols, beyond_the_budget_are_refused_without_leaks) {
  const column source = imported(support::indices({0, 1, 1, 0}, support::strings({"a", "b"})));
  const auto full = symbol_table::make(1);
  const std::uint64_t before = ctx()->reports().statistics().budget.current;
  try {
    static_cast<void>(as_symbols(std::span(&source, 1), full));
    ADD_FAILURE();
  } catch (const error& why) {
    EXPECT_EQ(why.code(), errc::overflow);
  }
  ctx()->set_budget(ctx()->reports().statistics().budget.current);
  try {
    one(source);
    ADD_FAILURE();
  } catch (const error& why) {
    EXPECT_EQ(why.code(), errc::budget_exceeded);
  }
  ctx()->synchronize(ctx()->work_stream());
  EXPECT_EQ(ctx()->reports().statistics().budget.current, before);
}

TEST_P(symbols, of_values_on_a_device_are_refused_if_downloads_are_forbidden) {
  if (ctx()->on_host()) {
    GTEST_SKIP() << "on the host nothing is downloaded";
  }
  const column text = imported(support::strings({"a"}));
  const column encoded = imported(support::indices({0}, support::strings({"a"})));
  const std::shared_ptr<void> strict = ctx()->copies().forbid_downloads();
  for (const column* each : {&text, &encoded}) {
    try {
      one(*each);
      ADD_FAILURE();
    } catch (const error& why) {
      EXPECT_EQ(why.code(), errc::download_forbidden);
    }
  }
}

TEST_P(symbols, wait_for_the_writer_of_their_indices) {
  if (ctx()->on_host()) {
    GTEST_SKIP() << nothing_pends;
  }
  const column dictionary = imported(support::strings({"a", "b"}));
  const buffer indices = make(64);
  fill(indices, 0, ctx()->work_stream());
  ctx()->synchronize(ctx()->work_stream());
  const stream side(shared_device());
  const auto held = close_gate(side.ref().native_handle());
  fill(indices, 1, side.ref());
  const column source = column::make(
      ctx(), {.type = data_type::dictionary(data_type(type_id::uint8), data_type(type_id::string)),
              .length = 64,
              .offset = 0,
              .null_count = 0,
              .buffers = {{}, indices},
              .dictionary = std::make_shared<const column>(dictionary)});
  const column made = one(source);
  held->open();
  EXPECT_EQ(names_of(made), std::vector<cell>(64, "b"));
}

SAETA_CONFORMANCE_SUITE(symbols);

/// Makes a host array of symbols.
host_array rows_of(const std::vector<symbol>& numbers) {
  host_array made;
  made.type = data_type(type_id::uint32);
  made.length = static_cast<std::int64_t>(numbers.size());
  made.buffers = {{}, std::as_bytes(std::span(numbers))};
  return made;
}

std::vector<std::string> names_in(const host_array& values) {
  const auto* const offsets = reinterpret_cast<const std::int32_t*>(values.buffers[1].data());
  const auto* const bytes = reinterpret_cast<const char*>(values.buffers[2].data());
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < values.length; ++i) {
    names.emplace_back(bytes + offsets[i], bytes + offsets[i + 1]);
  }
  return names;
}

TEST(symbol_dictionaries, have_each_name_once_in_the_order_of_rows) {
  const auto table = symbol_table::make();
  for (const char* const name : {"a", "b", "", "d"}) {
    table->intern(name);
  }
  symbol_dictionary names(table);
  std::vector<std::uint32_t> indices(5);
  const std::vector<symbol> rows{3, 2, 3, 0, 2};
  names.take(rows_of(rows), "x", indices.data());
  EXPECT_EQ(indices, (std::vector<std::uint32_t>{0, 1, 0, 2, 1}));
  EXPECT_EQ(names_in(names.values()), (std::vector<std::string>{"d", "", "a"}));
}

TEST(symbol_dictionaries, grow_without_changing_exported_dictionaries) {
  const auto table = symbol_table::make();
  std::vector<symbol> rows;
  for (int i = 0; i < 10'000; ++i) {
    rows.push_back(table->intern(concat("name ", i)));
  }
  symbol_dictionary names(table);
  std::vector<std::pair<host_array, std::shared_ptr<void>>> handed_out;
  for (std::size_t i = 0; i < rows.size(); i += 100) {
    names.take(rows_of({rows.begin() + static_cast<std::ptrdiff_t>(i),
                        rows.begin() + static_cast<std::ptrdiff_t>(i) + 100}),
               "x", nullptr);
    host_array values = names.values();
    handed_out.emplace_back(std::move(values), names.keepalive());
  }
  std::size_t memories = 1;
  for (std::size_t i = 0; i < handed_out.size(); ++i) {
    const std::vector<std::string> seen = names_in(handed_out[i].first);
    ASSERT_EQ(seen.size(), 100 * (i + 1));
    EXPECT_EQ(seen.front(), "name 0");
    EXPECT_EQ(seen.back(), concat("name ", seen.size() - 1));
    memories += i != 0 && handed_out[i].second != handed_out[i - 1].second ? 1U : 0U;
  }
  EXPECT_LT(memories, 12U) << "each time twice the room";
}

TEST(symbol_dictionaries, name_the_row_of_an_unknown_symbol) {
  const auto table = symbol_table::make();
  table->intern("a");
  symbol_dictionary names(table);
  try {
    names.take(rows_of({0, 0, 1}), "column 'x'", nullptr);
    ADD_FAILURE();
  } catch (const error& why) {
    EXPECT_EQ(why.code(), errc::out_of_range);
    EXPECT_EQ(why.message(), "column 'x': row 2: symbol 1 is not in the symbol table, which has 1 names");
  }
}

} // namespace
} // namespace saeta::conformance
