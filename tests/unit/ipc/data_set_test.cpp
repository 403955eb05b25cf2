// Data sets on the host: what they say about their sources, and reads that no plan takes.

#include "ipc_test.hpp"
#include "saeta/ipc/data_set.hpp"
#include "saeta/ipc/format/message_fields.hpp"
#include "saeta/ipc/format/message_source.hpp"

#include <cstring>
#include <utility>

namespace saeta::ipc {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class host_data_set : public ipc_test {
protected:
  [[nodiscard]] table of_types(const std::vector<data_type>& types, std::vector<std::int64_t> rows,
                               std::uint64_t seed = 1) const {
    return support::random_table(ctx(), types, {.batch_rows = std::move(rows), .seed = seed});
  }
  [[nodiscard]] table numbers(std::vector<std::int64_t> rows, std::uint64_t seed = 1) const {
    return of_types({data_type(type_id::int64)}, std::move(rows), seed);
  }
  /// Writes the tables to files, and opens these.
  [[nodiscard]] std::vector<std::unique_ptr<reader>> opened(const std::vector<table>& tables,
                                                            const read_options& reading = {},
                                                            const write_options& writing = {}) const {
    std::vector<std::unique_ptr<reader>> readers;
    for (const table& each : tables) {
      const auto name = file(concat(readers.size()));
      write(each, name, writing);
      readers.push_back(reader::open(name, reading));
    }
    return readers;
  }
};

TEST_F(host_data_set, needs_sources) {
  EXPECT_ERROR(data_set({}), invalid_argument, "a data set needs at least one source");
  auto readers = opened({numbers({1})});
  readers.push_back(nullptr);
  EXPECT_ERROR(data_set(std::move(readers)), invalid_argument, "readers");
}

TEST_F(host_data_set, of_one_source_is_read_as_that_source) {
  const table source =
      of_types({data_type(type_id::int64), data_type(type_id::int8), data_type(type_id::int16)}, {3, 2});
  data_set data(opened({source}, {}, {.format = container::stream}));
  EXPECT_EQ(data.format(), container::stream);
  EXPECT_FALSE(data.live());
  EXPECT_EQ(data.batch_count(), -1);
  data.choose({"2:int16", "0:int64"});
  EXPECT_EQ(data.fields().fields.size(), 2U);
  EXPECT_EQ(data.fields().fields[0].name, "2:int16");
  EXPECT_EQ(data.next(ctx())->rows, 3);
  const auto second = data.next(ctx());
  EXPECT_TRUE(support::cells(second->columns[1]) == support::cells(source.batches()[1].columns[0]));
  EXPECT_FALSE(data.next(ctx()).has_value());
  EXPECT_THAT(std::move(data).take_readers(), ::testing::SizeIs(1));
}

TEST_F(host_data_set, is_live_if_any_source_is) {
  auto readers = opened({numbers({1})});
  std::string bytes = write_bytes(numbers({2}), {.format = container::stream});
  readers.push_back(reader::open("wire", [&bytes](std::span<std::byte> target) {
    const std::size_t some = std::min(target.size(), bytes.size());
    std::memcpy(target.data(), bytes.data(), some);
    bytes.erase(0, some);
    return some;
  }));
  data_set data(std::move(readers));
  EXPECT_EQ(data.format(), container::file);
  EXPECT_TRUE(data.live());
  EXPECT_FALSE(data.near_by());
  EXPECT_EQ(data.batch_count(), -1);
  EXPECT_FALSE(data.planned());
  EXPECT_THAT(data.undivided(), IsEmpty());
  EXPECT_ERROR(data.sizes(), unsupported, concat(file("0").string(), " and other sources: parts of batches"));
  EXPECT_EQ(data.read_all(ctx()).rows(), 3);
}

TEST_F(host_data_set, has_no_batch_numbers_if_a_source_is_live) {
  std::vector<std::unique_ptr<reader>> readers;
  const std::string bytes = write_bytes(numbers({2}), {.format = container::stream});
  readers.push_back(reader::open("wire", [&, at = std::size_t{0}](std::span<std::byte> target) mutable {
    const std::size_t some = std::min(target.size(), bytes.size() - at);
    std::memcpy(target.data(), bytes.data() + at, some);
    at += some;
    return some;
  }));
  EXPECT_ERROR(data_set(std::move(readers), {.batches = {{0}}}), unsupported,
               "wire: the number of batches of a stream that is still being sent is not known");
  data_set counted(opened({numbers({1, 2}), numbers({3})}, {}, {.format = container::stream}),
                   {.range = {{1, 3}}});
  EXPECT_EQ(counted.batch_count(), 2);
  EXPECT_EQ(counted.next(ctx())->rows, 2);
  EXPECT_EQ(counted.next(ctx())->rows, 3);
  EXPECT_FALSE(counted.next(ctx()).has_value());
  for (const auto& bad : {std::pair(-1, 1), std::pair(2, 1), std::pair(0, 4)}) {
    EXPECT_ERROR(data_set(opened({numbers({1, 2}), numbers({3})}), {.range = bad}), out_of_range,
                 concat("batches [", bad.first, ", ", bad.second, ") are not a range of 3 batches"));
  }
  for (const std::int64_t bad : {-1, 3}) {
    EXPECT_ERROR(data_set(opened({numbers({1, 2}), numbers({3})}), {.batches = {{bad}}}), out_of_range,
                 concat("batch ", bad, " is not one of 3 batches"));
  }
}

TEST_F(host_data_set, has_the_schema_that_allows_the_rows_of_all_sources) {
  const data_type type(type_id::int64);
  const auto of = [&](bool nullable, support::nulls pattern) {
    return support::table_of(ctx(), {{{"x", type, nullable, {}}}, {}},
                             {{support::random_array(type, {5, 0, pattern}, 1)}});
  };
  data_set data(opened(
      {of(false, support::nulls::absent), of(true, support::nulls::all), of(false, support::nulls::absent)}));
  EXPECT_TRUE(data.fields().fields[0].nullable);
  const table read = data.read_all(ctx());
  EXPECT_TRUE(read.fields().fields[0].nullable);
  EXPECT_EQ(read.rows(), 15);
  EXPECT_EQ(read.pieces(0)[1].null_count(), 5);
}

TEST_F(host_data_set, reports_progress_through_all_sources) {
  std::vector<progress> heard;
  const progress_hook note = [&](const progress& so_far) { heard.push_back(so_far); };
  const std::vector<table> tables{numbers({10, 20}), numbers({30})};
  EXPECT_EQ(data_set(opened(tables)).read_all(ctx(), note).rows(), 60);
  ASSERT_EQ(heard.size(), 3U);
  std::uint64_t bytes = 0;
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t of_batch = std::array{10, 20, 30}[i];
    EXPECT_EQ(heard[i].batches, static_cast<std::int64_t>(i) + 1);
    EXPECT_EQ(heard[i].total_batches, 3);
    EXPECT_EQ(heard[i].rows, rows += of_batch);
    EXPECT_EQ(heard[i].total_rows, -1);
    EXPECT_GE(heard[i].bytes, bytes + static_cast<std::uint64_t>(of_batch) * sizeof(std::int64_t));
    bytes = heard[i].bytes;
  }
  heard.clear();
  EXPECT_EQ(data_set(opened(tables, {.copy = copy_policy::always})).read_all(ctx(), note).rows(), 60);
  EXPECT_EQ(heard.back().batches, 3);
  EXPECT_EQ(heard.back().total_rows, 60);
  EXPECT_EQ(heard.back().bytes, bytes);
}

