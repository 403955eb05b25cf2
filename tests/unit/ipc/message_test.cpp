// Messages of an unexpected kind or in an unexpected place.

#include "ipc_test.hpp"
#include "saeta/bridge/arrow_status.hpp"
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
#include <stdexcept>

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

TEST_F(messages, a_file_can_not_replace_a_dictionary) {
  const std::string bytes = write_bytes(encoded({"words", "others"}));
  const auto blocks = blocks_of(bytes);
  ASSERT_EQ(blocks.dictionaries.size(), 2U);
  EXPECT_ERROR(
      read_bytes(with_block(bytes, blocks.dictionaries[1], blocks.dictionaries[0]), {.columns = {{"words"}}}),
      format, "bytes: batch 0: a dictionary occurs twice, which is not allowed in a file");
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
