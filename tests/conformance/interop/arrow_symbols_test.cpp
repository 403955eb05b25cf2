// Arrow exports and imports of symbols: as dictionaries on the host, and as integers with metadata on
// devices.
#include "conformance/harness/arrow_test.hpp"
#include "saeta/base/text.hpp"
#include "saeta/interop/arrow/device.hpp"
#include "saeta/interop/arrow/owned.hpp"
#include "saeta/symbols/symbols.hpp"
#include "support/error_of.hpp"
#include "support/foreign_schema.hpp"
#include "support/symbols.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string_view>
#include <utility>

namespace saeta::conformance {
namespace {

using support::cell;
using support::cells;
using support::names_of;

using entries = metadata_list;

using support::error_of;

class arrow_symbols : public arrow_test {
protected:
  static inline const data_type encoded =
      data_type::dictionary(data_type(type_id::uint32), data_type(type_id::string));

  [[nodiscard]] column symbols_of(const std::vector<std::string_view>& names,
                                  const std::shared_ptr<symbol_table>& table = process_symbols()) const {
    const column text = imported(support::strings(names));
    return as_symbols(std::span(&text, 1), table).front();
  }
  [[nodiscard]] field described(const std::shared_ptr<symbol_table>& table = process_symbols()) const {
    return {"x", symbol_type(table), true, {{"unit", "none"}}};
  }
  [[nodiscard]] table rows(std::vector<column> pieces) const {
    std::vector<batch> batches;
    for (column& each : pieces) {
      batches.push_back({each.length(), {std::move(each)}});
    }
    return table::make(ctx(), {{described()}, {}}, std::move(batches));
  }
  /// Makes a column of uint32 with these numbers.
  [[nodiscard]] column numbers(const std::vector<symbol>& values) const {
    support::plain_array array;
    array.type = data_type(type_id::uint32);
    array.length = static_cast<std::int64_t>(values.size());
    const auto bytes = std::as_bytes(std::span(values));
    array.buffers = {{}, {bytes.begin(), bytes.end()}};
    return imported(std::make_shared<const support::plain_array>(std::move(array)));
  }
  /// Makes a column of symbols from numbers without checking them.
  [[nodiscard]] column unchecked(const std::vector<symbol>& values) const {
    const column plain = numbers(values);
    column::parts parts;
    parts.type = symbol_type();
    parts.length = plain.length();
    parts.null_count = 0;
    parts.buffers.assign(plain.buffers().begin(), plain.buffers().end());
    return column::make(ctx(), std::move(parts));
  }
};

TEST_P(arrow_symbols, are_exported_to_the_host_as_a_dictionary_of_the_used_names) {
  process_symbols()->intern("in no row");
  const column source = symbols_of({"first", "b", "a", "b", "", "a"}).slice(1, 5);
  arrow_schema type = export_field(described());
  EXPECT_EQ(import_field(type.get()),
            (field{"x", encoded, true, {{"unit", "none"}, {"xlog.symbol", "true"}}}));
  arrow_array out = export_column(source);
  EXPECT_EQ(out.get().dictionary->length, 3);
  const column seen = import_column(ctx(), {"x", encoded, true, {}}, out.get());
  EXPECT_EQ(cells(seen), (std::vector<cell>{"b", "a", "b", "", "a"}));
  EXPECT_EQ(cells(*seen.dictionary()), (std::vector<cell>{"b", "a", ""}));
}

TEST_P(arrow_symbols, are_exported_to_the_host_with_nulls_and_offsets) {
  const auto dictionary =
      support::random_array(data_type(type_id::string), {30, 0, support::nulls::absent}, 7);
  const column source = imported(
      support::random_indices(data_type::dictionary(data_type(type_id::int16), data_type(type_id::string)),
                              {500, 5, support::nulls::some}, dictionary, 8));
  const column symbols = as_symbols(std::span(&source, 1), process_symbols()).front();
  for (const auto& [offset, length] : {std::pair{0, 500}, {9, 300}, {491, 9}, {3, 0}}) {
    arrow_array out = export_column(symbols.slice(offset, length));
    EXPECT_LT(out.get().offset, 8) << "no room for rows in front";
    const column seen = import_column(ctx(), {"x", encoded, true, {}}, out.get());
    EXPECT_EQ(cells(seen), cells(source.slice(offset, length)));
  }
}

TEST_P(arrow_symbols, of_a_stream_have_growing_dictionaries) {
  const table source = rows({symbols_of({"a", "b"}), symbols_of({"b", "a"}), symbols_of({"c", "a"})});
  arrow_owned<ArrowArrayStream> out = export_stream(source);
  std::vector<std::int64_t> values;
  std::vector<const void*> names;
  std::vector<arrow_array> kept;
  for (;;) {
    arrow_array& next = kept.emplace_back();
    ASSERT_EQ(out.get().get_next(&out.get(), next.out()), 0);
    if (next.empty()) {
      break;
    }
    values.push_back(next.get().children[0]->dictionary->length);
    names.push_back(next.get().children[0]->dictionary->buffers[2]);
  }
  EXPECT_EQ(values, (std::vector<std::int64_t>{2, 2, 3}));
  EXPECT_EQ(names[0], names[1]);
  EXPECT_EQ(std::string_view(static_cast<const char*>(kept[2].get().children[0]->dictionary->buffers[2]), 3),
            "abc");
}

/// Decodes ArrowSchema::metadata: a count, then the size and the text of each key and value.
entries entries_of(const char* encoded) {
  const auto number = [&] {
    std::int32_t value = 0;
    std::memcpy(&value, encoded, sizeof value);
    encoded += sizeof value;
    return value;
  };
  const auto text = [&] {
    const auto size = static_cast<std::size_t>(number());
    return std::string(std::exchange(encoded, encoded + size), size);
  };
  entries found;
  for (std::int32_t left = number(); left > 0; --left) {
    std::string key = text();
    found.emplace_back(std::move(key), text());
  }
  return found;
}

TEST_P(arrow_symbols, are_exported_to_devices_as_integers_with_the_metadata_of_xlog) {
  const column source = symbols_of({"a", "b", "a"}).slice(1, 2);
  arrow_schema type = export_field(described(), symbol_form::numbers);
  EXPECT_EQ(std::string_view(type.get().format), "I");
  const entries metadata = entries_of(type.get().metadata);
  EXPECT_THAT(metadata, ::testing::IsSupersetOf(entries{
                            {"unit", "none"}, {"xlog.symbol", "true"}, {"xlog.symbol_encoding", "u32"}}));
  arrow_device_array out = export_device_column(source);
  EXPECT_EQ(out.get().array.dictionary, nullptr);
  EXPECT_EQ(out.get().array.buffers[1], reinterpret_cast<const void*>(source.values().address()));
  const field taken = import_field(type.get());
  EXPECT_EQ(taken, described());
  EXPECT_EQ(saeta::resolve_symbols(taken), taken);
  const column seen = import_device_column(ctx(), taken, out.get());
  EXPECT_EQ(seen.type(), symbol_type());
  EXPECT_EQ(seen.values().address(), source.values().address());
  EXPECT_EQ(names_of(seen), (std::vector<cell>{"b", "a"}));
}

TEST_P(arrow_symbols, are_imported_from_streams_of_both_forms) {
  const table source = rows({symbols_of({"a", "b", "a"}), symbols_of({"c"}), symbols_of({"c", "a"})});
  arrow_owned<ArrowArrayStream> on_host = export_stream(source);
  const table again = import_stream(ctx(), on_host.get());
  EXPECT_EQ(again.fields(), source.fields());
  arrow_owned<ArrowDeviceArrayStream> on_device = export_device_stream(source);
  const table there = import_device_stream(ctx(), on_device.get()).rows;
  EXPECT_EQ(there.fields(), source.fields());
  for (const table* const each : {&again, &there}) {
    ASSERT_EQ(each->batches().size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(names_of(each->pieces(0)[i]), names_of(source.pieces(0)[i]));
    }
  }
}

TEST_P(arrow_symbols, are_imported_from_dictionaries_marked_by_metadata) {
  const std::vector<entries> called{{{"xlog.symbol", "true"}},
                                    {{"xlog.symbol_encoding", "u32"}, {"k", "v"}, {"xlog.symbol", "true"}}};
  for (const entries& metadata : called) {
    const auto source = support::indices({1, 0, 1}, support::strings({"a", "b"}));
    const field wire{"x", source->type, true, metadata};
    EXPECT_TRUE(saeta::resolve_symbols(wire).type.is_symbol());
    EXPECT_EQ(saeta::resolve_symbols(wire).metadata.size(), metadata.size() == 1 ? 0U : 1U);
    arrow_array given = support::to_c(source);
    EXPECT_EQ(names_of(import_column(ctx(), wire, given.get())), (std::vector<cell>{"b", "a", "b"}));
    arrow_device_array handed = export_device_column(imported(source));
    EXPECT_EQ(names_of(import_device_column(ctx(), wire, handed.get())), (std::vector<cell>{"b", "a", "b"}));
  }
}

TEST_P(arrow_symbols, are_not_imported_without_the_metadata) {
  const auto source = support::indices({1, 0, 1}, support::strings({"a", "b"}));
  const std::vector<entries> not_called{
      {}, {{"xlog.symbol", "false"}}, {{"xlog.symbol", "true"}, {"xlog.symbol_encoding", "u64"}}};
  for (const entries& metadata : not_called) {
    const field wire{"x", source->type, true, metadata};
    EXPECT_EQ(saeta::resolve_symbols(wire), wire);
    arrow_array given = support::to_c(source);
    EXPECT_EQ(import_column(ctx(), wire, given.get()).type(), source->type);
  }
  const entries called{{"xlog.symbol", "true"}};
  for (const data_type& type :
       {data_type(type_id::float32), data_type(type_id::int32), data_type(type_id::string),
        data_type::dictionary(data_type(type_id::int8), data_type(type_id::binary)),
        data_type(type_id::uint32).with_extension("x", "")}) {
    const field wire{"x", type, true, called};
    EXPECT_EQ(saeta::resolve_symbols(wire), wire) << type.name();
  }
}

TEST_P(arrow_symbols, of_a_table_of_another_process_stay_integers) {
  for (const char* const identity : {"somewhere-1-0-0", ""}) {
    support::foreign_schema type("I", "x");
    const entries metadata{
        {"xlog.symbol", "true"}, {"xlog.symbol_encoding", "u32"}, {"saeta.symbol_table", identity}};
    type.set_metadata(metadata);
    const field seen = import_field(type.get());
    EXPECT_EQ(seen, (field{"x", data_type(type_id::uint32), true, metadata}));
    const error refused = error_of([&] { static_cast<void>(as_symbols(seen, process_symbols())); });
    EXPECT_EQ(refused.code(), errc::exchange);
    EXPECT_NE(refused.message().find("column 'x': its numbers are symbols of the table"), std::string::npos)
        << refused.message();
  }
}

TEST_P(arrow_symbols, of_no_table_round_trip_as_integers) {
  const std::vector<entries> of_xlog{{{"xlog.symbol", "true"}},
                                     {{"k", "v"}, {"xlog.symbol", "true"}, {"xlog.symbol_encoding", "u32"}}};
  process_symbols()->intern("a name of something else");
  for (const entries& metadata : of_xlog) {
    support::foreign_schema type("I", "x");
    type.set_metadata(metadata);
    const field seen = import_field(type.get());
    EXPECT_EQ(seen, (field{"x", data_type(type_id::uint32), true, metadata}));
    const std::vector<symbol> any{0, 4294967295U, 1};
    arrow_device_array handed = export_device_column(numbers(any));
    const column taken = import_device_column(ctx(), seen, handed.get());
    EXPECT_EQ(cells(taken), cells(numbers(any)));
    for (const symbol_form form : {symbol_form::numbers, symbol_form::dictionary}) {
      arrow_schema out = export_field(seen, form);
      EXPECT_EQ(std::string_view(out.get().format), "I");
      EXPECT_EQ(entries_of(out.get().metadata), metadata);
    }
    const error refused = error_of([&] { static_cast<void>(as_symbols(seen, nullptr)); });
    EXPECT_EQ(refused.code(), errc::exchange);
    EXPECT_EQ(refused.message(), "column 'x': its numbers are symbols of a table that its metadata do not "
                                 "name: give that table, as in as_symbols(table)");
    const auto table = symbol_table::make();
    EXPECT_EQ(as_symbols(seen, table).type, symbol_type(table));
    EXPECT_EQ(as_symbols(seen, process_symbols()).type, symbol_type());
  }
  const field plain{"x", data_type(type_id::uint32), true, {}};
  EXPECT_EQ(as_symbols(plain, nullptr).type, symbol_type()) << "nothing says that they are another's";
}

TEST_P(arrow_symbols, of_another_table_of_the_process_keep_their_table) {
  const auto table = symbol_table::make();
  arrow_schema type = export_field(described(table), symbol_form::numbers);
  EXPECT_EQ(import_field(type.get()).type, symbol_type(table));
}

TEST_P(arrow_symbols, unknown_to_the_table_are_refused_with_column_and_row) {
  const std::uint64_t size = process_symbols()->size();
  const table source = rows({unchecked({static_cast<symbol>(size + 7)})});
  arrow_array out;
  const error leaving = error_of([&] { out = export_batch(source, 0); });
  EXPECT_EQ(leaving.code(), errc::out_of_range);
  EXPECT_EQ(leaving.message(), concat("column 'x': row 0: symbol ", size + 7,
                                      " is not in the symbol table, which has ", size, " names"));
  arrow_device_array numbers = export_device_column(source.pieces(0)[0]);
  const error coming =
      error_of([&] { static_cast<void>(import_device_column(ctx(), described(), numbers.get())); });
  EXPECT_EQ(coming.code(), errc::format);
  EXPECT_EQ(coming.message(), concat("column 'x': symbol ", size + 7,
                                     " at row 0 is not in the symbol table, which has ", size, " names"));
  EXPECT_NE(numbers.get().array.release, nullptr) << "still the caller's";
}

TEST_P(arrow_symbols, in_host_memory_are_looked_up_without_a_download) {
  const auto source = support::indices({1, 0, 1}, support::strings({"a", "b"}));
  arrow_array given = support::to_c(source);
  const std::shared_ptr<void> strict = ctx()->copies().forbid_downloads();
  const field wire{"x", source->type, true, {{"xlog.symbol", "true"}}};
  EXPECT_EQ(import_column(ctx(), wire, given.get()).type(), symbol_type());
}

TEST_P(arrow_symbols, can_not_be_views_of_a_dictionary) {
  const auto source = support::indices({1, 0, 1}, support::strings({"a", "b"}));
  arrow_array given = support::to_c(source);
  import_options options;
  options.copy = copy_policy::never;
  const field wire{"x", source->type, true, {{"xlog.symbol", "true"}}};
  const error seen = error_of([&] { static_cast<void>(import_column(ctx(), wire, given.get(), options)); });
  EXPECT_EQ(seen.code(), errc::exchange);
  EXPECT_NE(seen.message().find("column 'x': a dictionary can't become symbols without a copy"),
            std::string::npos);
  EXPECT_FALSE(given.empty());
}

TEST_P(arrow_symbols, whose_names_are_not_utf8_leave_the_source_with_the_caller) {
  const auto source = support::indices({0}, support::strings({"\xFF"}));
  arrow_array given = support::to_c(source);
  const field wire{"x", source->type, true, {{"xlog.symbol", "true"}}};
  const error seen = error_of([&] { static_cast<void>(import_column(ctx(), wire, given.get())); });
  EXPECT_EQ(seen.code(), errc::invalid_argument);
  EXPECT_NE(seen.message().find("column 'x': a symbol's name is not UTF-8"), std::string::npos)
      << seen.message();
  EXPECT_FALSE(given.empty());
}

TEST_P(arrow_symbols, nested_in_another_type_stay_integers) {
  support::foreign_schema list("+l", "x");
  support::foreign_schema& item = list.add_nested("I", "item");
  item.set_metadata({{"xlog.symbol", "true"}});
  const field seen = import_field(list.get());
  EXPECT_EQ(seen.type.children()[0].type, data_type(type_id::uint32));
  EXPECT_EQ(seen.type.children()[0].metadata.size(), 1U);
}

SAETA_CONFORMANCE_SUITE(arrow_symbols);

} // namespace
} // namespace saeta::conformance