TEST_F(host_data_set, can_not_be_joined_without_a_copy) {
  const read_options views{.copy = copy_policy::never, .combine_chunks = true};
  const table two = numbers({1, 1});
  EXPECT_ERROR(data_set(opened({numbers({1}), numbers({1})}, views)).read_all(ctx()), exchange,
               "2 batches can't be joined without a copy");
  EXPECT_ERROR(opened({two}, views)[0]->read_all(ctx()), exchange, file("0").string(),
               "2 batches can't be joined without a copy");
  EXPECT_EQ(opened({numbers({4})}, views)[0]->read_all(ctx()).rows(), 4);
  EXPECT_EQ(data_set(opened({numbers({4}), numbers({})}, views)).read_all(ctx()).rows(), 4);
}

TEST_F(host_data_set, knows_which_compressed_batches_can_be_decoded_in_parts) {
  const read_options copied{.copy = copy_policy::always};
  const write_options packed{.body = compression::zstd, .batch_rows = 1 << 20};
  constexpr std::int64_t decoder = (1 << 20) / sizeof(std::int64_t); // rows with the bytes of one decoder
  const data_type type(type_id::int64);
  std::vector<std::vector<support::shared_array>> batches;
  for (const std::int64_t rows : {decoder + 1, decoder, std::int64_t{100}}) {
    batches.push_back({support::random_array(type, {rows, 0, support::nulls::absent}, 1)});
  }
  data_set data(opened({support::table_of(ctx(), {{{"x", type, true, {}}}, {}}, batches)}, copied, packed));
  EXPECT_THAT(data.undivided(), IsEmpty());
  EXPECT_THAT(data.divided_bytes(std::vector<std::size_t>{1, 0, 2}), ElementsAre(0, (1 << 20) + 8, 0));
  EXPECT_ERROR(data.divided_bytes(std::vector<std::size_t>{3}), out_of_range,
               "batch 3 is not one of 3 batches");
  data_set undivided(
      opened({of_types({type, data_type(type_id::string_view)}, {2 * decoder})}, copied, packed));
  EXPECT_EQ(undivided.undivided(), "column '1:string_view' of string_view");
  EXPECT_THAT(undivided.divided_bytes(std::vector<std::size_t>{0}), ElementsAre(0));
}

