// The summary of a file that `inspect` returns.

#include "ipc_test.hpp"
#include "support/foreign_streams.hpp"

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

} // namespace
} // namespace saeta::ipc
