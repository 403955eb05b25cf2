// Groups of pieces that are joined to one column: a group ends at the limit of 32-bit offsets or of run ends.
// Only the sizes are tested, because no memory could hold the values.
#include "saeta/column/column.hpp"
#include "saeta/ipc/read/piece_table.hpp"
#include "unit/base/raises.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace saeta::ipc::detail {
namespace {

using ::testing::ElementsAre;

constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t half = std::int64_t{1} << 30;

/// The rows of a piece in one node of the type, the bytes or child rows that they refer to, and the nulls.
struct node_size {
  std::int64_t rows = 0;
  std::int64_t pointed = 0;
  std::int64_t nulls = 0;
};

/// Pieces of one column, given by their sizes.
class said_pieces {
public:
  explicit said_pieces(data_type type) : column_{"x", std::move(type), true, {}} {
    tree_.fields = {&column_};
    add(column_.type);
    tree_.roots = {0};
    table_.tree = &tree_;
  }
  said_pieces(const said_pieces&) = delete;
  said_pieces& operator=(const said_pieces&) = delete;

  /// Adds a piece. @param nodes  sizes of the column and all its children, depth first
  said_pieces& piece(const std::vector<node_size>& nodes) {
    EXPECT_EQ(nodes.size(), tree_.nodes.size());
    table_.messages.emplace_back();
    for (const node_size& each : nodes) {
      piece_span span;
      span.rows = each.rows;
      span.pointed = each.pointed;
      span.nulls = each.nulls;
      table_.spans.push_back(span);
    }
    return *this;
  }
  /// Returns the number of pieces up to the end of each group.
  std::vector<std::size_t> ends(const std::function<bool(std::size_t)>& cut = never_cut) {
    std::vector<std::size_t> made;
    std::size_t next = 0;
    for (const piece_group& each : take_groups(table_, cut)) {
      EXPECT_EQ(each.first, next);
      next = each.end;
      made.push_back(each.end);
    }
    return made;
  }
  static bool never_cut(std::size_t) { return false; }

  [[nodiscard]] piece_table& table() { return table_; }

private:
  void add(const data_type& type) {
    const std::size_t at = tree_.nodes.size();
    tree_.nodes.emplace_back().type = &type;
    for (const field& child : type.children()) {
      add(child.type);
    }
    tree_.nodes[at].end = tree_.nodes.size();
  }

