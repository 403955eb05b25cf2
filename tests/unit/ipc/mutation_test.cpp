// Reads of damaged bytes: they give an error or a table, but never crash or allocate huge memory. Most useful
// in builds with sanitizers.

#include "ipc_test.hpp"

#include <algorithm>
#include <cstring>
#include <random>

namespace saeta::ipc {
namespace {

using support::random_table;
using support::same_contents;

struct outcome {
  std::size_t tables = 0;
  std::size_t errors = 0;
};

class mutation : public ipc_test, public ::testing::WithParamInterface<std::tuple<container, compression>> {
protected:
  mutation() : original_(random_table(ctx(), support::file_types(), {.batch_rows = {9, 40, 0, 5}})) {
    bytes_ = write_bytes(original_, {std::get<0>(GetParam()), std::get<1>(GetParam())});
  }
  void TearDown() override {
    original_ = table::make(ctx(), {}, {});
    ipc_test::TearDown();
  }

  /// Reads the bytes as views and as copies of all batches, reads all rows of the tables, and inspects the
  /// bytes.
  void try_bytes(std::string_view damaged, const std::string& part, outcome& seen) {
    try_read(damaged, part, {}, seen);
    outcome joined;
    try_read(damaged, part, {.copy = copy_policy::always, .combine_chunks = true}, joined);
    store(file("damaged"), damaged);
    try {
      static_cast<void>(inspect(file("damaged")));
    } catch (const error& failure) {
      EXPECT_THAT(failure.code(), ::testing::AnyOf(errc::format, errc::unsupported, errc::overflow))
          << part << failure.what();
    }
  }

  void try_read(std::string_view damaged, const std::string& part, const read_options& options,
                outcome& seen) {
    // A heap copy of the exact size, so that a sanitizer reports every access past it.
    const std::vector<char> exact(damaged.begin(), damaged.end());
    const auto alive = ctx()->reports().statistics().ledger.buffers;
    try {
      const auto reading = reader::open(std::as_bytes(std::span(exact)), nullptr, options);
      const table read = reading->read_all(ctx());
      for (std::size_t i = 0; i < read.column_count(); ++i) {
        const auto pieces = read.pieces(i);
        const bool huge = std::ranges::any_of(pieces, [](const column& c) { return c.length() > 1'000'000; });
        if (!huge) { // a null column can have any number of rows
          support::cells(read, i);
        }
      }
      ++seen.tables;
    } catch (const error& failure) {
      EXPECT_THAT(failure.code(), ::testing::AnyOf(errc::format, errc::unsupported, errc::overflow))
          << part << failure.what();
      ++seen.errors;
    }
    EXPECT_EQ(ctx()->reports().statistics().ledger.buffers, alive) << part;
  }

