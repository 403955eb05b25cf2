// How a list of batches is cut into windows.

#include "ipc_test.hpp"
#include "planned_bytes.hpp"
#include "saeta/ipc/read/window_cutter.hpp"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace saeta::ipc::detail {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint64_t never = ~std::uint64_t{0}; ///< as `most_whole`: no compressed batch is cut

class window_cuts : public ipc_test {
protected:
  using rows = std::pair<std::int64_t, std::int64_t>; ///< first row, and number

  /// Plans a file of batches of int64 without nulls: 8 bytes a row.
  void plan(const std::vector<std::int64_t>& of_batches, compression body = compression::none,
            const data_type& type = data_type(type_id::int64)) {
    std::vector<std::vector<support::shared_array>> batches;
    for (const std::int64_t each : of_batches) {
      batches.push_back({support::random_array(type, {each, 0, support::nulls::absent}, batches.size())});
    }
    bytes_.emplace(write_bytes(support::table_of(ctx(), {{{"x", type, true, {}}}, {}}, batches),
                               {.body = body, .batch_rows = std::int64_t{1} << 40}));
    const read_request request = bytes_->request();
    planned_ = planned_source::find(std::span(&request, 1));
  }
  [[nodiscard]] window_cutter cutter(scan_list list) const {
    return {planned_, std::move(list), ctx()->memory_budget()};
  }
  [[nodiscard]] window_cutter cutter() const { return cutter(planned_->everything()); }
  /// The rows of each piece of the next window.
  static std::vector<rows> next(window_cutter& from, std::uint64_t bytes, std::uint64_t most_whole = never) {
    const auto window = from.next(bytes, most_whole);
    EXPECT_TRUE(window.has_value());
    std::vector<rows> pieces;
    for (std::size_t i = 0; i < window->messages.size(); ++i) {
      pieces.emplace_back(window->messages[i].first_row, window->rows[i]);
    }
    return pieces;
  }
  /// The number of pieces in each window.
  [[nodiscard]] std::vector<std::size_t> sizes(std::uint64_t bytes) const {
    std::vector<std::size_t> sizes;
    for (window_cutter from = cutter(); !from.at_end();) {
      sizes.push_back(next(from, bytes).size());
    }
    return sizes;
  }

  std::optional<planned_bytes> bytes_;
  std::shared_ptr<const planned_source> planned_;
};

TEST_F(window_cuts, have_as_many_whole_batches_as_fit) {
  plan(std::vector<std::int64_t>(10, 100));
  EXPECT_THAT(sizes(4 * 800), ElementsAre(4, 4, 2));
  EXPECT_THAT(sizes(4 * 800 - 1), ElementsAre(3, 3, 3, 1));
  EXPECT_THAT(sizes(5 * 800), ElementsAre(5, 5));
  EXPECT_THAT(sizes(800), ::testing::SizeIs(10));
  EXPECT_THAT(sizes(1 << 20), ElementsAre(10));
  plan({10, 10, 10, 10, 100, 10, 10, 0, 0});
  EXPECT_THAT(sizes(880), ElementsAre(4, 2, 3)) << "the average says more, and later fewer";
  EXPECT_THAT(sizes(1120), ElementsAre(5, 4));
}

TEST_F(window_cuts, have_nothing_behind_the_end) {
  plan({10});
  window_cutter from = cutter();
  EXPECT_FALSE(from.at_end());
  EXPECT_EQ(from.label(), "bytes: batch 0");
  EXPECT_THAT(next(from, 1000), ElementsAre(rows(0, 10)));
  EXPECT_TRUE(from.at_end());
  EXPECT_THAT(next(from, 1000), IsEmpty());
  from.go_to({});
  EXPECT_THAT(next(from, 1000), ElementsAre(rows(0, 10)));
}

TEST_F(window_cuts, are_parts_of_a_batch_that_does_not_fit) {
  plan({1000, 10});
  window_cutter from = cutter();
  EXPECT_THAT(next(from, 2000), ElementsAre(rows(0, 192))) << "250 rows fit, 192 are a multiple of 64";
  EXPECT_EQ(from.label(), "bytes: batch 0");
  EXPECT_THAT(next(from, 2000), ElementsAre(rows(192, 192)));
  EXPECT_THAT(next(from, 4000), ElementsAre(rows(384, 448)));
  EXPECT_THAT(next(from, 2000), ElementsAre(rows(832, 168)));
  EXPECT_EQ(from.label(), "bytes: batch 1");
  EXPECT_THAT(next(from, 2000), ElementsAre(rows(0, 10)));
  EXPECT_TRUE(from.at_end());
  window_cutter narrow = cutter();
  EXPECT_THAT(next(narrow, 80), ElementsAre(rows(0, 10))) << "fewer than 64 rows begin anywhere";
  EXPECT_THAT(next(narrow, 1), ElementsAre(rows(10, 1))) << "at least one row";
  EXPECT_THAT(next(narrow, 513), ElementsAre(rows(11, 64)));
}

