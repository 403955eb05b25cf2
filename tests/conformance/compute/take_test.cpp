// Take and filter of columns in pieces, for every type, compared with the rows of the sources.
#include "conformance/harness/pieces_test.hpp"
#include "saeta/column/bits.hpp"
#include "saeta/column/view_cast.hpp"
#include "saeta/compute/take.hpp"
#include "support/nested_arrays.hpp"
#include "support/tables.hpp"
#include "unit/base/raises.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <numeric>
#include <random>
#include <string>

namespace saeta::conformance {
namespace {

using support::carried_types;
using support::nulls;
using support::plain_array;
using support::random_array;
using support::shared_array;

/// Row numbers over all parts; no_number is a null row.
using row_numbers = std::vector<std::int64_t>;
constexpr std::int64_t no_number = -1;

class taken_rows : public pieces_test {
protected:
  template <class Number>
  [[nodiscard]] column numbers(type_id type, const std::vector<Number>& values,
                               const std::vector<bool>& valid = {}) const {
    plain_array made;
    made.type = data_type(type);
    made.length = std::ssize(values);
    made.null_count = valid.empty() ? 0 : -1;
    const auto bytes = std::as_bytes(std::span(values));
    made.buffers = {bits(valid), {bytes.begin(), bytes.end()}};
    return imported(std::make_shared<const plain_array>(std::move(made)));
  }
  static std::vector<std::byte> bits(const std::vector<bool>& set) {
    std::vector<std::byte> made((set.size() + 7) / 8);
    for (std::size_t i = 0; i < set.size(); ++i) {
      made[i / 8] |= static_cast<std::byte>(set[i] ? 1 << (i % 8) : 0);
    }
    return made;
  }
  /// Makes a column of indices; no_number becomes null.
  [[nodiscard]] column indices(const row_numbers& rows) const {
    std::vector<bool> valid;
    for (const std::int64_t row : rows) {
      valid.push_back(row != no_number);
    }
    return numbers(type_id::int64, rows, valid);
  }
  row_numbers random_rows(std::int64_t count, std::int64_t end) {
    row_numbers made;
    for (std::int64_t i = 0; i < count; ++i) {
      made.push_back(std::uniform_int_distribution<std::int64_t>(0, end - 1)(random_));
    }
    return made;
  }
  [[nodiscard]] table numbered(std::size_t columns) const;
  static std::int64_t rows_of(const std::vector<part>& parts) {
    std::int64_t rows = 0;
    for (const part& each : parts) {
      rows += each.rows;
    }
    return rows;
  }
  static std::vector<column> taken(const std::vector<column>& pieces, const column& indices) {
    return take(pieces,
                rows_of_indices(pieces.front().ctx(), rows_of_pieces(pieces), std::span(&indices, 1)));
  }
  static std::vector<column> kept(const std::vector<column>& pieces, const std::vector<column>& mask) {
    std::vector<batch> batches;
    for (const column& piece : pieces) {
      batches.push_back({piece.length(), {piece}});
    }
    const schema fields{{{"x", pieces.front().type(), true, {}}}, {}};
    return filter(table::make(pieces.front().ctx(), fields, std::move(batches)), mask).pieces(0);
  }

  static bool is_null_row(const ArrowArray& seen, const data_type& type, std::int64_t row) {
    if (!type.has_validity()) {
      return true; // a child is nullable, or every row is null
    }
    const auto* const bits = static_cast<const std::uint8_t*>(seen.buffers[0]);
    const std::int64_t at = seen.offset + row;
    return bits != nullptr && (bits[at / 8] >> (at % 8) & 1) == 0;
  }
  /// Expects that the columns have these rows of the parts, in order.
  static void expect_rows(const std::vector<column>& seen, const std::vector<part>& parts,
                          const row_numbers& rows) {
    std::size_t at = 0;
    for (const column& piece : seen) {
      arrow_array out = export_column(piece);
      for (std::int64_t i = 0; i < piece.length(); ++i, ++at) {
        ASSERT_LT(at, rows.size());
        std::int64_t row = rows[at];
        if (row == no_number) {
          ASSERT_TRUE(is_null_row(out.get(), piece.type(), i)) << "row " << at;
          continue;
        }
        std::size_t part_number = 0;
        for (; row >= parts[part_number].rows; ++part_number) {
          row -= parts[part_number].rows;
        }
        const part& from = parts[part_number];
        ASSERT_TRUE(support::same_row(out.get(), i, *from.source, from.first + row))
            << "row " << at << " is not row " << rows[at];
      }
    }
    EXPECT_EQ(at, rows.size());
  }
  [[nodiscard]] std::uint64_t used() const { return ctx()->memory_budget()->statistics().current; }