TEST_F(host_data_set, knows_the_bytes_that_batches_take_in_memory) {
  const auto bytes_of = [&](const data_type& type, std::int64_t rows, support::nulls pattern) {
    const table source = support::table_of(ctx(), {{{"x", type, true, {}}}, {}},
                                           {{support::random_array(type, {rows, 0, pattern}, 1)}});
    data_set data(opened({source}, {.copy = copy_policy::always}));
    return data.divided_bytes(std::vector<std::size_t>{0}).front();
  };
  EXPECT_EQ(bytes_of(data_type(type_id::int64), 100, support::nulls::absent), 800U);
  EXPECT_EQ(bytes_of(data_type(type_id::int64), 100, support::nulls::all), 800U + 13U);
  EXPECT_EQ(bytes_of(data_type(type_id::boolean), 100, support::nulls::absent), 13U);
  const auto texts = support::strings({"one", "", "three"});
  data_set data(opened({support::table_of(ctx(), {{{"x", texts->type, true, {}}}, {}}, {{texts}})},
                       {.copy = copy_policy::always}));
  EXPECT_THAT(data.divided_bytes(std::vector<std::size_t>{0}), ElementsAre(16 + 8));
}

TEST_F(host_data_set, knows_no_sizes_of_a_file_with_messages_of_two_versions) {
  std::string bytes = write_bytes(numbers({3, 4}));
  const auto all = [&bytes] { return std::as_bytes(std::span(bytes)); };
  const detail::message_source messages(detail::source_of(all(), nullptr), std::nullopt);
  const auto second = static_cast<std::size_t>(detail::read_footer(messages.front()).batches[1].offset);
  const auto flat = all().subspan(second + detail::prefix_bytes);
  const auto version = detail::flat_table::root(flat).place(detail::message_version);
  ASSERT_TRUE(version.has_value());
  bytes[second + detail::prefix_bytes + *version] = 3;
  std::vector<std::unique_ptr<reader>> readers;
  readers.push_back(reader::open(all(), nullptr, {.copy = copy_policy::always}));
  data_set data(std::move(readers));
  EXPECT_ERROR(data.sizes(), format, "bytes: batch 1: its metadata is of another version");
}

TEST_F(host_data_set, has_at_most_as_many_rows_as_numbers_can_count) {
  constexpr std::int64_t half = std::int64_t{1} << 62;
  const table none = table::make(ctx(), {}, {{half, {}}});
  EXPECT_ERROR(data_set(opened({none, none})).read_all(ctx()), overflow, "rows of the sources");
  const std::string stream = write_bytes(none, {.format = container::stream});
  const std::string schema = write_bytes(table::make(ctx(), {}, {}), {.format = container::stream});
  const std::size_t end_bytes = 8;
  const std::string batch = stream.substr(schema.size() - end_bytes, stream.size() - schema.size());
  const std::string twice = stream.substr(0, stream.size() - end_bytes) + batch;
  EXPECT_EQ(read_bytes(stream).rows(), half);
  EXPECT_ERROR(read_bytes(twice), format, "bytes: batch 2: rows of the source");
}

} // namespace
} // namespace saeta::ipc