  field column_;
  column_tree tree_;
  piece_table table_;
};

data_type list_of(const data_type& values, const char* format = "+l") {
  return data_type::nested(format, {{"item", values, true, {}}});
}
data_type run_ends(type_id ends) {
  return data_type::nested(
      "+r", {{"run_ends", data_type(ends), false, {}}, {"values", data_type(type_id::int8), true, {}}});
}

TEST(piece_groups, of_strings_end_at_the_limit_of_32_bit_offsets) {
  said_pieces of{data_type(type_id::string)};
  of.piece({{10, half}}).piece({{20, half - 1}}); // exactly the limit
  of.piece({{5, 0}});                             // rows without bytes still fit
  of.piece({{30, 1}}).piece({{40, most - 1}}).piece({{50, most}}).piece({{60, most}});
  EXPECT_THAT(of.ends(), ElementsAre(3, 5, 6, 7));
  const piece_table& pieces = of.table();
  EXPECT_EQ(pieces.span(1, 0).row_base, 10);
  EXPECT_EQ(pieces.span(1, 0).pointed_base, half);
  EXPECT_EQ(pieces.span(2, 0).pointed_base, most);
  EXPECT_EQ(pieces.span(3, 0).row_base, 0) << "a group counts from its own beginning";
  EXPECT_EQ(pieces.span(3, 0).pointed_base, 0);
  EXPECT_EQ(pieces.span(4, 0).row_base, 30);
  EXPECT_EQ(pieces.span(4, 0).pointed_base, 1);
}

TEST(piece_groups, add_up_rows_and_bytes) {
  said_pieces of{data_type(type_id::binary)};
  of.piece({{10, most - 5}}).piece({{20, 5}}).piece({{30, 7}});
  const auto made = take_groups(of.table(), said_pieces::never_cut);
  ASSERT_EQ(made.size(), 2U);
  ASSERT_EQ(made[0].sums.size(), 1U);
  EXPECT_EQ(made[0].sums[0].rows, 30);
  EXPECT_EQ(made[0].sums[0].pointed, most);
  EXPECT_EQ(made[1].sums[0].rows, 30);
  EXPECT_EQ(made[1].sums[0].pointed, 7);
}

TEST(piece_groups, add_up_null_counts) {
  said_pieces of{data_type(type_id::int8)};
  of.piece({{10, 0, 0}}).piece({{10, 0, 4}}).piece({{10, 0, column::unknown_nulls}}).piece({{10, 0, 0}});
  const auto made = take_groups(of.table(), [](std::size_t piece) { return piece != 0; });
  ASSERT_EQ(made.size(), 4U);
  EXPECT_FALSE(made[0].sums[0].counts_nulls);
  EXPECT_TRUE(made[1].sums[0].counts_nulls);
  EXPECT_TRUE(made[2].sums[0].counts_nulls);
  EXPECT_FALSE(made[3].sums[0].counts_nulls);
}

TEST(piece_groups, of_64_bit_offsets_and_of_fixed_width_values_are_unlimited) {
  for (const type_id id :
       {type_id::large_string, type_id::large_binary, type_id::string_view, type_id::int8}) {
    said_pieces of{data_type(id)};
    of.piece({{most, half * 1024}}).piece({{most, half * 1024}});
    EXPECT_THAT(of.ends(), ElementsAre(2)) << static_cast<int>(id);
  }
  said_pieces of{list_of(data_type(type_id::int8), "+L")};
  of.piece({{1, 3 * most}, {3 * most, 0}}).piece({{1, most}, {most, 0}});
  EXPECT_THAT(of.ends(), ElementsAre(2));
}

TEST(piece_groups, of_lists_count_their_values_and_those_of_their_children) {
  said_pieces of{list_of(data_type(type_id::string))};
  of.piece({{1, half}, {half, 100}}).piece({{1, half - 1}, {half - 1, 100}});
  of.piece({{1, 1}, {1, 100}}); // one value too many
  of.piece({{1, 1}, {1, most - 100}});
  of.piece({{1, 1}, {1, 1}}); // one byte of a child too many
  EXPECT_THAT(of.ends(), ElementsAre(2, 4, 5));
}

TEST(piece_groups, of_list_views_and_dense_unions_count_the_rows_of_their_children) {
  said_pieces views{list_of(data_type(type_id::int8), "+vl")};
  views.piece({{1, 0}, {most, 0}}).piece({{1, 0}, {0, 0}}).piece({{1, 0}, {1, 0}});
  EXPECT_THAT(views.ends(), ElementsAre(2, 3));

  said_pieces large{list_of(data_type(type_id::int8), "+vL")};
  large.piece({{1, 0}, {most, 0}}).piece({{1, 0}, {most, 0}});
  EXPECT_THAT(large.ends(), ElementsAre(2));

  said_pieces unions{data_type::nested("+ud:0,1", {{"a", list_of(data_type(type_id::int8), "+L"), true, {}},
                                                   {"b", data_type(type_id::int8), true, {}}})};
  unions.piece({{most, 0}, {half, 0}, {3 * most, 0}, {half, 0}});
  // Bytes that a child's rows refer to do not limit the union.
  unions.piece({{most, 0}, {half - 1, 0}, {3 * most, 0}, {0, 0}});
  unions.piece({{most, 0}, {0, 0}, {0, 0}, {half, 0}});
  EXPECT_THAT(unions.ends(), ElementsAre(2, 3));
}

TEST(piece_groups, of_run_ends_end_at_the_limit_of_their_type) {
  for (const auto& [id, limit] :
       {std::pair(type_id::int16, std::int64_t{std::numeric_limits<std::int16_t>::max()}),
        std::pair(type_id::int32, most),
        std::pair(type_id::int64, std::numeric_limits<std::int64_t>::max())}) {
    said_pieces of{run_ends(id)};
    of.piece({{limit - 1, 1}, {1, 0}, {1, 0}}).piece({{1, 1}, {1, 0}, {1, 0}});
    if (id == type_id::int64) {
      EXPECT_THAT(of.ends(), ElementsAre(2));
      continue;
    }
    of.piece({{1, 1}, {1, 0}, {1, 0}});
    EXPECT_THAT(of.ends(), ElementsAre(2, 3)) << limit;
  }
}

TEST(piece_groups, begin_at_requested_pieces) {
  said_pieces of{data_type(type_id::string)};
  of.piece({{1, 1}}).piece({{1, 1}}).piece({{1, most}}).piece({{1, 0}});
  EXPECT_THAT(of.ends([](std::size_t piece) { return piece == 1 || piece == 3; }), ElementsAre(1, 2, 3, 4));
  said_pieces none{data_type(type_id::string)};
  EXPECT_THAT(none.ends(), ElementsAre());
}

TEST(piece_groups, of_more_than_64_bits_of_bytes_are_refused) {
  constexpr std::int64_t large = std::numeric_limits<std::int64_t>::max();
  std::string message;
  const auto refused = [&](said_pieces& of) {
    return unit::code_raised_by([&] { static_cast<void>(of.ends()); }, &message);
  };
  said_pieces rows{data_type(type_id::int8)};
  rows.piece({{large, 0}}).piece({{1, 0}});
  EXPECT_EQ(refused(rows), errc::overflow);
  EXPECT_THAT(message, ::testing::HasSubstr("rows of a column"));
  said_pieces bytes{data_type(type_id::large_string)};
  bytes.piece({{1, large}}).piece({{1, 1}});
  EXPECT_EQ(refused(bytes), errc::overflow);
  EXPECT_THAT(message, ::testing::HasSubstr("bytes of a column"));
}

} // namespace
} // namespace saeta::ipc::detail