  std::mt19937_64 random_{20'261'127};
};

TEST_P(taken_rows, takes_rows_of_every_type_from_several_pieces) {
  for (const data_type& type : carried_types()) {
    for (const nulls pattern : {nulls::absent, nulls::some, nulls::all}) {
      SCOPED_TRACE(::testing::Message() << type.name() << ", nulls " << static_cast<int>(pattern));
      const std::vector<part> parts = parts_of(type, pattern);
      const row_numbers rows = random_rows(2500, rows_of(parts));
      const std::vector<column> made = taken(imported(parts), indices(rows));
      ASSERT_EQ(made.size(), 1u);
      expect_rows(made, parts, rows);
    }
  }
}

TEST_P(taken_rows, takes_rows_of_every_type_from_one_piece_and_nulls) {
  for (const data_type& type : carried_types()) {
    SCOPED_TRACE(type.name());
    for (const std::int64_t count : {1, 31, 64, 65, 1025}) {
      const std::vector<part> parts{{random_array(type, {90, 7, nulls::some, false}, 3), 2, 80}};
      row_numbers rows = random_rows(count, 80);
      for (std::size_t i = 0; i < rows.size(); i += 3) {
        rows[i] = no_number;
      }
      const std::vector<column> made = taken(imported(parts), indices(rows));
      ASSERT_EQ(made.size(), 1u);
      expect_rows(made, parts, rows);
    }
  }
}

TEST_P(taken_rows, gathers_rows_of_every_type_into_compact_buffers) {
  for (const data_type& type : carried_types()) {
    for (const nulls pattern : {nulls::absent, nulls::some, nulls::all}) {
      SCOPED_TRACE(::testing::Message() << type.name() << ", nulls " << static_cast<int>(pattern));
      for (const part& each : parts_of(type, pattern)) {
        const column whole = imported(std::vector<part>{each}).front();
        const column made = gather(std::span(&whole, 1)).front();
        row_numbers rows(static_cast<std::size_t>(each.rows));
        std::iota(rows.begin(), rows.end(), 0);
        expect_rows({made}, {each}, rows);
        if (type.has_variadic_buffers() && each.rows != 0) {
          EXPECT_LE(made.buffers().size(), type.buffer_count() + 1);
        }
      }
    }
  }
}

TEST_P(taken_rows, refuses_views_out_of_range_when_they_are_gathered) {
  for (const std::array<std::int32_t, 4>& view :
       {std::array{13, 0, 1, 0}, {13, 0, -1, 0}, {13, 0, 0, 8}, {13, 0, 0, -1}, {21, 0, 0, 0}}) {
    const column bad =
        column::make(ctx(), {data_type(type_id::string_view),
                             1,
                             0,
                             0,
                             {{}, make_of<std::int32_t>({view[0], view[1], view[2], view[3]}), make(20)}});
    EXPECT_EQ(unit::code_raised_by([&] { static_cast<void>(gather(std::span(&bad, 1))); }), errc::format);
  }
}

TEST_P(taken_rows, takes_no_rows_and_null_rows_of_empty_columns) {
  for (const data_type& type : carried_types()) {
    SCOPED_TRACE(type.name());
    const std::vector<part> parts{{random_array(type, {5, 0, nulls::some, true}, 3), 0, 5}};
    EXPECT_EQ(taken(imported(parts), indices({})).front().length(), 0);
    const std::vector<column> nothing{column::empty(ctx(), type)};
    const std::vector<column> made = taken(nothing, indices({no_number, no_number}));
    ASSERT_EQ(made.size(), 1u);
    EXPECT_EQ(made[0].length(), 2);
    EXPECT_TRUE(!type.has_validity() || made[0].null_count() == 2);
  }
}

TEST_P(taken_rows, accepts_indices_of_every_integer_type) {
  const std::vector<part> parts{
      {random_array(data_type(type_id::int32), {50, 0, nulls::some, true}, 3), 0, 50}};
  const std::vector<column> pieces = imported(parts);
  expect_rows(taken(pieces, numbers<std::int8_t>(type_id::int8, {49, 0, 7})), parts, {49, 0, 7});
  expect_rows(taken(pieces, numbers<std::uint8_t>(type_id::uint8, {49, 0, 7})), parts, {49, 0, 7});
  expect_rows(taken(pieces, numbers<std::int16_t>(type_id::int16, {49, 0, 7})), parts, {49, 0, 7});
  expect_rows(taken(pieces, numbers<std::uint16_t>(type_id::uint16, {49, 0, 7})), parts, {49, 0, 7});
  expect_rows(taken(pieces, numbers<std::int32_t>(type_id::int32, {49, 0, 7})), parts, {49, 0, 7});
  expect_rows(taken(pieces, numbers<std::uint32_t>(type_id::uint32, {49, 0, 7})), parts, {49, 0, 7});
  expect_rows(taken(pieces, numbers<std::uint64_t>(type_id::uint64, {49, 0, 7})), parts, {49, 0, 7});
}

TEST_P(taken_rows, refuses_a_mask_as_indices) {
  const std::vector<column> pieces{numbers<std::int32_t>(type_id::int32, {1, 2, 3})};
  const column bytes = numbers<std::int8_t>(type_id::int8, {1, 0, 1});
  std::string message;
  for (const column& mask : {relabel(bytes, data_type::byte_bool()), relabel(bytes, data_type::bool8()),
                             pack_bool(bytes), column::empty(ctx(), data_type(type_id::boolean))}) {
    EXPECT_EQ(unit::code_raised_by([&] { static_cast<void>(taken(pieces, mask)); }, &message),
              errc::type_mismatch);
    EXPECT_TRUE(message.ends_with(", expected integers: filter takes a mask")) << message;
  }
}

TEST_P(taken_rows, takes_the_rows_of_a_slice_with_a_step) {
  for (const data_type& type : {data_type(type_id::int16), data_type(type_id::string)}) {
    const std::vector<part> parts = parts_of(type, nulls::some);
    const std::vector<column> pieces = imported(parts);
    const std::int64_t count = rows_of(parts);
    for (const std::int64_t step : {-1, -7, 1, 3, 100}) {
      row_numbers rows;
      for (std::int64_t row = step < 0 ? count - 1 : 0; row >= 0 && row < count; row += step) {
        rows.push_back(row);
      }
      const selected_rows chosen =
          rows_of_slice(ctx(), rows_of_pieces(pieces), step < 0 ? count - 1 : 0, step, std::ssize(rows));
      expect_rows(take(pieces, chosen), parts, rows);
    }
    EXPECT_EQ(take(pieces, rows_of_slice(ctx(), rows_of_pieces(pieces), 3, 2, 0)).front().length(), 0);
  }
}

TEST_P(taken_rows, names_the_first_index_out_of_range) {
  const std::vector<column> pieces = imported(
      std::vector<part>{{random_array(data_type(type_id::string), {50, 0, nulls::some, true}, 3), 0, 50}});
  std::string message;
  const auto raised = [&](const column& given) {
    return unit::code_raised_by([&] { static_cast<void>(taken(pieces, given)); }, &message);
  };
  const std::uint64_t before = used();
  EXPECT_EQ(raised(numbers<std::int32_t>(type_id::int32, {3, 50, -1})), errc::out_of_range);
  EXPECT_EQ(message, "index 50 in row 1 of the indices: expected 0 to 49, for 50 rows");
  EXPECT_EQ(raised(numbers<std::int64_t>(type_id::int64, {3, 4, 5, -7, 99})), errc::out_of_range);
  EXPECT_EQ(message, "index -7 in row 3 of the indices: expected 0 to 49, for 50 rows");
  EXPECT_EQ(raised(numbers<std::uint64_t>(type_id::uint64, {~std::uint64_t{0}})), errc::out_of_range);
  EXPECT_EQ(message, "index 18446744073709551615 in row 0 of the indices: expected 0 to 49, for 50 rows");
  {
    const std::vector<column> chunks{numbers<std::int64_t>(type_id::int64, {1, 2}),
                                     numbers<std::int64_t>(type_id::int64, {}),
                                     numbers<std::int64_t>(type_id::int64, {1, 70, 2})};
    EXPECT_EQ(
        unit::code_raised_by(
            [&] { static_cast<void>(rows_of_indices(ctx(), rows_of_pieces(pieces), chunks)); }, &message),
        errc::out_of_range);
    EXPECT_EQ(message, "index 70 in row 3 of the indices: expected 0 to 49, for 50 rows");
  }
  EXPECT_EQ(raised(numbers<float>(type_id::float32, {1.0F})), errc::type_mismatch);
  ctx()->wait_for_releases(std::chrono::seconds(5));
  EXPECT_EQ(used(), before);
}

TEST_P(taken_rows, keeps_the_rows_of_a_mask_of_bits_or_bytes) {
  for (const data_type& type :
       {data_type(type_id::int16), data_type(type_id::string), data_type(type_id::boolean)}) {
    SCOPED_TRACE(type.name());
    const std::vector<part> parts = parts_of(type, nulls::some);
    const std::vector<column> pieces = imported(parts);
    const auto count = static_cast<std::size_t>(rows_of(parts));
    std::vector<std::int8_t> set(count);
    std::vector<bool> valid(count);
    row_numbers rows;
    for (std::size_t i = 0; i < count; ++i) {
      set[i] = random_() % 3 == 0 ? 0 : 2;
      valid[i] = random_() % 4 != 0;
      if (set[i] != 0 && valid[i]) {
        rows.push_back(static_cast<std::int64_t>(i));
      }
    }
    const column bytes = relabel(numbers(type_id::int8, set, valid), data_type::byte_bool());
    expect_rows(kept(pieces, {bytes}), parts, rows);
    const column packed = pack_bool(bytes);
    expect_rows(kept(pieces, {packed}), parts, rows);
    // the mask in other pieces, split inside of bytes
    expect_rows(kept(pieces, {packed.slice(0, 13), packed.slice(13, 0), packed.slice(13, 100),
                              bytes.slice(113, bytes.length() - 113)}),
                parts, rows);
  }
}

TEST_P(taken_rows, keeps_all_rows_and_none) {
  const std::vector<part> parts{
      {random_array(data_type(type_id::string), {3000, 0, nulls::some, true}, 3), 0, 3000}};
  const std::vector<column> pieces = imported(parts);
  const auto mask = [&](std::int8_t value) {
    return relabel(numbers(type_id::int8, std::vector<std::int8_t>(3000, value)), data_type::byte_bool());
  };
  row_numbers all(3000);
  std::iota(all.begin(), all.end(), std::int64_t{0});
  expect_rows(kept(pieces, {mask(1)}), parts, all);
  expect_rows(kept(pieces, {mask(0)}), parts, {});
}

/// More tiles (of 1024 rows) than the 1024 whose counts one thread block sums up.
TEST_P(taken_rows, keeps_the_rows_of_a_mask_of_many_tiles) {
  constexpr std::size_t count = 1024 * 1024 + 5000;
  std::vector<std::int8_t> values(count);
  std::vector<std::int8_t> set(count);
  std::vector<std::uint8_t> expected;
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<std::int8_t>(i % 101);
    set[i] = i % 7 < 2 ? 1 : 0;
    if (set[i] != 0) {
      expected.push_back(static_cast<std::uint8_t>(values[i]));
    }
  }
  const column mask = relabel(numbers(type_id::int8, set), data_type::byte_bool());
  const std::vector<column> made = kept({numbers(type_id::int8, values)}, {mask});
  ASSERT_EQ(made.size(), 1u);
  EXPECT_EQ(read(made[0].values()), expected);
}

TEST_P(taken_rows, refuses_masks_of_other_types_and_lengths) {
  const std::vector<column> pieces = imported(parts_of(data_type(type_id::int32), nulls::none));
  EXPECT_EQ(unit::code_raised_by(
                [&] { static_cast<void>(kept(pieces, {numbers<std::int8_t>(type_id::int8, {1})})); }),
            errc::type_mismatch);
  const column one = relabel(numbers<std::int8_t>(type_id::int8, {1}), data_type::byte_bool());
  std::string message;
  EXPECT_EQ(unit::code_raised_by([&] { static_cast<void>(kept(pieces, {one})); }, &message),
            errc::invalid_argument);
  EXPECT_EQ(message, "a mask of 1 rows for 238 rows");
}

TEST_P(taken_rows, takes_rows_of_a_table_with_every_type) {
  support::table_shape shape;
  const table source = support::random_table(ctx(), carried_types(), shape);
  const row_numbers rows = random_rows(300, source.rows());
  const column chosen = indices(rows);
  const table made = take(source, std::span(&chosen, 1));
  ASSERT_EQ(made.batches().size(), 1u);
  ASSERT_EQ(made.rows(), 300);
  EXPECT_EQ(made.fields(), source.fields());
  for (std::size_t i = 0; i < source.column_count(); ++i) {
    SCOPED_TRACE(source.fields().fields[i].name);
    if (!carried_types()[i].children().empty()) {
      continue; // `cells` does not support nested values
    }
    const std::vector<support::cell> expected = support::cells(source, i);
    const std::vector<support::cell> seen = support::cells(made, i);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      ASSERT_EQ(seen[row], expected[static_cast<std::size_t>(rows[row])]) << "row " << row;
    }
  }
}

