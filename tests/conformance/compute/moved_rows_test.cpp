// Casts, filling and dropping of nulls, and copies between contexts.
#include "conformance/harness/pieces_test.hpp"
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/column/bits.hpp"
#include "saeta/column/schema.hpp"
#include "saeta/compute/cast.hpp"
#include "saeta/compute/copy_to.hpp"
#include "saeta/compute/nulls.hpp"
#include "saeta/compute/selected_rows.hpp"
#include "saeta/compute/take.hpp"
#include "support/nested_arrays.hpp"
#include "support/tables.hpp"
#include "unit/base/raises.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

namespace saeta::conformance {
namespace {

using support::carried_types;
using support::nulls;
using support::plain_array;
using support::random_array;

class moved_rows : public pieces_test {
protected:
  template <class Number>
  [[nodiscard]] column numbers(type_id type, const std::vector<Number>& values) const {
    plain_array made;
    made.type = data_type(type);
    made.length = std::ssize(values);
    const auto bytes = std::as_bytes(std::span(values));
    made.buffers = {{}, {bytes.begin(), bytes.end()}};
    return imported(std::make_shared<const plain_array>(std::move(made)));
  }
  template <class Number>
  [[nodiscard]] std::vector<Number> values_of(const column& of) const {
    const std::vector<std::uint8_t> bytes = read(of.values());
    std::vector<Number> made(static_cast<std::size_t>(of.length()));
    std::memcpy(made.data(), bytes.data() + static_cast<std::size_t>(of.offset()) * sizeof(Number),
                made.size() * sizeof(Number));
    return made;
  }
  /// Makes a column of decimals from their unscaled values.
  [[nodiscard]] column decimals(const data_type& type, const std::vector<std::int64_t>& values) const {
    plain_array made;
    made.type = type;
    made.length = std::ssize(values);
    made.buffers.resize(2);
    for (const std::int64_t each : values) {
      for (std::int32_t byte = 0; byte < type.byte_width(); ++byte) {
        made.buffers[1].push_back(static_cast<std::byte>(each >> std::min(8 * byte, 63)));
      }
    }
    return imported(std::make_shared<const plain_array>(std::move(made)));
  }

  /// A column of four rows, and which of them are null by the values that they refer to.
  struct nulls_behind {
    column source;
    std::vector<bool> null;
  };
  /// Makes a column with the rows 1, null and 3.
  [[nodiscard]] column three() const {
    plain_array made;
    made.type = data_type(type_id::int64);
    made.length = 3;
    made.null_count = -1;
    const std::vector<std::int64_t> values{1, 2, 3};
    const auto bytes = std::as_bytes(std::span(values));
    made.buffers = {{std::byte{0b101}}, {bytes.begin(), bytes.end()}};
    return imported(std::make_shared<const plain_array>(std::move(made)));
  }
  [[nodiscard]] column of_dictionary() const {
    const column codes = numbers<std::int8_t>(type_id::int8, {2, 1, 0, 0});
    const column valid = pack_bool(numbers<std::int8_t>(type_id::int8, {1, 1, 0, 1}));
    return column::make(ctx(), {.type = data_type::dictionary(codes.type(), data_type(type_id::int64)),
                                .length = 4,
                                .null_count = 1,
                                .buffers = {valid.values(), codes.values()},
                                .dictionary = std::make_shared<const column>(three())});
  }
  [[nodiscard]] column of_runs() const {
    const field ends{"run_ends", data_type(type_id::int32), false, {}};
    const field values{"values", data_type(type_id::int64), true, {}};
    column::parts made{.type = data_type::nested("+r", {ends, values}), .length = 4, .buffers = {}};
    made.children = {numbers<std::int32_t>(type_id::int32, {2, 4, 9}), three()};
    return column::make(ctx(), std::move(made));
  }
  /// Makes a union. The child of type id 7 has a null in row 1, that of type id 3 has none.
  [[nodiscard]] column of_union(bool dense) const {
    const field numbers_of{"n", data_type(type_id::int64), true, {}};
    const field bytes_of{"b", data_type(type_id::int8), true, {}};
    const column ids =
        numbers<std::int8_t>(type_id::int8, {7, 7, dense ? std::int8_t{7} : std::int8_t{3}, 3});
    const column places = numbers<std::int32_t>(type_id::int32, {2, 1, 1, 0});
    const column whole = numbers<std::int8_t>(type_id::int8, {1, 2, 3, 4});
    column::parts made{.type = data_type::nested(dense ? "+ud:7,3" : "+us:7,3", {numbers_of, bytes_of}),
                       .length = 4,
                       .buffers = {ids.values()},
                       .children = {dense ? three() : take_four(), whole}};
    if (dense) {
      made.buffers.push_back(places.values());
    }
    return column::make(ctx(), std::move(made));
  }
  [[nodiscard]] column take_four() const {
    const column places = numbers<std::int8_t>(type_id::int8, {0, 1, 1, 1});
    const column source = three();
    const std::int64_t rows = source.length();
    return take(std::span(&source, 1), rows_of_indices(ctx(), std::span(&rows, 1), std::span(&places, 1)))
        .front();
  }