  table original_ = table::make(ctx(), {}, {});
  std::string bytes_;
};

TEST_P(mutation, a_truncated_file_is_an_error_or_has_the_batches_before) {
  constexpr std::size_t cuts = 80;
  std::mt19937_64 random(1);
  outcome seen;
  std::vector<std::size_t> places{1, 4, 7, 8, bytes_.size() - 1, bytes_.size() - 8};
  while (places.size() < cuts) {
    places.push_back(random() % bytes_.size());
  }
  for (const std::size_t place : places) {
    try_bytes(std::string_view(bytes_).substr(0, place), concat("cut at ", place, ": "), seen);
  }
  EXPECT_GT(seen.errors, cuts * 9 / 10);
  if (std::get<0>(GetParam()) == container::file) {
    EXPECT_EQ(seen.tables, 0U);
  }
}

TEST_P(mutation, a_flipped_bit_is_an_error_or_another_value) {
  constexpr std::size_t flips = 130;
  std::mt19937_64 random(2);
  outcome seen;
  for (std::size_t i = 0; i < flips; ++i) {
    std::string damaged = bytes_;
    const std::size_t place = random() % damaged.size();
    const auto bit = static_cast<unsigned>(random() % 8);
    damaged[place] = static_cast<char>(static_cast<unsigned char>(damaged[place]) ^ (1U << bit));
    try_bytes(damaged, concat("bit ", bit, " of byte ", place, ": "), seen);
  }
  EXPECT_GT(seen.errors, 0U);
  EXPECT_GT(seen.tables, 0U);
}

TEST_P(mutation, an_extreme_number_in_the_metadata_is_an_error_or_another_value) {
  constexpr std::size_t changes = 60;
  std::mt19937_64 random(3);
  outcome seen;
  for (std::size_t i = 0; i < changes; ++i) {
    std::string damaged = bytes_;
    const std::size_t place = random() % (damaged.size() / 8) * 8;
    const std::int64_t value = std::array<std::int64_t, 6>{
        -1, 0, std::int64_t{1} << 40, INT64_MAX, INT64_MIN, 0x7FFFFFFF'7FFFFFFF}[random() % 6];
    std::memcpy(damaged.data() + place, &value, sizeof value);
    try_bytes(damaged, concat(value, " at byte ", place, ": "), seen);
  }
  EXPECT_GT(seen.errors, 0U);
}

INSTANTIATE_TEST_SUITE_P(ipc, mutation,
                         ::testing::Values(std::tuple(container::file, compression::none),
                                           std::tuple(container::stream, compression::none),
                                           std::tuple(container::file, compression::lz4),
                                           std::tuple(container::stream, compression::zstd)),
                         name_of_case);

using claim = ipc_test;

/// Changes the decoded size in front of a compressed buffer from `honest` to `claimed`.
std::string claiming(std::string bytes, std::int64_t honest, std::int64_t claimed) {
  const auto at = bytes.find(std::string_view(reinterpret_cast<const char*>(&honest), sizeof honest));
  EXPECT_NE(at, std::string::npos);
  std::memcpy(bytes.data() + at, &claimed, sizeof claimed);
  return bytes;
}

TEST_F(claim, of_an_enormous_size_is_refused_before_memory_is_allocated) {
  constexpr std::int64_t rows = 4999; // 39992 bytes, a number that occurs only once in the file
  const table original = random_table(ctx(), {data_type(type_id::int64)}, {.batch_rows = {rows}});
  for (const auto body : {compression::lz4, compression::zstd}) {
    const std::string bytes = write_bytes(original, {.body = body});
    for (const std::int64_t claimed :
         {std::int64_t{1} << 40, std::int64_t{1} << 31, std::int64_t{1} << 62, INT64_MAX}) {
      EXPECT_ERROR(read_bytes(claiming(bytes, rows * 8, claimed)), format, "batch 0", concat(claimed),
                   "decode to at most");
    }
    EXPECT_ERROR(read_bytes(claiming(bytes, rows * 8, -2)), format, "batch 0");
    EXPECT_ERROR(read_bytes(claiming(bytes, rows * 8, rows * 8 + 8)), format, "batch 0");
  }
}

TEST_F(claim, of_the_correct_size_is_charged_to_the_budget) {
  const table original = random_table(ctx(), {data_type(type_id::int64)}, {.batch_rows = {4999}});
  for (const auto body : {compression::lz4, compression::zstd}) {
    const std::string bytes = write_bytes(original, {.body = body});
    const auto narrow = ctx()->with_budget("narrow", 30'000);
    const auto kept = std::make_shared<std::string>(bytes);
    const auto open = [&] { return reader::open(std::as_bytes(std::span(*kept)), kept); };
    const error refused = error_of([&] { static_cast<void>(open()->read_all(narrow)); });
    EXPECT_EQ(name_of(refused.code()), name_of(errc::budget_exceeded)) << refused.message();
    ASSERT_NE(refused.refusal(), nullptr);
    EXPECT_EQ(refused.refusal()->limit, 30'000U);
    EXPECT_EQ(narrow->reports().statistics().budget.current, 0U);

    narrow->set_budget(200'000);
    const auto reading = open();
    {
      const table seen = reading->read_all(narrow);
      EXPECT_TRUE(same_contents(seen, original));
      const auto charged = narrow->reports().statistics().budget.current;
      EXPECT_GE(charged, 39'992U) << "decoded values count while they are viewed";
      EXPECT_LT(charged, 60'000U) << "the body that was read is gone";
    }
    EXPECT_EQ(narrow->reports().statistics().budget.current, 0U);
  }
}

TEST_F(claim, refused_by_the_budget_can_be_read_again) {
  const table original = random_table(ctx(), {data_type(type_id::int64)}, {.batch_rows = {100, 4999}});
  for (const auto format : {container::file, container::stream}) {
    for (const auto body : {compression::lz4, compression::zstd}) {
      const std::string bytes = write_bytes(original, {format, body});
      const auto narrow = ctx()->with_budget("narrow", 60'000);
      const auto reading = reader::open(std::as_bytes(std::span(bytes)), nullptr);
      EXPECT_EQ(reading->next(narrow)->rows, 100);
      for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(error_of([&] { static_cast<void>(reading->next(narrow)); }).code(), errc::budget_exceeded);
        EXPECT_EQ(narrow->reports().statistics().budget.current, 0U);
      }
      narrow->set_budget(budget::unlimited);
      EXPECT_EQ(reading->next(narrow)->rows, 4999);
      EXPECT_FALSE(reading->next(narrow).has_value());
    }
  }
}

TEST_F(claim, of_a_size_is_not_checked_by_inspect) {
  constexpr std::int64_t values = 4999; // 39992 bytes, as above
  constexpr std::int64_t claimed = std::int64_t{1} << 40;
  const write_options packed{.body = compression::lz4};
  const table plain = random_table(ctx(), {data_type(type_id::int64)}, {.batch_rows = {values}});
  store(file("plain"), claiming(write_bytes(plain, packed), values * 8, claimed));
  EXPECT_EQ(inspect(file("plain")).batch_rows, std::vector{values});

  const auto numbers =
      support::random_array(data_type(type_id::int64), {values, 0, support::nulls::absent}, 1);
  const auto indices = support::indices({0, 1}, numbers);
  const table encoded = support::table_of(ctx(), {{{"encoded", indices->type, true, {}}}, {}}, {{indices}});
  store(file("encoded"), claiming(write_bytes(encoded, packed), values * 8, claimed));
  EXPECT_EQ(inspect(file("encoded")).columns.front().dictionary_values, values);
  EXPECT_ERROR(read(file("encoded")), format, file("encoded").string(), concat(claimed), "decode to at most");
}

} // namespace
} // namespace saeta::ipc
