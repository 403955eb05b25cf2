// Round trips of tables through files and streams.

#include "ipc_test.hpp"

#include <tuple>

namespace saeta::ipc {
namespace {

using support::random_table;
using support::same_contents;

class round_trip : public ipc_test, public ::testing::WithParamInterface<std::tuple<container, compression>> {
protected:
  [[nodiscard]] static write_options options() { return {std::get<0>(GetParam()), std::get<1>(GetParam())}; }
};

TEST_P(round_trip, every_type_keeps_values_nulls_batches_and_metadata) {
  const table original = every_type();
  const auto bytes = write(original, file("all.arrow"), options());
  EXPECT_EQ(bytes, std::filesystem::file_size(file("all.arrow")));
  const table back = read(file("all.arrow"));
  EXPECT_TRUE(same_contents(back, original));
  EXPECT_TRUE(same_contents(read_bytes(write_bytes(original, options())), original));
}

TEST_P(round_trip, slices_are_written_with_only_their_rows) {
  const table whole = every_type();
  const table window = whole.slice(13, 230);
  EXPECT_TRUE(same_contents(read_bytes(write_bytes(window, options())), window));
  EXPECT_LT(write_bytes(whole.slice(13, 8), options()).size(), write_bytes(whole, options()).size());
}

TEST_P(round_trip, a_table_without_columns_keeps_its_rows) {
  const table original = table::make(ctx(), {{}, {{"only", "metadata"}}}, {{5, {}}, {0, {}}, {7, {}}});
  const table back = read_bytes(write_bytes(original, options()));
  EXPECT_TRUE(same_contents(back, original));
  EXPECT_EQ(back.rows(), 12);
}

TEST_P(round_trip, a_table_without_batches_keeps_its_columns) {
  const table original = random_table(ctx(), support::file_types(), {{}});
  const table back = read_bytes(write_bytes(original, options()));
  EXPECT_TRUE(same_contents(back, original));
  EXPECT_EQ(back.column_count(), support::file_types().size());
}

TEST_P(round_trip, names_may_repeat_and_be_empty) {
  const auto words = support::strings({"a", "b"});
  schema fields;
  for (const char* const name : {"x", "", "x", "", "ñ\n"}) {
    fields.fields.push_back({name, words->type, true, {}});
  }
  fields.fields[2].nullable = false;
  const table original = support::table_of(ctx(), fields, {{words, words, words, words, words}});
  EXPECT_TRUE(same_contents(read_bytes(write_bytes(original, options())), original));
}

TEST_P(round_trip, copies_into_the_contexts_memory_take_one_transfer) {
  const table original = random_table(ctx(), {data_type(type_id::int64), data_type(type_id::string)}, {});
  const std::string bytes = write_bytes(original, options());
  ctx()->copies().reset_counters();
  const table back = read_bytes(bytes, {.copy = copy_policy::always});
  const auto counted = ctx()->copies().read_counters();
  EXPECT_EQ(counted.host_to_host.transfers + counted.host_to_device.transfers, 1U);
  EXPECT_EQ(counted.imports, 0U);
  EXPECT_GT(ctx()->reports().statistics().ledger.own, 0U);
  EXPECT_THAT(ctx()->reports().live_by_tag(), ::testing::Contains(::testing::Key("read_ipc")));
  EXPECT_TRUE(same_contents(back, original));
}

TEST_P(round_trip, a_table_that_was_read_can_be_written) {
  const table original = every_type();
  const table once = read_bytes(write_bytes(original, options()));
  const table twice = read_bytes(write_bytes(once, options()));
  EXPECT_TRUE(same_contents(twice, original));
}

INSTANTIATE_TEST_SUITE_P(ipc, round_trip,
                         ::testing::Combine(::testing::Values(container::file, container::stream),
                                            ::testing::Values(compression::none, compression::lz4,
                                                              compression::zstd)),
                         name_of_case);

using foreign = ipc_test;

TEST_F(foreign, compressions_are_parsed_by_name) {
  EXPECT_EQ(parse_compression("none"), compression::none);
  EXPECT_EQ(parse_compression("lz4"), compression::lz4);
  EXPECT_EQ(parse_compression("zstd"), compression::zstd);
  EXPECT_ERROR(parse_compression("gzip"), invalid_argument, "'gzip'", "none, lz4 or zstd");
}

} // namespace
} // namespace saeta::ipc
