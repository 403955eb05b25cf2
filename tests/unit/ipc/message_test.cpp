// Messages of an unexpected kind or in an unexpected place.

#include "ipc_test.hpp"
#include "saeta/bridge/arrow_status.hpp"
#include "saeta/executor/thread_pool.hpp"
#include "saeta/ipc/format/message_fields.hpp"
#include "saeta/ipc/format/message_layout.hpp"
#include "saeta/ipc/write/sinks.hpp"

#include <arrow/array/util.h>
#include <arrow/buffer.h>
#include <arrow/extension/fixed_shape_tensor.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/message.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>
#include <arrow/type.h>

#include <cstring>
#include <limits>
#include <optional>
#include <stdexcept>

#include <fcntl.h>
#include <unistd.h>

namespace saeta::ipc {
namespace {

using bridge::check;
using bridge::take;

using detail::message_block;
using support::indices;
using support::strings;
using ::testing::ElementsAre;

const std::string end_marker("\xff\xff\xff\xff\0\0\0\0", 8);

class messages : public ipc_test {
protected:
  /// Makes a batch with a column for each name, each with its own dictionary.
  [[nodiscard]] table encoded(const std::vector<std::string>& names) const {
    schema fields;
    std::vector<support::shared_array> columns;
    for (const auto& name : names) {
      columns.push_back(indices({0, 1}, strings({name + "-0", name + "-1"})));
      fields.fields.push_back({name, columns.back()->type, true, {}});
    }
    return support::table_of(ctx(), fields, {columns});
  }

  /// Makes columns "0:int64", "1:int64" and so on.
  [[nodiscard]] table numbers(std::size_t columns) const {
    return support::random_table(ctx(), std::vector(columns, data_type(type_id::int64)), {.batch_rows = {9}});
  }

  /// Splits a stream into its messages, without the end marker.
  static std::vector<std::string> split(const std::string& stream) {
    arrow::io::BufferReader in(arrow::Buffer::FromString(stream));
    std::vector<std::string> found;
    std::size_t begin = 0;
    while (take(arrow::ipc::ReadMessage(&in), "message") != nullptr) {
      const auto end = static_cast<std::size_t>(take(in.Tell(), "place"));
      found.push_back(stream.substr(begin, end - begin));
      begin = end;
    }
    return found;
  }

  /// Returns the flatbuffer of the footer, which is followed by its size and the magic.
  static std::span<const std::byte> footer_of(const std::string& bytes) {
    std::int32_t size = 0;
    std::memcpy(&size, bytes.data() + bytes.size() - 10, sizeof size);
    const auto footer = static_cast<std::size_t>(size);
    return std::as_bytes(std::span(bytes)).subspan(bytes.size() - 10 - footer, footer);
  }
  static detail::file_footer blocks_of(const std::string& bytes) {
    return detail::read_footer(footer_of(bytes));
  }

