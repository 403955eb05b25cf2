// Dictionaries: written once in a file, replaced or extended by deltas in a stream, and united if batches of
// a file have different ones.

#include "dictionary_fixture.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace saeta::ipc {
namespace {

using support::cells;
using support::indices;
using support::same_contents;
using support::shared_array;
using support::strings;
using ::testing::ElementsAre;

class dictionary : public dictionary_fixture {};

TEST_F(dictionary, that_is_shared_is_written_and_uploaded_once) {
  const auto words = strings({"first-word", "second-word"});
  const table original = table_of({indices({0, 1}, words), indices({1, 1}, words), indices({0}, words)});
  for (const auto format : {container::file, container::stream}) {
    const std::string bytes = write_bytes(original, {format});
    EXPECT_EQ(occurrences(bytes, "first-word"), 1U);
    ctx()->copies().reset_counters();
    const table seen = read_bytes(bytes, {.copy = copy_policy::always});
    EXPECT_TRUE(same_contents(seen, original));
    const auto pieces = seen.pieces(0);
    EXPECT_EQ(pieces[0].dictionary(), pieces[1].dictionary());
    EXPECT_EQ(pieces[0].dictionary(), pieces[2].dictionary());
  }
}

TEST_F(dictionary, with_equal_values_in_different_memory_is_written_once) {
  const table original =
      table_of({indices({0, 1}, strings({"one-word", "b"})), indices({1}, strings({"one-word", "b"}))});
  for (const auto format : {container::file, container::stream}) {
    const std::string bytes = write_bytes(original, {format});
    EXPECT_EQ(occurrences(bytes, "one-word"), 1U);
    EXPECT_TRUE(same_contents(read_bytes(bytes), original));
  }
}

TEST_F(dictionary, can_be_replaced_in_a_stream) {
  for (const auto body : {compression::none, compression::lz4}) {
    std::vector<shared_array> pieces;
    for (int i = 0; i < 20; ++i) { // of equal size, so that freed memory is likely to be reused
      const std::string first = concat("word-", 100 + i);
      pieces.push_back(indices({1, 0, 1}, strings({first, concat("other-", 100 + i)})));
    }
    const table original = table_of(pieces);
    for (const auto copy : {copy_policy::when_needed, copy_policy::always}) {
      const table seen = read_bytes(write_bytes(original, {container::stream, body}), {.copy = copy});
      EXPECT_TRUE(same_contents(seen, original));
      EXPECT_EQ(cells(seen, 0).back(), "other-119");
    }
  }
}

TEST_F(dictionary, can_grow_in_a_stream_by_deltas) {
  const auto all = strings({"alpha", "beta", "gamma", "delta"});
  const auto begin = std::make_shared<support::plain_array>(*all);
  begin->length = 2;
  const table original = table_of({indices({0, 1}, begin), indices({3, 2, 0}, all), indices({1}, all)});
  const std::string grown = write_bytes(original, {.format = container::stream, .dictionary_deltas = true});
  const std::string replaced = write_bytes(original, {.format = container::stream});
  EXPECT_EQ(occurrences(grown, "alpha"), 1U);
  EXPECT_EQ(occurrences(replaced, "alpha"), 2U);
  for (const std::string& bytes : {grown, replaced}) {
    store(file("stream"), bytes);
    EXPECT_EQ(inspect(file("stream")).columns[0].dictionary_values, 4) << "at the end of the stream";
  }
  for (const auto copy : {copy_policy::when_needed, copy_policy::always}) {
    EXPECT_TRUE(same_contents(read_bytes(grown, {.copy = copy}), original));
    EXPECT_TRUE(same_contents(read_bytes(replaced, {.copy = copy}), original));
  }
}

TEST_F(dictionary, of_different_values_are_united_in_a_file) {
  const table original = table_of({indices({0, 1, 1}, strings({"a", "b"})),
                                   indices({0, 1}, strings({"c", "b"})), indices({0}, strings({"a", "b"}))});
  for (const auto body : {compression::none, compression::zstd}) {
    const table seen = read_bytes(write_bytes(original, {.body = body}));
    EXPECT_TRUE(same_contents(seen, original));
    EXPECT_THAT(cells(*seen.pieces(0).front().dictionary()), ElementsAre("a", "b", "c"));
  }
}

TEST_F(dictionary, every_index_type_and_every_plain_value_type_can_be_united) {
  std::vector<data_type> types = support::carried_types();
  std::erase_if(types,
                [](const data_type& type) { return type.id() != type_id::dictionary || type.depth() > 1; });
  ASSERT_FALSE(types.empty());
  const table original =
      support::random_table(ctx(), types, {.batch_rows = {120, 0, 9, 50}, .one_dictionary = false});
  const table seen = read_bytes(write_bytes(original));
  EXPECT_TRUE(same_contents(seen, original));
  const table sliced = original.slice(5, 160);
  EXPECT_TRUE(same_contents(read_bytes(write_bytes(sliced)), sliced));
}

TEST_F(dictionary, inside_of_other_types_are_written) {
  std::vector<data_type> types = support::carried_types();
  std::erase_if(types, [](const data_type& type) {
    return std::ranges::count(support::file_types(), type) != 0 ||
           (type.value_type() != nullptr && type.value_type()->value_type() != nullptr);
  });
  ASSERT_GT(types.size(), 1U);
  const table different = support::random_table(ctx(), types, {.batch_rows = {40, 0, 9}});
  EXPECT_TRUE(same_contents(read_bytes(write_bytes(different, {container::stream})), different));
  for (const auto body : {compression::none, compression::lz4}) {
    EXPECT_TRUE(same_contents(read_bytes(write_bytes(different, {.body = body})), different));
  }
  const table sliced = different.slice(3, 44);
  EXPECT_TRUE(same_contents(read_bytes(write_bytes(sliced)), sliced));
  const batch one = different.batches().front();
  const table equal = table::make(ctx(), different.fields(), {one, one});
  EXPECT_TRUE(same_contents(read_bytes(write_bytes(equal)), equal));
  const table copied = read_bytes(write_bytes(equal), {.copy = copy_policy::always});
  EXPECT_TRUE(same_contents(read_bytes(write_bytes(copied)), equal))
      << "equal dictionaries in different places";
}

TEST_F(dictionary, of_structs_are_compared_by_their_children) {
  const data_type rows = data_type::nested("+s", {{"a", data_type(type_id::int32), true, {}}});
  // Equal lengths and no validity: only the children differ.
  const schema fields{{{"0:rows", data_type::dictionary(data_type(type_id::int32), rows), true, {}}}, {}};
  std::vector<batch> batches;
  for (const std::uint64_t seed : {std::uint64_t{1}, std::uint64_t{2}}) {
    const auto values = support::random_array(rows, {9, 0, support::nulls::absent, true}, seed);
    const auto codes =
        support::random_indices(fields.fields[0].type, {40, 0, support::nulls::absent, true}, values, 7);
    const table one = support::table_of(ctx(), fields, {{codes}});
    batches.push_back(one.batches().front());
  }
  const table alike = table::make(ctx(), fields, std::move(batches));
  EXPECT_TRUE(same_contents(read_bytes(write_bytes(alike, {container::stream})), alike));
  EXPECT_TRUE(same_contents(read_bytes(write_bytes(alike)), alike));
}

TEST_F(dictionary, of_dictionaries_are_refused) {
  const data_type text(type_id::string);
  const data_type inner = data_type::dictionary(data_type(type_id::int8), text);
  const data_type outer = data_type::dictionary(data_type(type_id::int32), inner);
  const data_type list = data_type::nested("+l", {{"item", outer, true, {}}});
  for (const data_type& type : {outer, list}) {
    const table source = support::random_table(ctx(), {type}, {.batch_rows = {9}});
    EXPECT_ERROR(write_bytes(source, {container::stream}), unsupported, "column '0:", "indices of another");
  }
}

TEST_F(dictionary, of_every_value_type_are_united_with_nulls_among_the_values) {
  std::vector<data_type> types;
  for (const data_type& values : support::carried_types()) {
    // libarrow supports neither dictionaries nor extensions as values of a dictionary.
    if (values.value_type() == nullptr && values.extension_name().empty() && values.depth() < 3) {
      types.push_back(data_type::dictionary(data_type(type_id::int16), values));
    }
  }
  for (const auto in_dictionaries : {support::nulls::absent, support::nulls::some, support::nulls::all}) {
    const table original = support::random_table(
        ctx(), types,
        {.batch_rows = {20, 0, 9, 30}, .one_dictionary = false, .in_dictionaries = in_dictionaries});
    const table seen = read_bytes(write_bytes(original));
    EXPECT_TRUE(same_contents(seen, original));
    EXPECT_EQ(seen.pieces(0).front().dictionary(), seen.pieces(0).back().dictionary());
    const table sliced = original.slice(3, 41);
    EXPECT_TRUE(same_contents(read_bytes(write_bytes(sliced)), sliced));
  }
}

TEST_F(dictionary, values_are_compared_bitwise) {
  const std::vector<std::pair<type_id, std::vector<std::uint64_t>>> kinds{
      {type_id::half_float, {0x3C00, 0x4100, 0x0000, 0x8000, 0x7E00, 0x7E01}}, // 1, 2.5, 0, -0, NaNs
      {type_id::float32, {0x3F800000, 0x40200000, 0, 0x80000000, 0x7FC00000, 0x7FC00001}},
      {type_id::float64, {1, 2, 0, std::uint64_t{1} << 63, 0x7FF8000000000000, 0x7FF8000000000001}}};
  for (const auto& [id, values] : kinds) {
    const data_type type(id);
    std::vector<shared_array> pieces;
    for (const std::uint64_t value : values) { // of equal size: only the bits differ
      const auto made = std::make_shared<support::plain_array>();
      made->type = type;
      made->length = 1;
      made->buffers = {{}, {}};
      const auto* const first = reinterpret_cast<const std::byte*>(&value);
      made->buffers[1].assign(first, first + type.byte_width());
      pieces.push_back(indices({0}, made));
    }
    const table original = table_of(pieces);
    for (const auto format : {container::file, container::stream}) {
      for (const bool deltas : {false, true}) {
        const table seen = read_bytes(write_bytes(original, {.format = format, .dictionary_deltas = deltas}));
        EXPECT_EQ(cells(seen, 0), cells(original, 0)) << type.name();
        EXPECT_EQ(seen.pieces(0).back().dictionary()->length(), format == container::file ? 6 : 1);
      }
    }
  }
}

TEST_F(dictionary, indices_are_widened_if_a_united_dictionary_has_more_values_than_they_can_represent) {
  struct expectation {
    type_id index;
    std::int64_t values;
    type_id written;
  };
  for (const auto& [index, values, written] :
       {expectation{type_id::int8, 128, type_id::int8}, expectation{type_id::int8, 129, type_id::int16},
        expectation{type_id::uint8, 256, type_id::uint8}, expectation{type_id::uint8, 257, type_id::uint16},
        expectation{type_id::int16, 32'769, type_id::int32},
        expectation{type_id::uint16, 65'537, type_id::uint32}}) {
    const auto type = data_type::dictionary(data_type(index), data_type(type_id::int64), true);
    const data_type list = data_type::nested("+l", {{"item", type, true, {}}});
    schema fields{{{"narrow", type, true, {}}, {"other", data_type(type_id::int64), true, {}}}, {}};
    std::vector<std::vector<shared_array>> batches;
    for (const std::int64_t count : {values / 2, values - values / 2, std::int64_t{0}}) {
      const auto words = support::random_array(data_type(type_id::int64), {count, 0, support::nulls::absent},
                                               static_cast<std::uint64_t>(count));
      batches.push_back({support::random_indices(type, {count == 0 ? 0 : 50}, words, 1),
                         support::random_array(data_type(type_id::int64), {count == 0 ? 0 : 50}, 2)});
    }
    const table original = support::table_of(ctx(), fields, batches);
    for (const auto format : {container::file, container::stream}) {
      const table seen = read_bytes(write_bytes(original, {format}));
      EXPECT_EQ(cells(seen, 0), cells(original, 0));
      EXPECT_EQ(cells(seen, 1), cells(original, 1));
      EXPECT_EQ(seen.fields().fields[0].type,
                data_type::dictionary(data_type(format == container::file ? written : index),
                                      data_type(type_id::int64), true));
    }
  }
}

TEST_F(dictionary, nested_indices_are_widened_too) {
  const data_type type = data_type::dictionary(data_type(type_id::int8), data_type(type_id::int64));
  const auto with = [](const data_type& inside) {
    const data_type text(type_id::string);
    return data_type::nested(
        "+s", {{"text", text, true, {}},
               {"list", data_type::nested("+l", {{"item", inside, true, {{"key", "value"}}}}), true, {}}});
  };
  const schema fields{{{"row", with(type), true, {}}}, {}};
  std::vector<std::vector<shared_array>> batches;
  for (const std::uint64_t seed : {std::uint64_t{1}, std::uint64_t{2}}) {
    const auto values =
        support::random_array(data_type(type_id::int64), {100, 0, support::nulls::absent}, seed);
    auto list = std::make_shared<support::plain_array>(
        *support::random_array(fields.fields[0].type.children()[1].type, {40, 3}, seed));
    const std::int64_t rows = list->children[0]->length;
    list->children = {support::random_indices(type, {rows}, values, seed)};
    auto row =
        std::make_shared<support::plain_array>(*support::random_array(fields.fields[0].type, {37, 3}, seed));
    row->children[1] = std::move(list);
    batches.push_back({row});
  }
  const table original = support::table_of(ctx(), fields, batches);
  const table seen = read_bytes(write_bytes(original));
  EXPECT_EQ(seen.fields().fields[0].type,
            with(data_type::dictionary(data_type(type_id::int16), data_type(type_id::int64))));
  EXPECT_EQ(seen.fields().fields[0].type.children()[1].type.children()[0].metadata,
            fields.fields[0].type.children()[1].type.children()[0].metadata);
  EXPECT_EQ(cells(seen, 0), cells(original, 0));

  schema extended = fields;
  extended.fields[0].type = fields.fields[0].type.with_extension("their.rows", "");
  batches[0][0] = std::make_shared<support::plain_array>(*batches[0][0]);
  const table refused = support::table_of(ctx(), extended, batches);
  EXPECT_ERROR(write(refused, file("never.arrow")), unsupported, "column 'row'", "200 values together",
               "extension type 'their.rows'", "format=\"stream\"");
  EXPECT_THAT(names(), ::testing::IsEmpty());
}

TEST_F(dictionary, with_an_extension_type_is_refused_before_anything_is_written) {
  const data_type uuid = data_type::parse("w:16").with_extension("arrow.uuid", "");
  const data_type type = data_type::dictionary(data_type(type_id::int8), uuid);
  const data_type row = data_type::nested("+s", {{"id", type, true, {}}});
  const data_type list = data_type::nested("+l", {{"item", row, true, {}}});
  for (const data_type& refused : {type, row, list, data_type::dictionary(data_type(type_id::int8), row)}) {
    const table source = support::random_table(ctx(), {refused}, {.batch_rows = {9}});
    for (const auto format : {container::file, container::stream}) {
      EXPECT_ERROR(write(source, file("never.arrow"), {format}), unsupported, "column '0:", "'arrow.uuid'",
                   "dictionary_decode()");
      EXPECT_ERROR(write_bytes(source, {format}), unsupported, "column '0:", "'arrow.uuid'");
    }
    EXPECT_THAT(names(), ::testing::IsEmpty());
    const table empty = source.slice(0, 0);
    EXPECT_ERROR(write_bytes(empty), unsupported, "column '0:", "'arrow.uuid'");
  }
}

TEST_F(dictionary, with_extension_types_nested_in_its_values_is_written) {
  const data_type uuid = data_type::parse("w:16").with_extension("arrow.uuid", "");
  const data_type row = data_type::nested("+s", {{"id", uuid, true, {}}});
  const data_type outside = data_type::dictionary(data_type(type_id::int8), data_type(type_id::string))
                                .with_extension("their.words", "");
  const table source = support::random_table(
      ctx(), {data_type::dictionary(data_type(type_id::int8), row), outside}, {.batch_rows = {9, 7}});
  for (const auto format : {container::file, container::stream}) {
    EXPECT_TRUE(same_contents(read_bytes(write_bytes(source, {format})), source));
  }
}

TEST_F(dictionary, that_is_empty_is_not_shared_with_another_type) {
  const auto no_words = strings({});
  const auto no_numbers = support::random_array(data_type(type_id::int64), {0, 0, support::nulls::absent}, 1);
  const auto words = indices({}, no_words);
  const auto numbers = indices({}, no_numbers);
  const schema fields{{{"words", words->type, true, {}}, {"numbers", numbers->type, true, {}}}, {}};
  const table original = support::table_of(ctx(), fields, {{words, numbers}});
  for (const auto format : {container::file, container::stream}) {
    for (const auto copy : {copy_policy::when_needed, copy_policy::always}) {
      EXPECT_TRUE(same_contents(read_bytes(write_bytes(original, {format}), {.copy = copy}), original));
    }
  }
}

TEST_F(dictionary, indices_are_checked_before_they_are_followed) {
  const auto words = strings({"a", "b"});
  const table sound = table_of({indices({0, 1, 1, 0, 1}, words)});
  std::string bytes = write_bytes(sound);
  const std::int32_t marked[] = {0, 1, 1, 0, 1};
  const auto at = bytes.find(std::string_view(reinterpret_cast<const char*>(marked), sizeof marked));
  ASSERT_NE(at, std::string::npos);
  bytes[at + 8] = 2;
  EXPECT_ERROR(read_bytes(bytes), format, "bytes: batch 0", "'words'");
}

TEST_F(dictionary, that_was_replaced_is_released) {
  const table original = table_of({indices({0, 1}, strings({"a", "b"})), indices({1, 0}, strings({"c", "d"})),
                                   indices({1, 1}, strings({"e", "f"}))});
  const std::string bytes = write_bytes(original, {container::stream});
  const auto before = ctx()->reports().statistics().ledger.buffers;
  const auto reading = reader::open(std::as_bytes(std::span(bytes)), nullptr, {.copy = copy_policy::always});
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(reading->next(ctx()).has_value());
    EXPECT_EQ(ctx()->reports().statistics().ledger.buffers, before + 1) << "the dictionary of the last batch";
  }
}

TEST_F(dictionary, of_several_deltas_can_not_be_a_view) {
  const auto all = strings({"alpha", "beta", "gamma"});
  const auto begin = std::make_shared<support::plain_array>(*all);
  begin->length = 2;
  const table original = table_of({indices({0}, begin), indices({2}, all), indices({0}, strings({"other"}))});
  const auto bytes = std::make_shared<std::string>(
      write_bytes(original, {.format = container::stream, .dictionary_deltas = true}));
  const auto reading = reader::open(std::as_bytes(std::span(*bytes)), bytes, {.copy = copy_policy::never});
  EXPECT_EQ(reading->next(ctx())->rows, 1);
  EXPECT_ERROR(reading->next(ctx()), exchange, "column 'words'", "a dictionary in parts");
  EXPECT_ERROR(reading->next(ctx()), exchange, "column 'words'", "a dictionary in parts");
}

TEST_F(dictionary, indices_are_checked_when_dictionaries_are_united) {
  const table sound = table_of({indices({0, 1, 1, 0, 1}, strings({"a", "b"})), indices({0}, strings({"c"}))});
  std::string bytes = write_bytes(sound, {container::stream});
  const std::int32_t marked[] = {0, 1, 1, 0, 1};
  const auto at = bytes.find(std::string_view(reinterpret_cast<const char*>(marked), sizeof marked));
  ASSERT_NE(at, std::string::npos);
  for (const std::int32_t index : {2, -1}) {
    std::memcpy(bytes.data() + at + 8, &index, sizeof index);
    const table unchecked = read_bytes(bytes, {.check = validation::structure});
    const auto expected = [&](int row) {
      return concat("column 'words': index ", index, " at row ", row,
                    " is not in the dictionary, which has 2 values");
    };
    EXPECT_ERROR(write_bytes(unchecked), out_of_range, expected(2));
    EXPECT_ERROR(write_bytes(unchecked.slice(1, 5)), out_of_range, expected(1));
  }
}

} // namespace
} // namespace saeta::ipc
