// The summary of a file that `inspect` returns.

#include "ipc_test.hpp"
#include "saeta/ipc/format/message_fields.hpp"
#include "saeta/ipc/format/metadata_encoder.hpp"
#include "saeta/ipc/read/planned_source.hpp"
#include "support/foreign_streams.hpp"

#include <cstring>

namespace saeta::ipc {
namespace {

using ::testing::ElementsAre;

class inspection : public ipc_test,
                   public ::testing::WithParamInterface<std::tuple<container, compression>> {};

TEST_P(inspection, reports_rows_types_nulls_and_dictionaries) {
  const auto [format, body] = GetParam();
  const table original = every_type();
  const auto bytes = write(original, file("all"), {format, body});
  const file_summary seen = inspect(file("all"));
  EXPECT_EQ(seen.format, format);
  EXPECT_EQ(seen.bytes, bytes);
  EXPECT_EQ(seen.compression, body == compression::none ? "none" : body == compression::lz4 ? "lz4" : "zstd");
  EXPECT_EQ(seen.metadata_version, "V5");
  EXPECT_THAT(seen.batch_rows, ElementsAre(200, 1, 0, 77));
  EXPECT_EQ(seen.metadata, original.fields().metadata);
  ASSERT_EQ(seen.columns.size(), original.column_count());
  for (std::size_t i = 0; i < seen.columns.size(); ++i) {
    const field& described = original.fields().fields[i];
    std::int64_t nulls = 0;
    for (const column& piece : original.pieces(i)) {
      nulls += piece.null_count();
    }
    EXPECT_EQ(seen.columns[i].name, described.name);
    EXPECT_TRUE(seen.columns[i].supported);
    EXPECT_EQ(seen.columns[i].nulls, nulls) << described.name;
    const column* const dictionary = original.pieces(i).front().dictionary();
    EXPECT_EQ(seen.columns[i].dictionary_values, dictionary == nullptr ? -1 : dictionary->length())
        << described.name;
  }
}

INSTANTIATE_TEST_SUITE_P(ipc, inspection,
                         ::testing::Combine(::testing::Values(container::file, container::stream),
                                            ::testing::Values(compression::none, compression::lz4,
                                                              compression::zstd)),
                         name_of_case);

using inspecting = ipc_test;

TEST_F(inspecting, the_nulls_of_a_nested_column_are_those_of_its_rows) {
  store(file("nested"), support::from_hex(support::nested_stream_hex));
  const file_summary seen = inspect(file("nested"));
  EXPECT_THAT(seen.batch_rows, ElementsAre(3));
  ASSERT_EQ(seen.columns.size(), 2U);
  EXPECT_TRUE(seen.columns[0].supported);
  EXPECT_TRUE(seen.columns[1].supported);
  EXPECT_EQ(seen.columns[1].type, "list<item: int32>");
  EXPECT_EQ(seen.columns[0].nulls, 1);
  EXPECT_EQ(seen.columns[1].nulls, 1);
}

TEST_F(inspecting, a_default_summary_is_empty_and_a_default_column_nullable_and_supported) {
  EXPECT_EQ(file_summary{}.bytes, 0U);
  const column_summary column;
  EXPECT_TRUE(column.nullable);
  EXPECT_TRUE(column.supported);
  EXPECT_EQ(column.nulls, 0);
  EXPECT_EQ(column.dictionary_values, -1);
}

TEST_F(inspecting, an_older_metadata_version_is_reported) {
  store(file("old"), support::from_hex(support::legacy_stream_hex));
  EXPECT_EQ(inspect(file("old")).metadata_version, "V4");
}

TEST_F(inspecting, a_file_without_batches_has_empty_dictionaries) {
  const auto type = data_type::dictionary(data_type(type_id::int32), data_type(type_id::string));
  write(support::random_table(ctx(), {type}, {.batch_rows = {}}), file("none"));
  const file_summary seen = inspect(file("none"));
  EXPECT_TRUE(seen.batch_rows.empty());
  EXPECT_EQ(seen.columns[0].dictionary_values, 0);
}

TEST_F(inspecting, an_object_that_reads_ranges_is_summarized_as_its_bytes_are) {
  const std::string bytes = write_bytes(every_type());
  const file_summary seen =
      inspect("object", bytes.size(), [&](std::uint64_t offset, std::span<std::byte> target) {
        std::memcpy(target.data(), bytes.data() + offset, target.size());
      });
  EXPECT_EQ(seen.bytes, bytes.size());
  EXPECT_THAT(seen.batch_rows, ElementsAre(200, 1, 0, 77));
  EXPECT_ERROR(inspect("object", 0, nullptr), invalid_argument, "read");
}

/// The metadata of a message, without its prefix.
std::vector<std::byte> metadata_of(const packed_rows& rows, detail::body_codec codec,
                                   std::int64_t body_bytes) {
  std::vector<std::byte> made;
  detail::append_batch_message(made, rows, {.codec = codec}, body_bytes);
  made.erase(made.begin(), made.begin() + static_cast<std::ptrdiff_t>(detail::prefix_bytes));
  return made;
}

TEST(check_body, finds_what_is_wrong_with_a_message) {
  const std::vector<std::byte> schema =
      detail::encode_schema({{{"x", data_type(type_id::int64), true, {}}}, {}});
  const packed_rows rows{.rows = 2, .nodes = {{2, 1}}, .buffers = {{0, 1}, {8, 16}}};
  const auto metadata = metadata_of(rows, detail::body_codec::none, 24);
  EXPECT_FALSE(check_body(schema, metadata, 24));
  EXPECT_FALSE(check_body(schema, metadata, std::vector<std::byte>(25)));
  EXPECT_ERROR(check_body(schema, metadata, 23), format, "its body has 24 bytes, found 23");
  EXPECT_ERROR(check_body(schema, metadata, std::vector<std::byte>(23)), format, "found 23");
  const packed_rows few{.rows = 2, .nodes = {{2, 0}}, .buffers = {{0, 1}}};
  EXPECT_ERROR(check_body(schema, metadata_of(few, detail::body_codec::none, 24), 24), format,
               "1 buffers, the schema needs 2");
}

TEST(check_body, finds_sizes_that_compressed_buffers_can_not_have) {
  const std::vector<std::byte> schema =
      detail::encode_schema({{{"x", data_type(type_id::int64), true, {}}}, {}});
  std::vector<std::byte> body(32);
  const auto claim = [&](std::size_t at, std::int64_t bytes) {
    std::memcpy(body.data() + at, &bytes, sizeof bytes);
  };
  const auto check = [&](std::int64_t nulls) {
    const packed_rows rows{.rows = 2, .nodes = {{2, nulls}}, .buffers = {{0, 16}, {16, 16}}};
    return check_body(schema, metadata_of(rows, detail::body_codec::zstd, 32), body);
  };
  for (const std::size_t at : {std::size_t{0}, std::size_t{16}}) {
    claim(at, -1);
  }
  EXPECT_TRUE(check(1));
  claim(16, 1 << 20);
  EXPECT_ERROR(check(1), format, "buffer 1 claims 1048576 bytes when decoded, its 8 bytes of zstd decode to");
  claim(16, -2);
  EXPECT_ERROR(check(1), format, "buffer 1 claims -2 bytes when decoded");
  claim(16, -1);
  claim(0, 1 << 20);
  EXPECT_ERROR(check(1), format, "buffer 0 claims 1048576 bytes");
  EXPECT_TRUE(check(0)) << "nobody reads a validity without nulls";
  const packed_rows short_one{.rows = 2, .nodes = {{2, 0}}, .buffers = {{0, 0}, {16, 7}}};
  EXPECT_ERROR(check_body(schema, metadata_of(short_one, detail::body_codec::lz4, 32), body), format,
               "buffer 1 has 7 bytes, a compressed one begins with the 8 bytes of its size");
}

} // namespace
} // namespace saeta::ipc