  /// Replaces `block` by `other` in the footer of a file.
  static std::string with_block(std::string bytes, const message_block& block, const message_block& other) {
    const std::string_view raw(reinterpret_cast<const char*>(&block), sizeof block);
    const auto at = bytes.rfind(raw);
    EXPECT_NE(at, std::string::npos);
    std::memcpy(bytes.data() + at, &other, sizeof other);
    return bytes;
  }
};

TEST_F(messages, a_stream_begins_with_its_schema) {
  const std::string stream = write_bytes(numbers(1), {container::stream});
  const std::size_t schema_bytes = split(stream).front().size();
  for (const std::string& bytes : {stream.substr(schema_bytes), end_marker}) {
    EXPECT_ERROR(read_bytes(bytes), format, "bytes: its first message is not a schema");
  }
}

TEST_F(messages, the_schema_of_a_file_is_that_of_its_footer) {
  const table original = encoded({"words"});
  const std::string whole = write_bytes(original);
  const auto schema_bytes = split(write_bytes(original, {container::stream})).front().size();
  std::string other = whole;
  other[other.find("words")] = 's';
  // The schema message at the beginning is not read: it may differ, or be zeros or 0xFF.
  for (const std::string& bytes :
       {other, whole.substr(0, 8) + std::string(schema_bytes, '\0') + whole.substr(8 + schema_bytes),
        whole.substr(0, 8) + std::string(schema_bytes, '\xff') + whole.substr(8 + schema_bytes)}) {
    const table seen = read_bytes(bytes);
    EXPECT_EQ(seen.fields().fields.front().name, "words");
    EXPECT_TRUE(support::same_contents(seen, original));
  }
}

TEST_F(messages, a_footer_must_be_inside_its_file_and_have_a_schema) {
  const std::string whole = write_bytes(numbers(1));
  const auto with_size = [&](std::int32_t size) {
    std::string bytes = whole;
    std::memcpy(bytes.data() + bytes.size() - 10, &size, sizeof size);
    return bytes;
  };
  const auto room = static_cast<std::int32_t>(whole.size()) - 18;
  for (const std::int32_t size : {-5, 0, room + 1, std::numeric_limits<std::int32_t>::max()}) {
    EXPECT_ERROR(read_bytes(with_size(size)), format,
                 concat("footer of ", size, " bytes in a file of ", whole.size()));
  }
  EXPECT_ERROR(read_bytes(with_size(room)), format, "bytes: footer: ");
  EXPECT_ERROR(read_bytes("ARROW1ARROW1"), format, "footer of ", "in a file of 12");
  EXPECT_ERROR(read_bytes("ARROW1  " + std::string(64, '\0') + std::string("\x40\0\0\0", 4) + "ARROW1"),
               format, "bytes: footer: the footer has no schema");
}

TEST_F(messages, blocks_of_the_footer_must_have_the_right_kind_of_message) {
  const std::string bytes = write_bytes(encoded({"words"}));
  const auto blocks = blocks_of(bytes);
  const message_block dictionary = blocks.dictionaries.front();
  const message_block rows = blocks.batches.front();
  EXPECT_ERROR(read_bytes(with_block(bytes, dictionary, rows)), format,
               concat("the footer names a dictionary at offset ", rows.offset, ", found a record batch"));
  EXPECT_ERROR(
      read_bytes(with_block(bytes, rows, dictionary)), format,
      concat("the footer names a record batch at offset ", dictionary.offset, ", found a dictionary"));
  message_block beyond = rows;
  beyond.offset = 1 << 20;
  EXPECT_ERROR(read_bytes(with_block(bytes, rows, beyond)), format,
               "the footer names a record batch at offset 1048576, found none");
}

TEST_F(messages, blocks_of_the_footer_must_be_where_messages_are) {
  const std::string bytes = write_bytes(encoded({"words"}));
  const auto blocks = blocks_of(bytes);
  const read_options copied{.copy = copy_policy::always};
  const auto changed = [&](bool dictionary, const auto& change) {
    const message_block before = dictionary ? blocks.dictionaries.front() : blocks.batches.front();
    message_block after = before;
    change(after);
    return with_block(bytes, before, after);
  };
  const auto source = concat(" exceeds a source of ", bytes.size(), " bytes");
  for (const bool dictionary : {true, false}) {
    const std::string name = dictionary ? "bytes: dictionary 0: " : "bytes: batch 0: ";
    const std::int64_t offset = (dictionary ? blocks.dictionaries : blocks.batches).front().offset;
    const std::int32_t usual = (dictionary ? blocks.dictionaries : blocks.batches).front().metadata_bytes;
    for (const std::int64_t bad : {std::int64_t{-8}, offset + 4, std::int64_t{1} << 40}) {
      const std::string moved = changed(dictionary, [&](message_block& of) { of.offset = bad; });
      EXPECT_ERROR(read_bytes(moved, copied), format,
                   concat(name, "its message of ", usual, " bytes at offset ", bad, source));
      EXPECT_ERROR(read_bytes(moved), format, concat("at offset ", bad, ", found none"));
    }
    for (const std::int32_t bad : {-1, 7, 1 << 20}) {
      const std::string resized = changed(dictionary, [&](message_block& of) { of.metadata_bytes = bad; });
      EXPECT_ERROR(read_bytes(resized, copied), format,
                   concat(name, "its message of ", bad, " bytes at offset ", offset, source));
    }
    const auto less = changed(dictionary, [](message_block& of) { of.metadata_bytes -= 8; });
    EXPECT_ERROR(read_bytes(less, copied), format, name, concat("metadata of ", usual - 8),
                 concat(" bytes in a message of ", usual - 8, " bytes"));
    EXPECT_ERROR(read_bytes(less), format,
                 concat("the message at offset ", offset, " has ", usual,
                        " bytes before its body, the footer says ", usual - 8));
    const auto more = changed(dictionary, [&](message_block& of) {
      of.metadata_bytes = static_cast<std::int32_t>(static_cast<std::int64_t>(bytes.size()) - offset + 8);
    });
    EXPECT_ERROR(read_bytes(more), format, concat("the message at offset ", offset, " of "),
                 concat(" bytes, as the footer says,", source));
    const auto last = changed(dictionary, [&](message_block& of) {
      of.metadata_bytes = static_cast<std::int32_t>(static_cast<std::int64_t>(bytes.size()) - offset);
    });
    EXPECT_ERROR(read_bytes(last), format,
                 concat(" bytes at offset ", bytes.size(), " of a source of ", bytes.size()));
    EXPECT_ERROR(read_bytes(last, copied), format,
                 dictionary ? "bytes: a body of " : "bytes: batch 0: a body of ", " of a source of ",
                 ": it is truncated");
  }
}

TEST_F(messages, a_stream_has_one_schema_and_messages_of_one_version) {
  const auto parts = split(write_bytes(numbers(1), {container::stream}));
  EXPECT_ERROR(read_bytes(parts[0] + parts[0] + parts[1]), format, "bytes: batch 0",
               concat("the message at offset ", parts[0].size(), " is a second schema"));
  std::string older = parts[1];
  const auto flat = std::as_bytes(std::span(older)).subspan(detail::prefix_bytes);
  const auto version = detail::flat_table::root(flat).place(detail::message_version);
  ASSERT_TRUE(version.has_value());
  older[detail::prefix_bytes + *version] = 3;
  const auto mixed =
      "its metadata is of another version than that of the messages before it, or its prefix is of "
      "another form";
  for (const std::string& stream : {parts[0] + parts[1] + older, parts[0] + older + parts[1]}) {
    EXPECT_ERROR(read_bytes(stream), format, "bytes: batch 1", mixed);
    EXPECT_ERROR(read_bytes(stream, {.copy = copy_policy::always}), format, "bytes: batch 1", mixed);
  }
  EXPECT_EQ(read_bytes(parts[0] + older + older).rows(), 18);
}

TEST_F(messages, compression_has_one_of_two_codecs) {
  auto parts = split(write_bytes(numbers(1), {container::stream, compression::zstd}));
  const auto flat = std::as_bytes(std::span(parts[1])).subspan(detail::prefix_bytes);
  const auto batch = detail::flat_table::root(flat).table(detail::message_table);
  const auto codec = batch->table(detail::batch_compression);
  const auto put = [&](std::optional<std::size_t> at, char value) {
    ASSERT_TRUE(at.has_value());
    parts[1][detail::prefix_bytes + *at] = value;
  };
  const auto expect_refused = [&](const std::string& text) {
    for (const copy_policy copy : {copy_policy::when_needed, copy_policy::always}) {
      EXPECT_ERROR(read_bytes(parts[0] + parts[1], {.copy = copy}), unsupported, "bytes: batch 0",
                   "its body is compressed by " + text);
    }
  };
  put(codec->place(detail::compression_codec), 2);
  expect_refused("codec 2 and method 0, expected codec 0 (LZ4) or 1 (ZSTD) and method 0");
  put(codec->place(detail::compression_codec), -1);
  expect_refused("codec -1 and method 0");
  put(codec->place(detail::compression_codec), 0);
  put(codec->place(detail::compression_method), 1);
  expect_refused("codec 0 and method 1");
}

TEST_F(messages, values_can_not_be_added_to_a_dictionary_that_has_none) {
  const auto parts = split(write_bytes(encoded({"words"}), {container::stream}));
  std::string delta = parts[1];
  const auto flat = std::as_bytes(std::span(delta)).subspan(detail::prefix_bytes);
  const auto values = detail::flat_table::root(flat).table(detail::message_table);
  const auto at = values->place(detail::dictionary_delta);
  ASSERT_TRUE(at.has_value());
  delta[detail::prefix_bytes + *at] = 1;
  const std::string stream = parts[0] + delta + parts[2];
  const auto text = "values are added to dictionary 0, which no message before has given";
  EXPECT_ERROR(read_bytes(stream), format, "bytes: batch 0: dictionary of column 'words': ", text);
  EXPECT_ERROR(read_bytes(stream, {.copy = copy_policy::always}), format,
               "bytes: dictionary of column 'words': ", text);
  store(file("delta"), stream);
  EXPECT_ERROR(inspect(file("delta")), format, "batch 0: ", text);
}

TEST_F(messages, a_file_can_not_replace_a_dictionary) {
  const std::string bytes = write_bytes(encoded({"words", "others"}));
  const auto blocks = blocks_of(bytes);
  ASSERT_EQ(blocks.dictionaries.size(), 2U);
  EXPECT_ERROR(
      read_bytes(with_block(bytes, blocks.dictionaries[1], blocks.dictionaries[0]), {.columns = {{"words"}}}),
      format, "bytes: batch 0: a dictionary occurs twice, which is not allowed in a file");
  EXPECT_ERROR(read_bytes(with_block(bytes, blocks.dictionaries[1], blocks.dictionaries[0]),
                          {.copy = copy_policy::always}),
               format, "bytes: a dictionary occurs twice, which is not allowed in a file");
}

TEST_F(messages, dictionaries_of_columns_that_are_not_read_are_skipped) {
  const table original = encoded({"words", "others"});
  for (const auto format : {container::file, container::stream}) {
    const std::string bytes = write_bytes(original, {format});
    for (const copy_policy copy : {copy_policy::when_needed, copy_policy::always}) {
      const table seen = read_bytes(bytes, {.columns = {{"others"}}, .copy = copy});
      EXPECT_THAT(support::cells(seen, 0), ElementsAre("others-0", "others-1"));
    }
  }
  const auto parts = split(write_bytes(original, {container::stream}));
  std::string unknown = parts[1];
  const auto flat = std::as_bytes(std::span(unknown)).subspan(detail::prefix_bytes);
  const auto id = detail::flat_table::root(flat).table(detail::message_table)->place(detail::dictionary_id);
  ASSERT_TRUE(id.has_value());
  unknown[detail::prefix_bytes + *id] = 9;
  for (const copy_policy copy : {copy_policy::when_needed, copy_policy::always}) {
    EXPECT_ERROR(
        read_bytes(parts[0] + unknown + parts[2] + parts[3], {.columns = {{"others"}}, .copy = copy}), format,
        "bytes: ", "dictionary 9 is not in the schema");
  }
}

TEST_F(messages, a_dictionary_may_be_missing_where_all_rows_are_null) {
  const auto type = data_type::dictionary(data_type(type_id::int32), data_type(type_id::string));
  const auto nothing = support::random_array(type, {3, 0, support::nulls::all}, 1);
  const auto parts = split(write_bytes(
      support::table_of(ctx(), {{{"words", type, true, {}}}, {}}, {{nothing}}), {container::stream}));
  const auto with_rows = split(write_bytes(encoded({"words"}), {container::stream}));
  for (const copy_policy copy : {copy_policy::when_needed, copy_policy::always}) {
    const table seen = read_bytes(parts[0] + parts[2], {.copy = copy});
    EXPECT_EQ(seen.pieces(0)[0].null_count(), 3);
    EXPECT_EQ(seen.pieces(0)[0].dictionary()->length(), 0);
    EXPECT_ERROR(read_bytes(with_rows[0] + with_rows[2], {.copy = copy}), format,
                 "bytes: batch 0: column 'words': index 0 at row 0");
    const table later = read_bytes(parts[0] + parts[2] + with_rows[1] + with_rows[2], {.copy = copy});
    EXPECT_THAT(support::cells(later, 0),
                ElementsAre(std::nullopt, std::nullopt, std::nullopt, "words-0", "words-1"));
  }
}

TEST_F(messages, a_schema_has_no_body) {
  std::string bytes = write_bytes(numbers(1), {container::stream});
  const auto flat = std::as_bytes(std::span(bytes)).subspan(detail::prefix_bytes);
  const auto at = detail::flat_table::root(flat).place(detail::message_body_bytes);
  ASSERT_TRUE(at.has_value());
  bytes[detail::prefix_bytes + *at] = 64;
  EXPECT_ERROR(read_bytes(bytes), format, "bytes: its first message, the schema, has a body of 64 bytes");
}

TEST_F(messages, a_batch_must_have_every_column) {
  const auto two = split(write_bytes(numbers(2), {container::stream}));
  const auto one = split(write_bytes(numbers(1), {container::stream}));
  store(file("short"), two[0] + two[1] + one[1] + end_marker);
  EXPECT_ERROR(inspect(file("short")), format, concat(file("short").string(), ": batch 1"),
               "1 field nodes, the schema needs 2");
}

TEST_F(messages, inspect_reports_the_compression_of_the_first_batch) {
  const auto first = split(write_bytes(numbers(1), {container::stream, compression::lz4}));
  const auto second = split(write_bytes(numbers(1), {container::stream, compression::zstd}));
  store(file("mixed"), first[0] + first[1] + second[1] + end_marker);
  EXPECT_EQ(inspect(file("mixed")).compression, "lz4");
}

TEST_F(messages, nulls_are_counted_in_columns_after_nested_ones) {
  constexpr std::int64_t rows = 3;
  const auto nothing = [&](const std::shared_ptr<arrow::DataType>& type) {
    return take(arrow::MakeArrayOfNull(type, rows), "nulls");
  };
  const auto sevens = take(arrow::MakeArrayFromScalar(arrow::Int32Scalar(7), rows), "sevens");
  const auto inside = arrow::struct_({arrow::field("x", arrow::int8()), arrow::field("y", arrow::utf8())});
  const auto tensor = take(arrow::extension::FixedShapeTensorType::Make(arrow::int8(), {2}), "tensor");
  const std::vector<std::shared_ptr<arrow::Array>> columns{
      nothing(inside), sevens, nothing(tensor), sevens, nothing(arrow::int8()), sevens};
  arrow::FieldVector fields;
  for (const auto& column : columns) {
    fields.push_back(arrow::field("column", column->type()));
  }
  const auto described = arrow::schema(fields);
  const auto sink = take(arrow::io::BufferOutputStream::Create(), "sink");
  const auto writer = take(arrow::ipc::MakeStreamWriter(sink, described), "writer");
  check(writer->WriteRecordBatch(*arrow::RecordBatch::Make(described, rows, columns)), "batch");
  check(writer->Close(), "end");
  store(file("nested"), take(sink->Finish(), "content")->ToString());

  std::vector<std::int64_t> nulls;
  for (const column_summary& column : inspect(file("nested")).columns) {
    nulls.push_back(column.nulls);
    EXPECT_EQ(column.dictionary_values, -1);
  }
  EXPECT_THAT(nulls, ElementsAre(3, 0, 3, 0, 3, 0));
}

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST_F(messages, pieces_of_a_file_have_any_size) {
  store(file("pieces"), "");
  const int descriptor = ::open(file("pieces").c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(descriptor, 0);
  std::string written;
  {
    thread_pool pool;
    detail::piece_sink sink(pool, descriptor, file("pieces"));
    const std::string large(detail::piece_sink::piece_bytes + 5, 'x');
    for (const std::string_view text : {std::string_view("a"), std::string_view(), std::string_view("bc"),
                                        std::string_view(large), std::string_view("d")}) {
      sink.write(bytes_of(text), nullptr);
      sink.flush(); // the piece may have one byte
      written += text;
      EXPECT_EQ(sink.taken(), written.size());
    }
    EXPECT_EQ(sink.finish(), written.size());
  }
  ::close(descriptor);
  EXPECT_TRUE(load(file("pieces")) == written);
}

TEST(ordered_sink, merges_small_writes_and_splits_large_ones) {
  constexpr std::size_t most = detail::ordered_sink::piece_bytes;
  std::vector<std::size_t> pieces;
  const byte_sink note = [&](std::span<const std::byte> piece) { pieces.push_back(piece.size()); };
  detail::ordered_sink sink(note);
  sink.write(bytes_of("rows"), nullptr);
  sink.write(bytes_of("more"), nullptr);
  EXPECT_EQ(sink.taken(), 8U);
  EXPECT_THAT(pieces, ::testing::IsEmpty());
  const std::string large(most + 1, 'x');
  sink.write(bytes_of(large), nullptr);
  EXPECT_THAT(pieces, ElementsAre(8, most, 1));
  sink.write(bytes_of("rest"), nullptr);
  EXPECT_EQ(sink.finish(), most + 13);
  EXPECT_THAT(pieces, ElementsAre(8, most, 1, 4));
}

TEST(ordered_sink, passes_on_exceptions_of_its_function) {
  const byte_sink full = [](std::span<const std::byte>) { throw std::range_error("full"); };
  detail::ordered_sink sink(full);
  const std::string large(detail::ordered_sink::piece_bytes, 'x');
  EXPECT_THROW(sink.write(bytes_of(large), nullptr), std::range_error);
}

} // namespace
} // namespace saeta::ipc