TEST_F(window_cuts, are_those_of_the_list_if_it_has_any) {
  plan({100, 200, 300});
  const scan_list list{
      .spans = {{2, 10, 20}, {0}, {1, 50, -1}, {1, 0, 0}}, .window_ends = {1, 3, 4}, .orders = {}};
  window_cutter from = cutter(list);
  EXPECT_TRUE(from.has_windows());
  EXPECT_FALSE(from.is_one(never));
  EXPECT_THAT(next(from, 1), ElementsAre(rows(10, 20)));
  EXPECT_EQ(from.at().window, 1U);
  EXPECT_THAT(next(from, 1), ElementsAre(rows(0, 100), rows(50, 150)));
  EXPECT_EQ(from.label(), "bytes: batch 1");
  EXPECT_THAT(next(from, 1), ElementsAre(rows(0, 0)));
  EXPECT_TRUE(from.at_end());
  EXPECT_TRUE(cutter({.spans = {{0}, {1}}, .window_ends = {2}, .orders = {}}).is_one(1));
}

TEST_F(window_cuts, end_with_the_rows_of_their_span) {
  plan({1000});
  window_cutter from = cutter({.spans = {{0, 100, 300}}, .window_ends = {}, .orders = {}});
  EXPECT_THAT(next(from, 1600), ElementsAre(rows(100, 192)));
  EXPECT_THAT(next(from, 1600), ElementsAre(rows(292, 108)));
  EXPECT_TRUE(from.at_end());
}

TEST_F(window_cuts, are_one_if_all_bodies_fit) {
  plan({100, 100});
  EXPECT_FALSE(cutter().has_windows());
  EXPECT_TRUE(cutter().is_one(planned_->body_bytes()));
  EXPECT_FALSE(cutter().is_one(planned_->body_bytes() - 1));
}

TEST_F(window_cuts, divide_a_compressed_batch_only_if_it_is_large_and_takes_too_much) {
  constexpr std::int64_t decoder = (1 << 20) / 8; // rows with the bytes of one decoder
  plan({decoder, 3 * decoder}, compression::zstd);
  window_cutter from = cutter();
  EXPECT_THAT(next(from, 1000, 0), ElementsAre(rows(0, decoder))) << "no larger than its decoder";
  const auto begin = from.at();
  EXPECT_THAT(next(from, 1000, 3 << 20), ElementsAre(rows(0, 3 * decoder))) << "it may be read as a whole";
  from.go_to(begin);
  const std::vector<rows> half = next(from, 2 << 20, (3 << 20) - 1);
  EXPECT_THAT(half, ElementsAre(rows(0, decoder))) << "decoders take half of the bytes";
  EXPECT_THAT(next(from, 2 << 20, (3 << 20) - 1), ElementsAre(rows(decoder, decoder)));
  EXPECT_THAT(next(from, 8 << 20, (3 << 20) - 1), ElementsAre(rows(2 * decoder, decoder)));
  EXPECT_TRUE(from.at_end());
  plan({2 * decoder}, compression::zstd, data_type(type_id::string_view));
  window_cutter undivided = cutter();
  EXPECT_THAT(next(undivided, 1000, 0), ElementsAre(rows(0, 2 * decoder)));
}

TEST_F(window_cuts, go_on_with_the_decoders_of_the_part_before) {
  constexpr std::int64_t decoder = (1 << 20) / 8; // rows with the bytes of one decoder
  plan({3 * decoder}, compression::lz4);
  window_cutter from = cutter();
  const auto first = from.next(2 << 20, 0);
  const auto second = from.next(2 << 20, 0);
  ASSERT_EQ(first->decoders.size(), 1U);
  ASSERT_NE(first->decoders[0], nullptr);
  EXPECT_EQ(second->decoders, first->decoders);
  plan({3 * decoder});
  window_cutter plain = cutter();
  EXPECT_THAT(plain.next(2 << 20, 0)->decoders, IsEmpty());
}

} // namespace
} // namespace saeta::ipc::detail