/// Strings that are empty, longer than a vector load, or longer than a tile, at any alignment.
TEST_P(taken_rows, takes_long_and_empty_strings) {
  std::vector<std::string> texts;
  for (const unsigned length : {0U, 0U, 1U, 15U, 0U, 16U, 17U, 33U, 100U, 0U, 1000U, 20'000U, 0U}) {
    std::string& text = texts.emplace_back(length, ' ');
    std::ranges::generate(text, [&] { return static_cast<char>('a' + random_() % 26); });
  }
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const support::shared_array whole = support::strings(views);
  const std::vector<part> parts{{whole, 1, 11}, {whole, 0, 13}};
  const row_numbers rows = random_rows(300, 24);
  expect_rows(taken(imported(parts), indices(rows)), parts, rows);
  row_numbers empty(5000, 0); // all of them row 1, an empty string
  empty.push_back(10);
  empty.insert(empty.end(), 5000, 3);
  expect_rows(taken(imported(parts), indices(empty)), parts, empty);
}

TEST_P(taken_rows, takes_many_columns_and_rows_in_groups) {
  constexpr std::int64_t rows = 20'000;
  constexpr std::size_t columns = 40;
  std::vector<std::int32_t> values(rows);
  std::iota(values.begin(), values.end(), 0);
  const column one = numbers(type_id::int32, values);
  batch wide{rows, std::vector<column>(columns, one)};
  schema fields;
  fields.fields.assign(columns, {"x", data_type(type_id::int32), false, {}});
  const table source = table::make(ctx(), fields, {wide});
  const row_numbers chosen = random_rows(60'000, rows);
  const column given = indices(chosen);
  const table made = take(source, std::span(&given, 1));
  for (std::size_t c = 0; c < columns; ++c) {
    const std::vector<std::uint8_t> bytes = read(made.pieces(c)[0].values());
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      std::int32_t value = 0;
      std::memcpy(&value, bytes.data() + 4 * i, 4);
      ASSERT_EQ(value, chosen[i]) << "column " << c << ", row " << i;
    }
  }
}

/// Makes a table with the numbers 0 to 49 in each column.
table taken_rows::numbered(std::size_t columns) const {
  std::vector<std::int32_t> values(50);
  std::iota(values.begin(), values.end(), 0);
  batch made{50, std::vector<column>(columns, numbers(type_id::int32, values))};
  schema fields;
  fields.fields.assign(columns, {"x", data_type(type_id::int32), false, {}});
  return table::make(ctx(), std::move(fields), {std::move(made)});
}

TEST_P(taken_rows, needs_no_upload_for_few_columns_and_one_wait) {
  const table source = numbered(16);
  const column chosen = numbers<std::int64_t>(type_id::int64, {49, 0, 7});
  ctx()->copies().reset_counters();
  const table made = take(source, std::span(&chosen, 1));
  const counter_values seen = ctx()->copies().read_counters();
  EXPECT_EQ(seen.allocations, 2U) << "the chosen rows with what their check finds, and the columns";
  EXPECT_EQ(seen.scalars.calls, 1U) << "what the check found";
  EXPECT_EQ(seen.synchronizations, ctx()->on_host() ? 0U : 1U);
  for (std::size_t i = 0; i < source.column_count(); ++i) {
    const std::vector<std::uint8_t> bytes = read(made.pieces(i)[0].values());
    std::vector<std::int32_t> values(3);
    std::memcpy(values.data(), bytes.data(), 12);
    EXPECT_EQ(values, (std::vector<std::int32_t>{49, 0, 7}));
  }
}

TEST_P(taken_rows, frees_rows_whose_check_fails) {
  const table source = numbered(3);
  const column chosen = numbers<std::int64_t>(type_id::int64, {3, -1});
  const std::uint64_t before = used();
  std::string message;
  EXPECT_EQ(unit::code_raised_by([&] { static_cast<void>(take(source, std::span(&chosen, 1))); }, &message),
            errc::out_of_range);
  EXPECT_EQ(message, "index -1 in row 1 of the indices: expected 0 to 49, for 50 rows");
  ctx()->wait_for_releases(std::chrono::seconds(5));
  EXPECT_EQ(used(), before);
}

TEST_P(taken_rows, of_null_indices_are_nullable) {
  const table source = numbered(2);
  for (const bool null : {false, true}) {
    const column chosen = indices({3, null ? no_number : 4});
    EXPECT_EQ(take(source, std::span(&chosen, 1)).fields().fields[1].nullable, null);
  }
}

TEST_P(taken_rows, keeps_the_row_count_of_tables_without_columns) {
  const column chosen = indices({1, 0, no_number});
  const table none = table::make(ctx(), {}, {batch{2, {}}});
  EXPECT_EQ(take(none, std::span(&chosen, 1)).rows(), 3);
  schema fields;
  fields.fields.push_back({"x", data_type(type_id::string), false, {}});
  const table empty = table::make(ctx(), fields, {});
  const column null = indices({no_number});
  const table made = take(empty, std::span(&null, 1));
  EXPECT_EQ(made.rows(), 1);
  EXPECT_TRUE(made.fields().fields[0].nullable);
}

TEST_P(taken_rows, starts_a_new_column_at_the_limit_of_16_bit_run_ends) {
  const data_type type = data_type::nested("+r", {{"run_ends", data_type(type_id::int16), false, {}},
                                                  {"values", data_type(type_id::int32), true, {}}});
  const std::vector<part> parts{{random_array(type, {5000, 0, nulls::some, true}, 1), 0, 5000}};
  const row_numbers rows = random_rows(40'000, 5000);
  const std::vector<column> made = taken(imported(parts), indices(rows));
  ASSERT_EQ(made.size(), 2u);
  expect_rows(made, parts, rows);
}

TEST_P(taken_rows, merges_adjacent_runs) {
  const data_type type = data_type::nested("+r", {{"run_ends", data_type(type_id::int32), false, {}},
                                                  {"values", data_type(type_id::string), true, {}}});
  const std::vector<part> parts{{random_array(type, {5000, 3, nulls::some, true}, 1), 0, 5000}};
  row_numbers rows(5000);
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  const std::vector<column> pieces = imported(parts);
  const std::vector<column> made = taken(pieces, indices(rows));
  expect_rows(made, parts, rows);
  EXPECT_LE(made[0].children()[0].length(), pieces[0].children()[0].length());
}

TEST_P(taken_rows, refuses_rows_with_values_out_of_range) {
  const auto broken = [&](std::vector<std::int32_t> offsets) {
    const std::vector<std::uint8_t> letters(10, 'x');
    const column text = numbers(type_id::uint8, letters);
    const column places = numbers(type_id::int32, offsets);
    return column::make(ctx(), {.type = data_type(type_id::string),
                                .length = std::ssize(offsets) - 1,
                                .null_count = 0,
                                .buffers = {{}, places.values(), text.values()}});
  };
  const std::uint64_t before = used();
  for (const std::vector<std::int32_t>& offsets :
       {std::vector<std::int32_t>{0, 5, 11}, {0, 5, 4}, {-1, 3, 7}, {0, 2'000'000'000, 10}}) {
    const std::vector<column> pieces{broken(offsets)};
    EXPECT_EQ(unit::code_raised_by([&] {
                static_cast<void>(taken(pieces, indices({1, 0, 1})));
              }),
              errc::format);
  }
  EXPECT_EQ(taken({broken({0, 5, 10})}, indices({1, 0, 1})).front().bytes().size(), 15u);
  ctx()->wait_for_releases(std::chrono::seconds(5));
  EXPECT_EQ(used(), before);
}

/// Threads of the host count parts of so many rows.
TEST_P(taken_rows, names_the_first_of_many_rows_with_values_out_of_range) {
  constexpr std::size_t rows = 200'000;
  std::vector<std::int32_t> offsets(rows + 1, 3);
  offsets[150'001] = offsets[180'001] = 5;
  const column text = numbers(type_id::uint8, std::vector<std::uint8_t>(4, 'x'));
  const column places = numbers(type_id::int32, offsets);
  const std::vector<column> pieces{column::make(ctx(), {.type = data_type(type_id::string),
                                                        .length = rows,
                                                        .null_count = 0,
                                                        .buffers = {{}, places.values(), text.values()}})};
  row_numbers all(rows);
  std::iota(all.begin(), all.end(), std::int64_t{0});
  std::string message;
  EXPECT_EQ(unit::code_raised_by([&] { static_cast<void>(taken(pieces, indices(all))); }, &message),
            errc::format);
  EXPECT_NE(message.find("row 150000 of the result"), std::string::npos) << message;
}

TEST_P(taken_rows, leaves_nothing_charged_if_the_budget_is_too_small) {
  const std::vector<part> parts{
      {random_array(data_type(type_id::large_string), {4000, 0, nulls::some, true}, 3), 0, 4000}};
  const std::vector<column> pieces = imported(parts);
  const column chosen = indices(random_rows(40'000, 4000));
  ctx()->wait_for_releases(std::chrono::seconds(5));
  const std::uint64_t before = used();
  for (const unsigned room : {100'000U, 400'000U, 600'000U}) {
    ctx()->set_budget(before + room);
    EXPECT_EQ(unit::code_raised_by([&] { static_cast<void>(taken(pieces, chosen)); }), errc::budget_exceeded)
        << room;
    ctx()->wait_for_releases(std::chrono::seconds(5));
    EXPECT_EQ(used(), before);
  }
  ctx()->set_budget(limit);
  EXPECT_EQ(taken(pieces, chosen).front().length(), 40'000);
}

TEST_P(taken_rows, refuses_unaligned_offsets_and_indices_on_devices) {
  const buffer memory = make(64);
  fill(memory, 0, ctx()->work_stream());
  const auto strings_at = [&](std::size_t place) {
    return column::make(ctx(), {data_type(type_id::string), 2, 0, 0, {{}, memory.slice(place, 12), make(8)}});
  };
  const auto numbers_at = [&](std::size_t place) {
    return column::make(ctx(), {data_type(type_id::int64), 2, 0, 0, {{}, memory.slice(place, 16)}});
  };
  const column chosen = indices({1, 0, 1});
  EXPECT_EQ(taken({strings_at(4)}, chosen)[0].length(), 3);
  EXPECT_EQ(taken({numbers_at(1), numbers_at(8)}, chosen)[0].length(), 3) << "values may lie anywhere";
  if (ctx()->on_host()) {
    EXPECT_EQ(taken({strings_at(1)}, chosen)[0].length(), 3);
    EXPECT_EQ(taken({strings_at(1)}, numbers_at(3))[0].length(), 2);
    return;
  }
  const auto refused = [&](const column& source, const column& given) {
    return unit::code_raised_by([&] { static_cast<void>(taken({source}, given)); });
  };
  EXPECT_EQ(refused(strings_at(1), chosen), errc::invalid_argument);
  EXPECT_EQ(refused(strings_at(0), numbers_at(4)), errc::invalid_argument);
}

/// The kernels must wait for a writer that is blocked by a gate.
TEST_P(taken_rows, waits_for_the_writer_of_the_source) {
  const buffer values = make(4 * sizeof(std::int32_t));
  fill(values, 1, ctx()->work_stream());
  ctx()->synchronize(ctx()->work_stream());
  const column source = column::make(
      ctx(), {.type = data_type(type_id::int32), .length = 4, .null_count = 0, .buffers = {{}, values}});
  const column chosen = indices({3, 1});
  const stream writer(shared_device());
  const auto held = close_gate(writer.ref().native_handle());
  if (!held) {
    GTEST_SKIP() << nothing_pends;
  }
  fill(values, 7, writer.ref());
  std::vector<column> made;
  open_while_the_host_waits(held, [&] { made = taken({source}, chosen); });
  held->open();
  EXPECT_EQ(read(made[0].values()), std::vector<std::uint8_t>(made[0].values().size(), 7));
}

SAETA_CONFORMANCE_SUITE(taken_rows);

} // namespace
} // namespace saeta::conformance
