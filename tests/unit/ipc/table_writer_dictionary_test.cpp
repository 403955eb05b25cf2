// Dictionaries that change between the tables of a writer: extended by deltas, replaced in a stream, refused
// in a file.
#include "dictionary_fixture.hpp"
#include "saeta/symbols/symbol_table.hpp"
#include "saeta/symbols/symbols.hpp"
#include "support/symbols.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace saeta::ipc {
namespace {

using support::cells;
using support::indices;
using support::same_contents;
using support::shared_array;
using support::strings;
using ::testing::ElementsAre;

bool has_dictionary(const data_type& type) {
  return type.value_type() != nullptr ||
         std::ranges::any_of(type.children(), [](const field& child) { return has_dictionary(child.type); });
}

class table_writer_dictionary : public dictionary_fixture {
protected:
  [[nodiscard]] std::string written(const std::vector<table>& tables, container format,
                                    bool deltas = false) const {
    std::string bytes;
    const auto append = [&](std::span<const std::byte> piece) {
      bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    };
    writer to(append, "sink", std::nullopt, {.format = format, .dictionary_deltas = deltas});
    for (const table& each : tables) {
      to.write(each);
    }
    to.close();
    return bytes;
  }
  /// Returns the rows of all tables, in order.
  static std::vector<support::cell> rows_of(const std::vector<table>& tables) {
    std::vector<support::cell> rows;
    for (const table& each : tables) {
      const auto more = cells(each, 0);
      rows.insert(rows.end(), more.begin(), more.end());
    }
    return rows;
  }
};

TEST_F(table_writer_dictionary, that_does_not_change_is_written_once) {
  const auto words = strings({"first-word", "second-word"});
  const std::vector<table> tables{table_of({indices({0, 1}, words)}), table_of({indices({1}, words)}),
                                  table_of({indices({0}, strings({"first-word", "second-word"}))})};
  for (const auto format : {container::file, container::stream}) {
    const std::string bytes = written(tables, format);
    EXPECT_EQ(occurrences(bytes, "first-word"), 1U);
    EXPECT_EQ(cells(read_bytes(bytes), 0), rows_of(tables));
  }
}

TEST_F(table_writer_dictionary, that_grows_is_written_as_deltas) {
  const std::vector<table> tables{
      table_of({indices({}, strings({}))}), table_of({indices({0, 1}, strings({"alpha", "beta"}))}),
      table_of({indices({2, 0}, strings({"alpha", "beta", "gamma"}))}),
      table_of({indices({1}, strings({"alpha", "beta"}))}), // a prefix of the dictionary in the file
      table_of({indices({3}, strings({"alpha", "beta", "gamma", "delta"}))})};
  const std::string in_file = written(tables, container::file);
  EXPECT_EQ(occurrences(in_file, "alpha"), 1U);
  for (const auto copy : {copy_policy::when_needed, copy_policy::always}) {
    EXPECT_EQ(cells(read_bytes(in_file, {.copy = copy}), 0), rows_of(tables));
  }
  const std::string in_stream = written(tables, container::stream, true);
  EXPECT_EQ(occurrences(in_stream, "alpha"), 2U) << "a shorter one replaces";
  EXPECT_EQ(cells(read_bytes(in_stream), 0), rows_of(tables));
}

TEST_F(table_writer_dictionary, with_other_values_is_replaced_in_a_stream_and_refused_in_a_file) {
  const std::vector<table> tables{table_of({indices({0, 1}, strings({"a", "b"}))}),
                                  table_of({indices({0, 1}, strings({"c", "b"}))})};
  EXPECT_EQ(cells(read_bytes(written(tables, container::stream)), 0), rows_of(tables));
  EXPECT_ERROR(written(tables, container::file), unsupported, "sink: column 'words'",
               "changes between batches", "format=\"stream\"");
}

TEST_F(table_writer_dictionary, of_several_batches_is_united_in_each_table) {
  const std::vector<table> tables{
      table_of({indices({0, 1}, strings({"a", "b"})), indices({0, 1}, strings({"c", "b"}))}),
      table_of({indices({0, 1}, strings({"a", "b"})), indices({0, 1}, strings({"c", "d"}))})};
  const table seen = read_bytes(written(tables, container::file));
  EXPECT_EQ(cells(seen, 0), rows_of(tables));
  EXPECT_THAT(cells(*seen.pieces(0).front().dictionary()), ElementsAre("a", "b", "c", "d"));
}

TEST_F(table_writer_dictionary, keeps_the_widened_indices_of_the_first_table) {
  const data_type type = data_type::dictionary(data_type(type_id::int8), data_type(type_id::int64));
  const auto values_of = [](std::int64_t count, std::uint64_t seed) {
    return support::random_array(data_type(type_id::int64), {count, 0, support::nulls::absent}, seed);
  };
  const auto rows_with = [&](const shared_array& values, std::uint64_t seed) {
    return support::random_indices(type, {50}, values, seed);
  };
  const auto first = values_of(100, 1);
  const auto second = values_of(100, 2);
  const table wide = table_of({rows_with(first, 1), rows_with(second, 2)});
  const table narrow = table_of({rows_with(first, 3)});
  const table seen = read_bytes(written({wide, narrow, wide}, container::file));
  EXPECT_EQ(cells(seen, 0), rows_of({wide, narrow, wide}));
  EXPECT_EQ(seen.fields().fields[0].type,
            data_type::dictionary(data_type(type_id::int16), data_type(type_id::int64)));
  EXPECT_ERROR(written({narrow, wide}, container::file), unsupported, "column 'words'", "200 values together",
               "int8", "format=\"stream\"");
}

TEST_F(table_writer_dictionary, inside_of_other_types_follows_the_same_rules) {
  std::vector<data_type> types = support::carried_types();
  std::erase_if(types,
                [](const data_type& type) { return type.value_type() != nullptr || !has_dictionary(type); });
  ASSERT_FALSE(types.empty());
  for (const bool several : {false, true}) {
    std::vector<std::int64_t> rows{40};
    if (several) {
      rows = {40, 9};
    }
    const table first = support::random_table(ctx(), types, {.batch_rows = rows, .seed = 1});
    const table other = support::random_table(ctx(), types, {.batch_rows = rows, .seed = 2});
    const table seen = read_bytes(written({first, first}, container::file), {.combine_chunks = false});
    EXPECT_TRUE(same_contents(seen.slice(0, first.rows()), first));
    EXPECT_TRUE(same_contents(seen.slice(first.rows(), first.rows()), first));
    const table streamed = read_bytes(written({first, other}, container::stream), {.combine_chunks = false});
    EXPECT_TRUE(same_contents(streamed.slice(first.rows(), first.rows()), other));
    EXPECT_ERROR(written({first, other}, container::file), unsupported, "sink: column '0:", "changes");
  }
}

TEST_F(table_writer_dictionary, of_symbols_grows_with_their_names) {
  const auto symbols = symbol_table::make();
  const auto named = [&](const std::vector<std::string_view>& names) {
    const table plain = table_of({strings(names)});
    return table::make(ctx(), {{{"words", symbol_type(symbols), true, {}}}, {}},
                       {{plain.rows(), as_symbols(plain.pieces(0), symbols)}});
  };
  const std::vector<table> tables{named({"alpha", "beta", "alpha"}), named({"beta", "gamma"}),
                                  named({"alpha"})};
  const std::string bytes = written(tables, container::file);
  EXPECT_EQ(occurrences(bytes, "alpha"), 1U);
  EXPECT_THAT(support::names_of(read_bytes(bytes, {.combine_chunks = true}).pieces(0).front()),
              ElementsAre("alpha", "beta", "alpha", "beta", "gamma", "alpha"));
}

} // namespace
} // namespace saeta::ipc
