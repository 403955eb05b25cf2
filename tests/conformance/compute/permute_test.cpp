// Pseudo-random permutations of row numbers and rows by a key, equal on every backend.
#include "conformance/harness/context_test.hpp"
#include "saeta/compute/take.hpp"
#include "unit/base/raises.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>

namespace saeta::conformance {
namespace {

class permuted_rows : public context_test {
protected:
  template <class Row>
  [[nodiscard]] std::vector<Row> rows_of(const column& of) const {
    const std::vector<std::uint8_t> bytes = read(of.values());
    std::vector<Row> made(static_cast<std::size_t>(of.length()));
    if (!made.empty()) {
      std::memcpy(made.data(), bytes.data(), made.size() * sizeof(Row));
    }
    return made;
  }
  /// All rows, as one batch of one window.
  [[nodiscard]] static lane_batches in_one_window(std::int64_t count) {
    return {.batch_rows = std::max<std::int64_t>(count, 1), .count = count};
  }
  [[nodiscard]] std::vector<std::uint32_t> permuted(std::int64_t count, std::uint64_t key) const {
    return rows_of<std::uint32_t>(permute_rows(ctx(), count, key, in_one_window(count)));
  }
  /// Makes a table of the column in several batches.
  [[nodiscard]] table table_of(const column& numbers, std::int64_t batches) const {
    schema fields;
    fields.fields.push_back({"n", numbers.type(), false, {}});
    std::vector<batch> made;
    const std::int64_t rows = numbers.length() / batches;
    for (std::int64_t i = 0; i < batches; ++i) {
      made.push_back({rows, {numbers.slice(i * rows, rows)}});
    }
    return table::make(ctx(), std::move(fields), std::move(made));
  }
  [[nodiscard]] std::optional<errc> refusal(std::int64_t count, const lane_batches& batches) const {
    return unit::code_raised_by([&] { static_cast<void>(permute_rows(ctx(), count, 0, batches)); });
  }
};

TEST_P(permuted_rows, are_the_same_in_every_release) {
  EXPECT_EQ(permuted(10, 7), (std::vector<std::uint32_t>{9, 0, 4, 2, 6, 5, 1, 3, 8, 7}));
  const std::vector<std::uint32_t> some = permuted(1000, 0);
  EXPECT_EQ(std::vector(some.begin(), some.begin() + 6),
            (std::vector<std::uint32_t>{780, 510, 630, 343, 547, 591}));
  const column many = permute_rows(ctx(), std::int64_t{1} << 33, ~std::uint64_t{0},
                                   {.batch_rows = 4, .count = 4, .window_batches = std::int64_t{1} << 31});
  EXPECT_EQ(many.type(), data_type(type_id::int64));
  EXPECT_EQ(rows_of<std::int64_t>(many),
            (std::vector<std::int64_t>{7647783139, 6881680832, 3976019800, 5437327957}));
}

TEST_P(permuted_rows, contain_each_row_once) {
  for (const std::int64_t count : {0, 1, 2, 255, 256, 257, 4099, 65'537}) {
    std::vector<std::uint32_t> seen = permuted(count, 3);
    std::ranges::sort(seen);
    std::vector<std::uint32_t> all(static_cast<std::size_t>(count));
    std::iota(all.begin(), all.end(), 0U);
    EXPECT_EQ(seen, all);
  }
}

TEST_P(permuted_rows, of_batches_equal_the_rows_at_their_positions) {
  const std::vector<std::uint32_t> all = permuted(100, 5);
  const lane_batches batches{.first = 1, .step = 3, .batch_rows = 7, .count = 30, .window_batches = 15};
  const std::vector<std::uint32_t> some = rows_of<std::uint32_t>(permute_rows(ctx(), 100, 5, batches));
  std::vector<std::uint32_t> expected;
  for (std::int64_t k = 0; k < 30; ++k) {
    expected.push_back(all[static_cast<std::size_t>(7 + k / 7 * 21 + k % 7)]);
  }
  EXPECT_EQ(some, expected);
}

TEST_P(permuted_rows, of_many_batches_equal_those_of_each_batch) {
  constexpr std::int64_t count = 200'003; // which threads share
  const lane_batches all{.batch_rows = 3000, .count = count, .window_batches = 67};
  const std::vector<std::uint32_t> rows = rows_of<std::uint32_t>(permute_rows(ctx(), count, 5, all));
  std::vector<std::uint32_t> expected;
  lane_batches one = all;
  for (one.first = 0; one.first < 67; ++one.first) {
    one.count = std::min<std::int64_t>(3000, count - one.first * 3000);
    const auto of_batch = rows_of<std::uint32_t>(permute_rows(ctx(), count, 5, one));
    expected.insert(expected.end(), of_batch.begin(), of_batch.end());
  }
  EXPECT_EQ(rows, expected);
}

TEST_P(permuted_rows, of_a_large_table_are_looked_up_in_all_of_its_batches) {
  constexpr std::int64_t count = 200'000;
  const column numbers = permute_rows(ctx(), count, 9, in_one_window(count));
  const std::vector<std::uint32_t> values = rows_of<std::uint32_t>(numbers);
  std::vector<std::uint32_t> expected;
  for (const std::uint32_t row : permuted(count, 5)) {
    expected.push_back(values[row]);
  }
  for (const std::int64_t batches : {1, 4}) {
    const table taken = take_permuted(table_of(numbers, batches), 5, in_one_window(count));
    EXPECT_EQ(rows_of<std::uint32_t>(taken.batches().front().columns.front()), expected);
  }
}

TEST_P(permuted_rows, of_lanes_are_permuted_within_their_windows) {
  // two rounds of windows of 40 rows of three lanes, of which the last window has 33
  const lane_batches all{.batch_rows = 10, .count = 233, .lanes = 3, .window_batches = 4, .round = 2};
  const std::vector<std::uint32_t> rows = rows_of<std::uint32_t>(permute_rows(ctx(), 233, 5, all));
  const permutation order = make_permutation(40, 5);
  std::vector<std::uint32_t> expected;
  for (std::int64_t k = 0; k < 233; ++k) {
    const std::int64_t batch = k / 10;
    const std::int64_t round = batch / 12;
    const std::int64_t lane = batch % 3;
    const std::int64_t window = round * 3 + lane;
    const permutation of = of_window(order, window == 5 ? 33 : 40, static_cast<std::uint64_t>(window + 6));
    expected.push_back(static_cast<std::uint32_t>(
        window * 40 +
        static_cast<std::int64_t>(permute(of, static_cast<std::uint64_t>(batch / 3 % 4 * 10 + k % 10)))));
  }
  EXPECT_EQ(rows, expected);
  std::ranges::sort(expected);
  EXPECT_TRUE(std::ranges::adjacent_find(expected) == expected.end());
  // every second batch of the middle lane, of a table of that lane alone
  const lane_batches some{.first = 4,
                          .step = 6,
                          .batch_rows = 10,
                          .count = 30,
                          .lanes = 3,
                          .lane_step = 3,
                          .window_batches = 4,
                          .round = 2};
  std::vector<std::uint32_t> of_lane;
  for (const std::int64_t batch : {4, 10, 16}) {
    for (std::int64_t k = batch * 10; k < batch * 10 + 10; ++k) {
      const std::uint32_t row = rows[static_cast<std::size_t>(k)];
      of_lane.push_back(row / 120 * 40 + row % 40);
    }
  }
  EXPECT_EQ(rows_of<std::uint32_t>(permute_rows(ctx(), 80, 5, some)), of_lane);
}

TEST_P(permuted_rows, of_a_table_are_taken_in_the_permuted_order) {
  const column numbers = permute_rows(ctx(), 100, 9, in_one_window(100)); // any values will do
  const std::vector<std::uint32_t> values = rows_of<std::uint32_t>(numbers);
  for (const std::int64_t batches : {1, 4}) {
    for (const lane_batches& wanted :
         {in_one_window(100), lane_batches{.first = 7},
          lane_batches{
              .first = 1, .step = 2, .batch_rows = 3, .count = 9, .lanes = 2, .window_batches = 10}}) {
      const std::vector<std::uint32_t> rows = rows_of<std::uint32_t>(permute_rows(ctx(), 100, 5, wanted));
      std::vector<std::uint32_t> expected;
      std::ranges::transform(rows, std::back_inserter(expected),
                             [&](std::uint32_t row) { return values[row]; });
      const table taken = take_permuted(table_of(numbers, batches), 5, wanted);
      ASSERT_EQ(taken.batches().size(), 1U);
      EXPECT_EQ(rows_of<std::uint32_t>(taken.batches().front().columns.front()), expected);
    }
    EXPECT_EQ(unit::code_raised_by([&] {
                static_cast<void>(take_permuted(table_of(numbers, batches), 0, in_one_window(101)));
              }),
              errc::out_of_range);
  }
}

TEST_P(permuted_rows, are_taken_without_waiting_on_the_host) {
  for (const std::int64_t batches : {1, 4}) {
    const table source = table_of(permute_rows(ctx(), 100, 9, in_one_window(100)), batches);
    ctx()->copies().reset_counters();
    const table taken = take_permuted(source, 5, in_one_window(100));
    EXPECT_EQ(ctx()->copies().count().read().synchronizations, 0U);
  }
}

TEST_P(permuted_rows, refuse_numbers_that_are_not_rows) {
  EXPECT_EQ(refusal(10, {.batch_rows = 11, .count = 11}), errc::out_of_range);
  EXPECT_EQ(refusal(10, {.first = 2, .batch_rows = 4, .count = 3, .window_batches = 3}), errc::out_of_range);
  EXPECT_EQ(refusal(10, {.step = 2, .batch_rows = 2, .count = 8, .window_batches = 9}), errc::out_of_range);
  EXPECT_EQ(refusal(10, {.first = -1, .count = 3}), errc::invalid_argument);
  EXPECT_EQ(refusal(10, {.step = 0, .count = 3}), errc::invalid_argument);
  EXPECT_EQ(refusal(10, {.count = 3, .lanes = 4, .lane_step = 3}), errc::invalid_argument);
  EXPECT_EQ(refusal(10, {.step = 3, .count = 3, .lanes = 4, .lane_step = 2}), errc::invalid_argument);
  EXPECT_EQ(refusal(-1, {}), errc::out_of_range);
  EXPECT_EQ(refusal(10, {.step = std::int64_t{1} << 62, .batch_rows = 2, .count = 9}), errc::overflow);
}

SAETA_CONFORMANCE_SUITE(permuted_rows);

} // namespace
} // namespace saeta::conformance
