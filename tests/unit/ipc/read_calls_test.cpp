// How often a reader asks an object that reads ranges: each call may be a request.

#include "ipc_test.hpp"
#include "saeta/ipc/data_set.hpp"

#include <atomic>
#include <cstring>
#include <utility>

namespace saeta::ipc {
namespace {

using ::testing::ElementsAre;

class read_calls : public ipc_test {
protected:
  using range = std::pair<std::uint64_t, std::size_t>;

  [[nodiscard]] std::unique_ptr<reader> open(std::string bytes, read_options options = {}) {
    bytes_ = std::move(bytes);
    calls_.clear();
    return reader::open(
        "object", bytes_.size(),
        [this](std::uint64_t offset, std::span<std::byte> target) {
          calls_.emplace_back(offset, target.size());
          std::memcpy(target.data(), bytes_.data() + offset, target.size());
        },
        std::move(options));
  }
  /// The calls since the last one of this function.
  std::vector<range> calls() { return std::exchange(calls_, {}); }
  [[nodiscard]] table numbers(std::size_t columns, std::vector<std::int64_t> rows) const {
    return support::random_table(ctx(), std::vector(columns, data_type(type_id::int64)),
                                 {.batch_rows = std::move(rows)});
  }

  std::string bytes_;
  std::vector<range> calls_;
};

TEST_F(read_calls, of_a_file_are_three_for_its_schema_and_two_for_each_batch) {
  const table original = numbers(3, {1000, 1000, 1000});
  const auto reading = open(write_bytes(original));
  EXPECT_THAT(calls(),
              ElementsAre(range(0, 8), range(bytes_.size() - 6, 6), range(bytes_.size() - 4102, 4096)));
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(reading->next(ctx())->rows, 1000);
    const auto seen = calls();
    ASSERT_EQ(seen.size(), 2U);
    EXPECT_EQ(seen[0].first + seen[0].second, seen[1].first) << "the metadata, then the body";
    EXPECT_GT(seen[1].second, 24'000U);
  }
}

TEST_F(read_calls, of_a_file_are_none_to_count_its_batches) {
  std::vector<std::unique_ptr<reader>> readers;
  readers.push_back(open(write_bytes(numbers(1, {10, 20, 30}))));
  calls();
  data_set data(std::move(readers), {.batches = {{2, 0}}});
  EXPECT_EQ(data.batch_count(), 2);
  EXPECT_THAT(calls(), ::testing::IsEmpty());
  EXPECT_EQ(data.next(ctx())->rows, 30);
  EXPECT_EQ(data.next(ctx())->rows, 10);
}

TEST_F(read_calls, of_a_large_footer_are_four) {
  const auto reading = open(write_bytes(numbers(100, {10})));
  const auto seen = calls();
  ASSERT_EQ(seen.size(), 4U);
  EXPECT_EQ(seen[3].first + seen[3].second, bytes_.size() - 10) << "all of the footer, before its size";
  EXPECT_GT(seen[3].second, 4096U);
  EXPECT_EQ(reading->next(ctx())->rows, 10);
}

TEST_F(read_calls, of_a_stream_are_two_for_each_batch_like_the_one_before_it) {
  const table original = numbers(3, {1000, 1000, 1000});
  const auto reading = open(write_bytes(original, {.format = container::stream}));
  calls();
  EXPECT_EQ(reading->next(ctx())->rows, 1000);
  calls();
  for (std::size_t i = 1; i < 3; ++i) {
    EXPECT_EQ(reading->next(ctx())->rows, 1000);
    EXPECT_EQ(calls().size(), 2U) << "prefix and metadata at once, then the body";
  }
}

TEST_F(read_calls, of_few_columns_are_for_their_bytes_only) {
  const table original = numbers(10, {20'000});
  const auto reading = open(write_bytes(original), {.columns = {{"2:int64", "7:int64"}}});
  calls();
  const auto batch = reading->next(ctx());
  EXPECT_TRUE(support::cells(batch->columns[0]) == support::cells(original, 2));
  EXPECT_TRUE(support::cells(batch->columns[1]) == support::cells(original, 7));
  const auto seen = calls();
  ASSERT_EQ(seen.size(), 3U) << "the metadata, and each column with its validity";
  for (std::size_t i = 1; i < 3; ++i) {
    EXPECT_GE(seen[i].second, 160'000U);
    EXPECT_LT(seen[i].second, 163'000U);
  }
}

TEST_F(read_calls, of_half_of_the_columns_are_for_the_whole_body) {
  const table original = numbers(4, {2000});
  const auto reading = open(write_bytes(original), {.columns = {{"0:int64", "3:int64"}}});
  calls();
  EXPECT_EQ(reading->next(ctx())->rows, 2000);
  const auto seen = calls();
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_GT(seen[1].second, 64'000U);
}

TEST_F(read_calls, of_a_scan_are_for_64_kib_or_more) {
  const std::string bytes = write_bytes(numbers(1, std::vector<std::int64_t>(100, 128)));
  std::atomic<int> calls{0};
  const auto read = [&](std::uint64_t offset, std::span<std::byte> target) {
    calls += target.size() < 1024 ? 0 : 1; // the metadata of a batch are shorter
    std::memcpy(target.data(), bytes.data() + offset, target.size());
  };
  const auto fetch = [](std::span<const byte_range>) { return std::shared_ptr<void>(); };
  const auto reading = reader::open("object", bytes.size(), read, {.copy = copy_policy::always}, fetch);
  const auto windows = reading->scan_windows(ctx(), {.window_bytes = 1});
  ASSERT_NE(windows, nullptr);
  calls = 0;
  std::int64_t rows = 0;
  while (const auto part = windows->next()) {
    rows += part->rows();
  }
  EXPECT_EQ(rows, 12'800);
  EXPECT_EQ(calls, 2) << "and not one for each batch";
}

} // namespace
} // namespace saeta::ipc