  /// Returns whether a row is neither null nor an index of a null dictionary value.
  static bool has_value(const plain_array& of, std::int64_t row) {
    if (of.dictionary == nullptr || !of.valid(row)) {
      return of.valid(row);
    }
    const auto width = static_cast<std::size_t>(of.type.byte_width());
    std::int64_t code = 0; // valid indices are not negative
    std::memcpy(&code, of.buffers[1].data() + static_cast<std::size_t>(of.offset + row) * width, width);
    return has_value(*of.dictionary, code);
  }

  /// Returns the error of a cast, or nullopt if it succeeds.
  static std::optional<errc> refusal(const column& of, type_id to, cast_rule rule,
                                     std::string* message = nullptr) {
    return unit::code_raised_by([&] { static_cast<void>(cast(of, data_type(to), rule)); }, message);
  }
  [[nodiscard]] static table one_column(const std::shared_ptr<context>& ctx,
                                        const std::vector<column>& pieces) {
    schema fields;
    fields.fields.push_back({"x", pieces.front().type(), true, {}});
    std::vector<batch> batches;
    for (const column& each : pieces) {
      batches.push_back({each.length(), {each}});
    }
    return table::make(ctx, fields, batches);
  }
};

TEST_P(moved_rows, casts_numbers_without_loss) {
  const column small = numbers<std::int64_t>(type_id::int64, {-128, 0, 127});
  EXPECT_EQ(values_of<std::int8_t>(cast(small, data_type(type_id::int8), cast_rule::exact)),
            (std::vector<std::int8_t>{-128, 0, 127}));
  EXPECT_EQ(values_of<float>(cast(small, data_type(type_id::float32), cast_rule::exact)),
            (std::vector<float>{-128, 0, 127}));
  EXPECT_EQ(values_of<std::uint16_t>(cast(small, data_type(type_id::half_float), cast_rule::exact)),
            (std::vector<std::uint16_t>{0xD800, 0, 0x57F0}));
  const column whole = numbers<double>(type_id::float64, {3.0, -0.0, 1e9});
  EXPECT_EQ(values_of<std::uint32_t>(cast(whole, data_type(type_id::uint32), cast_rule::exact)),
            (std::vector<std::uint32_t>{3, 0, 1'000'000'000}));
  const column odd = numbers<double>(type_id::float64, {std::nan(""), INFINITY, -0.5});
  const std::vector<float> seen = values_of<float>(cast(odd, data_type(type_id::float32), cast_rule::exact));
  EXPECT_TRUE(std::isnan(seen[0]));
  EXPECT_EQ(seen[1], INFINITY);
  EXPECT_EQ(seen[2], -0.5F);
}

TEST_P(moved_rows, names_the_first_number_that_is_not_representable) {
  std::string message;
  const column large = numbers<std::int64_t>(type_id::int64, {1, 128, -129});
  EXPECT_EQ(refusal(large, type_id::int8, cast_rule::exact, &message), errc::out_of_range);
  EXPECT_EQ(message,
            "the int64 in row 1 has no equal int8: permit rounding (round=True), or choose a wider type");
  EXPECT_EQ(refusal(large, type_id::int8, cast_rule::round, &message), errc::out_of_range);
  EXPECT_EQ(message, "the int64 in row 1 has no int8");
  const std::int64_t odd = (std::int64_t{1} << 53) + 1;
  EXPECT_EQ(refusal(numbers<std::int64_t>(type_id::int64, {odd}), type_id::float64, cast_rule::exact),
            errc::out_of_range);
  EXPECT_EQ(refusal(numbers<std::int64_t>(type_id::int64, {odd - 1}), type_id::float64, cast_rule::exact),
            std::nullopt);
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(refusal(numbers<std::int64_t>(type_id::int64, {most}), type_id::float32, cast_rule::exact),
            errc::out_of_range);
  EXPECT_EQ(refusal(numbers<std::int64_t>(type_id::int64, {-1}), type_id::uint64, cast_rule::round),
            errc::out_of_range);
  EXPECT_EQ(refusal(numbers<std::uint64_t>(type_id::uint64, {1ULL << 63}), type_id::int64, cast_rule::round),
            errc::out_of_range);
  for (const double each : {0.5, std::nan(""), 1e300, -1.0}) {
    EXPECT_EQ(refusal(numbers<double>(type_id::float64, {each}), type_id::uint64, cast_rule::exact),
              errc::out_of_range)
        << each;
  }
  EXPECT_EQ(
      refusal(numbers<double>(type_id::float64, {18446744073709551616.0}), type_id::uint64, cast_rule::round),
      errc::out_of_range);
}

TEST_P(moved_rows, casts_floats_to_the_nearest_narrower_float) {
  // The last number lies just above the middle of two halves: rounding it to a float first would lose that.
  const column wide =
      numbers<double>(type_id::float64, {0.1, 1e300, -1e300, 5e-324, std::nan(""), 1.00048828125 + 1e-12});
  for (const cast_rule rule : {cast_rule::exact, cast_rule::round}) {
    const std::vector<float> seen = values_of<float>(cast(wide, data_type(type_id::float32), rule));
    EXPECT_EQ((std::vector<float>(seen.begin(), seen.begin() + 4)),
              (std::vector<float>{0.1F, INFINITY, -INFINITY, 0}));
    EXPECT_TRUE(std::isnan(seen[4]));
    const auto halves = values_of<std::uint16_t>(cast(wide, data_type(type_id::half_float), rule));
    EXPECT_EQ((std::vector<std::uint16_t>(halves.begin(), halves.begin() + 4)),
              (std::vector<std::uint16_t>{0x2E66, 0x7C00, 0xFC00, 0}));
    EXPECT_EQ(halves[5], 0x3C01);
  }
  const column narrow = numbers<float>(type_id::float32, {65519.0F, 65520.0F});
  EXPECT_EQ(values_of<std::uint16_t>(cast(narrow, data_type(type_id::half_float), cast_rule::exact)),
            (std::vector<std::uint16_t>{0x7BFF, 0x7C00}));
}

TEST_P(moved_rows, rounds_to_the_nearest_number_if_permitted) {
  const column halves = numbers<double>(type_id::float64, {0.5, 1.5, 2.5, -0.5, -1.5, 2.4999});
  EXPECT_EQ(values_of<std::int32_t>(cast(halves, data_type(type_id::int32), cast_rule::round)),
            (std::vector<std::int32_t>{0, 2, 2, 0, -2, 2}));
  const column large = numbers<double>(type_id::float64, {0.1, 1e300, -1e300});
  EXPECT_EQ(values_of<float>(cast(large, data_type(type_id::float32), cast_rule::round)),
            (std::vector<float>{0.1F, INFINITY, -INFINITY}));
  const column odd = numbers<std::int64_t>(type_id::int64, {(std::int64_t{1} << 53) + 1});
  EXPECT_EQ(values_of<double>(cast(odd, data_type(type_id::float64), cast_rule::round)),
            (std::vector<double>{9007199254740992.0}));
}

TEST_P(moved_rows, casts_slices_with_nulls_between_all_kinds) {
  const std::vector<type_id> kinds{type_id::int8,       type_id::uint8,   type_id::int16,  type_id::uint16,
                                   type_id::int32,      type_id::uint32,  type_id::int64,  type_id::uint64,
                                   type_id::half_float, type_id::float32, type_id::float64};
  std::vector<double> small(1500);
  for (std::size_t i = 0; i < small.size(); ++i) {
    small[i] = static_cast<double>(i % 120);
  }
  const column source = numbers(type_id::float64, small);
  for (const type_id from : kinds) {
    const column given = cast(source, data_type(from), cast_rule::exact).slice(3, 1400);
    for (const type_id to : kinds) {
      const column there = cast(given, data_type(to), cast_rule::exact);
      EXPECT_EQ(there.offset() == 3, from == to);
      const column back = cast(there, data_type(type_id::float64), cast_rule::exact);
      ASSERT_EQ(values_of<double>(back), std::vector<double>(small.begin() + 3, small.begin() + 1403))
          << data_type(from).name() << " to " << data_type(to).name();
    }
  }
  const column with_nulls =
      imported(random_array(data_type(type_id::int16), {500, 9, nulls::some, false}, 4));
  const column wide = cast(with_nulls.slice(2, 450), data_type(type_id::int64), cast_rule::exact);
  EXPECT_EQ(wide.null_count(), with_nulls.slice(2, 450).null_count());
}

TEST_P(moved_rows, casts_only_numbers_and_views) {
  const column text = imported(support::strings({"a"}));
  EXPECT_EQ(refusal(text, type_id::int32, cast_rule::exact), errc::type_mismatch);
  EXPECT_EQ(cast(text, data_type(type_id::binary), cast_rule::exact).bytes().address(),
            text.bytes().address());
  const column days = imported(random_array(data_type(type_id::date32), {9, 0, nulls::some, true}, 1));
  EXPECT_EQ(cast(days, data_type(type_id::int32), cast_rule::exact).values().address(),
            days.values().address());
}

TEST_P(moved_rows, fills_the_nulls_of_every_type) {
  for (const data_type& type : carried_types()) {
    if (!type.has_validity()) {
      continue;
    }
    SCOPED_TRACE(type.name());
    const std::vector<part> parts = parts_of(type, nulls::some);
    const std::vector<column> pieces = imported(parts);
    part with{random_array(type, {4, 1, nulls::absent, true}, 9), 2, 1};
    for (std::uint64_t seed = 10; !has_value(*with.source, with.first); ++seed) {
      with.source = random_array(type, {4, 1, nulls::absent, true}, seed);
    }
    const std::vector<column> made = fill_null(pieces, imported(std::vector<part>{with}).front());
    std::size_t piece = 0;
    std::int64_t row = 0;
    arrow_array out = export_column(made.front());
    for (const part& each : parts) {
      for (std::int64_t i = 0; i < each.rows; ++i, ++row) {
        while (row == made.at(piece).length()) {
          ++piece;
          row = 0;
          out = arrow_array();
          out = export_column(made.at(piece));
        }
        const bool valid = has_value(*each.source, each.first + i);
        const part& from = valid ? each : with;
        ASSERT_TRUE(support::same_row(out.get(), row, *from.source, valid ? each.first + i : with.first))
            << "row " << row << " of piece " << piece;
      }
    }
  }
}

TEST_P(moved_rows, refuses_fills_that_do_not_fit) {
  const std::vector<column> pieces{numbers<std::int32_t>(type_id::int32, {1, 2})};
  const auto refused = [&](const column& fill) {
    return unit::code_raised_by([&] { static_cast<void>(fill_null(pieces, fill)); });
  };
  EXPECT_EQ(refused(numbers<std::int64_t>(type_id::int64, {1})), errc::type_mismatch);
  EXPECT_EQ(refused(pieces[0]), errc::invalid_argument);
  EXPECT_EQ(refused(imported(random_array(data_type(type_id::int32), {1, 0, nulls::all, true}, 1))),
            errc::invalid_argument);
  EXPECT_EQ(fill_null(pieces, pieces[0].slice(0, 1))[0].values().address(), pieces[0].values().address());
}

TEST_P(moved_rows, detects_and_drops_nulls) {
  for (const data_type& type :
       {data_type(type_id::int32), data_type(type_id::string), data_type(type_id::null)}) {
    const std::vector<part> parts = parts_of(type, nulls::some);
    const std::vector<column> pieces = imported(parts);
    std::int64_t valid = 0;
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      const std::vector<std::uint8_t> seen =
          pieces[p].length() == 0 ? std::vector<std::uint8_t>{} : values_of<std::uint8_t>(is_null(pieces[p]));
      for (std::int64_t i = 0; i < parts[p].rows; ++i) {
        const bool null = !parts[p].source->valid(parts[p].first + i);
        ASSERT_EQ(seen[static_cast<std::size_t>(i)], null ? 1 : 0) << type.name();
        valid += null ? 0 : 1;
      }
    }
    const std::size_t only = 0;
    const table kept = drop_null(one_column(ctx(), pieces), std::span(&only, 1));
    EXPECT_EQ(kept.rows(), valid);
    EXPECT_TRUE(kept.rows() == 0 || kept.pieces(0)[0].null_count() == 0);
  }
}

TEST_P(moved_rows, detects_nulls_of_referred_values) {
  const std::vector<nulls_behind> cases{{of_dictionary(), {false, true, true, false}},
                                        {of_runs(), {false, false, true, true}},
                                        {of_union(true), {false, true, true, false}},
                                        {of_union(false), {false, true, false, false}}};
  for (const auto& [source, expected] : cases) {
    SCOPED_TRACE(source.type().name());
    const std::vector<std::uint8_t> marks(expected.begin(), expected.end());
    EXPECT_EQ(values_of<std::uint8_t>(is_null(source)), marks);
    EXPECT_EQ(values_of<std::uint8_t>(is_null(source.slice(1, 2))),
              std::vector<std::uint8_t>(marks.begin() + 1, marks.begin() + 3));
    const auto null_rows = std::count(expected.begin(), expected.end(), true);
    EXPECT_EQ(logical_null_count(source), null_rows);
    EXPECT_EQ(source.null_count(), source.dictionary() != nullptr ? 1 : 0);
    const std::size_t only = 0;
    const table kept = drop_null(one_column(ctx(), {source}), std::span(&only, 1));
    EXPECT_EQ(kept.rows(), 4 - null_rows);
    EXPECT_EQ(logical_null_count(kept.pieces(0)[0]), 0);
  }
}

TEST_P(moved_rows, moves_nulls_of_dictionary_values_to_the_indices) {
  const column source = of_dictionary().slice(1, 3);
  const column made = with_own_nulls(source);
  EXPECT_EQ(made.null_count(), 2);
  EXPECT_EQ(made.values().address(), source.values().address() + 1);
  EXPECT_EQ(made.dictionary()->values().address(), source.dictionary()->values().address());
  EXPECT_EQ(values_of<std::int64_t>(plain_numbers(of_runs()))[1], 1);
}

TEST_P(moved_rows, casts_decimals_of_every_width_to_every_number) {
  for (const char* const format : {"d:9,2,32", "d:18,2,64", "d:38,2", "d:76,2,256"}) {
    SCOPED_TRACE(format);
    const column source = decimals(data_type::parse(format), {700, -300, 0, 12'700});
    for (const type_id to : {type_id::int8, type_id::int16, type_id::int32, type_id::int64,
                             type_id::half_float, type_id::float32, type_id::float64}) {
      const column made = cast(source, data_type(to), cast_rule::exact);
      EXPECT_EQ(values_of<double>(cast(made, data_type(type_id::float64), cast_rule::exact)),
                (std::vector<double>{7, -3, 0, 127}));
    }
    const column halves = decimals(data_type::parse(format), {50, 150, -250, 12'750});
    EXPECT_EQ(values_of<std::int16_t>(cast(halves, data_type(type_id::int16), cast_rule::round)),
              (std::vector<std::int16_t>{0, 2, -2, 128}));
    EXPECT_EQ(refusal(halves, type_id::int16, cast_rule::exact), errc::out_of_range);
    EXPECT_EQ(refusal(halves, type_id::int8, cast_rule::round), errc::out_of_range);
    EXPECT_EQ(refusal(halves, type_id::uint8, cast_rule::round), errc::out_of_range);
    EXPECT_EQ(refusal(halves, type_id::string, cast_rule::exact), errc::type_mismatch);
  }
}

TEST_P(moved_rows, rounds_decimals_once) {
  // 16777217.000000001 is above the midpoint of two floats. Its nearest double is exactly the midpoint.
  const column close = decimals(data_type::parse("d:38,9"), {16'777'217'000'000'001});
  EXPECT_EQ(values_of<float>(cast(close, data_type(type_id::float32), cast_rule::round)),
            (std::vector<float>{16'777'218.0F}));
  const column tenth = decimals(data_type::parse("d:38,1"), {1, -3});
  EXPECT_EQ(values_of<double>(cast(tenth, data_type(type_id::float64), cast_rule::round)),
            (std::vector<double>{0.1, -0.3}));
  EXPECT_EQ(values_of<double>(cast(tenth, data_type(type_id::float64), cast_rule::exact)),
            (std::vector<double>{0.1, -0.3}));
  // More digits than a double has, and a power of ten that is not representable as a double.
  const column small = decimals(data_type::parse("d:38,30"), {1'234'567'890'123'456'789});
  EXPECT_EQ(values_of<double>(cast(small, data_type(type_id::float64), cast_rule::round)),
            (std::vector<double>{1.234567890123456789e-12}));
  const column large = decimals(data_type::parse("d:38,-30"), {1'234'567'890'123'456'789});
  EXPECT_EQ(values_of<double>(cast(large, data_type(type_id::float64), cast_rule::round)),
            (std::vector<double>{1.234567890123456789e48}));
  EXPECT_EQ(values_of<float>(cast(large, data_type(type_id::float32), cast_rule::round)),
            (std::vector<float>{INFINITY}));
}

TEST_P(moved_rows, copies_tables_to_the_host_and_back) {
  support::table_shape shape;
  shape.in_dictionaries = nulls::some;
  const table source = support::random_table(ctx(), carried_types(), shape);
  context_options options;
  options.budget = limit;
  const auto host = watch(context::create(make_host_backend(), options));
  if (ctx()->on_host()) {
    EXPECT_EQ(copy_to(source, ctx()).batches()[0].columns[1].buffers()[1].address(),
              source.batches()[0].columns[1].buffers()[1].address());
    return;
  }
  const table there = copy_to(source, host);
  EXPECT_EQ(there.ctx(), host);
  EXPECT_TRUE(support::same_contents(there, source));
  const table back = copy_to(there, ctx());
  EXPECT_EQ(back.ctx(), ctx());
  EXPECT_TRUE(support::same_contents(back, source));
  const std::shared_ptr<void> strict = ctx()->copies().forbid_downloads();
  EXPECT_EQ(unit::code_raised_by([&] { static_cast<void>(copy_to(source, host)); }),
            errc::download_forbidden);
}

SAETA_CONFORMANCE_SUITE(moved_rows);

} // namespace
} // namespace saeta::conformance
