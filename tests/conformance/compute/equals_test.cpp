// Comparison of columns and tables on their device: every type in different layouts.
#include "conformance/harness/arrow_test.hpp"
#include "saeta/compute/combine.hpp"
#include "saeta/compute/equals.hpp"
#include "saeta/interop/arrow/c_data.hpp"
#include "saeta/interop/arrow/owned.hpp"
#include "support/arrays.hpp"
#include "support/nested_arrays.hpp"
#include "support/tables.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <span>

namespace saeta::conformance {
namespace {

using support::carried_types;
using support::nulls;
using support::random_array;
using support::shared_array;

bool holds_floats(const data_type& type) {
  return type.is_floating() || (type.value_type() != nullptr && holds_floats(*type.value_type())) ||
         std::ranges::any_of(type.children(), [](const field& child) { return holds_floats(child.type); });
}

/// Makes dictionary arrays without null entries. A row with an index of a null entry equals a row with a null
/// index, which the model of this test does not support.
shared_array without_null_entries(const data_type& type, const support::array_shape& shape,
                                  std::uint64_t seed) {
  if (type.value_type() == nullptr) {
    return random_array(type, shape, seed);
  }
  const shared_array entries = without_null_entries(*type.value_type(), {6, 1, nulls::absent, true}, seed);
  return support::random_indices(type, shape, entries, seed);
}

class equal_data : public arrow_test {
protected:
  /// Makes a column of fixed-width values. Rows whose bit of `valid` is 0 are null.
  template <class T>
  [[nodiscard]] column fixed(const data_type& type, std::vector<T> values, unsigned valid = ~0u) const {
    support::plain_array made{.type = type, .length = static_cast<std::int64_t>(values.size())};
    made.null_count = -1;
    made.buffers.resize(2);
    for (int i = 0; i < 4; ++i) {
      made.buffers[0].push_back(static_cast<std::byte>(valid >> (8 * i)));
    }
    const auto bytes = std::as_bytes(std::span(values));
    made.buffers[1].assign(bytes.begin(), bytes.end());
    return imported(std::make_shared<const support::plain_array>(std::move(made)));
  }
  /// Makes a column of lists of 32-bit integers from offsets and values.
  [[nodiscard]] column lists(const std::vector<std::int32_t>& offsets,
                             const std::vector<std::int32_t>& values, unsigned valid = ~0u) const {
    const auto ints = [&](const std::vector<std::int32_t>& from) {
      std::vector<std::byte> bytes(from.size() * sizeof(std::int32_t));
      std::memcpy(bytes.data(), from.data(), bytes.size());
      return bytes;
    };
    const data_type item(type_id::int32);
    support::plain_array child{.type = item, .length = static_cast<std::int64_t>(values.size())};
    child.buffers = {{}, ints(values)};
    support::plain_array made{.type = data_type::nested("+l", {{"item", item, true, {}}}),
                              .length = static_cast<std::int64_t>(offsets.size()) - 1};
    made.buffers = {{}, ints(offsets)};
    if (valid != ~0u) {
      made.null_count = -1;
      made.buffers[0] = {static_cast<std::byte>(valid)};
    }
    made.children = {std::make_shared<const support::plain_array>(std::move(child))};
    return imported(std::make_shared<const support::plain_array>(std::move(made)));
  }
  /// Copies a column to other memory with another layout, by joining slices of it.
  [[nodiscard]] static column laid_out_anew(const column& source) {
    std::vector<column> pieces;
    for (std::int64_t row = 0; row < source.length();) {
      const std::int64_t rows = std::min(std::int64_t{1} + row % 7, source.length() - row);
      pieces.push_back(source.slice(row, rows));
      row += rows;
    }
    return combine_chunks(pieces).front();
  }
  static void expect_refused(errc code, const std::function<void()>& action) {
    try {
      action();
      FAIL() << "was not refused";
    } catch (const error& refused) {
      EXPECT_EQ(refused.code(), code) << refused.what();
    }
  }
};

TEST_P(equal_data, is_found_in_every_type_with_any_layout) {
  for (const data_type& type : carried_types()) {
    for (const nulls pattern : {nulls::absent, nulls::none, nulls::some, nulls::all}) {
      SCOPED_TRACE(::testing::Message() << type.name() << ", nulls " << static_cast<int>(pattern));
      const column one = imported(random_array(type, {41, 3, pattern, pattern != nulls::some}, 5));
      const column other = laid_out_anew(one);
      // False for columns with a NaN, which is not equal to itself.
      const bool reflexive = equals(one, one);
      EXPECT_TRUE(reflexive || holds_floats(type));
      EXPECT_EQ(equals(one, other), reflexive);
      EXPECT_EQ(equals(other, one), reflexive);
      for (std::int64_t row = 0; row < one.length(); row += 5) {
        EXPECT_EQ(equals(one.slice(row, 1), other.slice(row, 1)),
                  equals(one.slice(row, 1), one.slice(row, 1)))
            << row;
      }
    }
  }
}

TEST_P(equal_data, is_not_found_if_one_row_differs) {
  for (const data_type& type : carried_types()) {
    SCOPED_TRACE(type.name());
    const shared_array source = without_null_entries(type, {23, 2, nulls::some, true}, 11);
    const column one = imported(source);
    arrow_array there = export_column(one);
    for (std::int64_t row = 0; row < one.length(); ++row) {
      const std::int64_t instead = (row * 7 + 3) % one.length();
      const std::vector<column> pieces{one.slice(0, row), one.slice(instead, 1),
                                       one.slice(row + 1, one.length() - row - 1)};
      const bool same = equals(one, one) && support::same_row(there.get(), row, *source, instead);
      EXPECT_EQ(equals(std::span(&one, 1), pieces), same) << row << " and " << instead;
      EXPECT_EQ(equals(pieces, std::span(&one, 1)), same) << row << " and " << instead;
    }
  }
}

TEST_P(equal_data, of_a_table_of_every_type_is_found) {
  schema fields;
  batch rows{30, {}};
  std::vector<batch> cut(2);
  cut[0].rows = 11;
  cut[1].rows = 19;
  for (const data_type& type : carried_types()) {
    if (holds_floats(type)) {
      continue;
    }
    fields.fields.push_back({type.name(), type, true, {}});
    rows.columns.push_back(imported(random_array(type, {30, 1, nulls::some, true}, fields.fields.size())));
    const column other = laid_out_anew(rows.columns.back());
    cut[0].columns.push_back(other.slice(0, 11));
    cut[1].columns.push_back(other.slice(11, 19));
  }
  const table one = table::make(ctx(), fields, {rows});
  EXPECT_TRUE(equals(one, table::make(ctx(), fields, cut)));
  std::vector<batch> swapped = cut;
  swapped[1].columns.back() = cut[0].columns.back();
  swapped[1].columns.back() =
      combine_chunks(std::vector<column>{cut[0].columns.back(), cut[0].columns.back().slice(0, 8)}).front();
  EXPECT_FALSE(equals(one, table::make(ctx(), fields, swapped)));
}

TEST_P(equal_data, of_pieces_that_share_memory_compares_their_rows) {
  const column whole = fixed<std::int32_t>(data_type(type_id::int32), {1, 2, 3});
  const std::vector<column> twice{whole, whole};
  const std::vector<column> shifted{whole.slice(0, 1), whole, whole.slice(1, 2)}; // values 1 1 2 3 2 3
  EXPECT_TRUE(equals(twice, twice));
  EXPECT_FALSE(equals(twice, shifted));
  EXPECT_FALSE(equals(shifted, twice));
  std::mt19937 random(1);
  const std::vector<std::int32_t> numbers{1, 2, 1, 2, 3, 1, 2, 1};
  const column source = fixed<std::int32_t>(data_type(type_id::int32), numbers, 0xbfU); // row 6 is null
  const auto drawn = [&](std::vector<column>& pieces, std::size_t rows) {
    std::vector<std::optional<std::int32_t>> values;
    while (values.size() < rows) {
      const auto first = static_cast<std::int64_t>(random() % numbers.size());
      const auto count = std::min<std::int64_t>({static_cast<std::int64_t>(random() % 4),
                                                 static_cast<std::int64_t>(numbers.size()) - first,
                                                 static_cast<std::int64_t>(rows - values.size())});
      pieces.push_back(source.slice(first, count));
      for (std::int64_t row = first; row < first + count; ++row) {
        values.push_back(row == 6 ? std::nullopt : std::optional(numbers[static_cast<std::size_t>(row)]));
      }
    }
    return values;
  };
  int same = 0;
  for (int round = 0; round < 400; ++round) {
    const std::size_t rows = 1 + random() % 4;
    std::vector<column> left;
    std::vector<column> right;
    const bool expected = drawn(left, rows) == drawn(right, rows);
    EXPECT_EQ(equals(left, right), expected) << round;
    same += expected ? 1 : 0;
  }
  EXPECT_GT(same, 20) << "the programs are too random";
}

TEST_P(equal_data, treats_nan_as_unequal_and_zeros_as_equal) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const data_type type(type_id::float64);
  EXPECT_TRUE(equals(fixed<double>(type, {1, 0.0, -0.0}), fixed<double>(type, {1, -0.0, 0.0})));
  const column with_nan = fixed<double>(type, {1, nan});
  EXPECT_FALSE(equals(with_nan, with_nan));
  EXPECT_TRUE(equals(with_nan.slice(0, 1), with_nan.slice(0, 1)));
  EXPECT_TRUE(equals(fixed<double>(type, {1, nan}, 1), fixed<double>(type, {1, 7}, 1))) << "below a null";
  column::parts nested{data_type::nested("+s", {{"x", type, true, {}}}), 2, 0, 0, {{}}};
  nested.children.push_back(with_nan);
  const column inside = column::make(ctx(), std::move(nested));
  EXPECT_FALSE(equals(inside, inside)) << "a NaN in the same memory";
  const data_type single(type_id::float32);
  EXPECT_TRUE(equals(fixed<float>(single, {-0.0F}), fixed<float>(single, {0.0F})));
  EXPECT_FALSE(equals(fixed<float>(single, {-1.0F}), fixed<float>(single, {1.0F})));
  const data_type half(type_id::half_float);
  constexpr std::uint16_t infinity = 0x7c00;
  constexpr std::uint16_t half_nan = 0x7c01;
  constexpr std::uint16_t negative_zero = 0x8000;
  EXPECT_TRUE(equals(fixed<std::uint16_t>(half, {infinity, 0}),
                     fixed<std::uint16_t>(half, {infinity, negative_zero})));
  EXPECT_FALSE(equals(fixed<std::uint16_t>(half, {half_nan}), fixed<std::uint16_t>(half, {half_nan})));
}

TEST_P(equal_data, compares_nulls_but_not_the_values_under_them) {
  const data_type type(type_id::int32);
  EXPECT_TRUE(equals(fixed<std::int32_t>(type, {1, 2, 3}, 5), fixed<std::int32_t>(type, {1, 9, 3}, 5)));
  EXPECT_FALSE(equals(fixed<std::int32_t>(type, {1, 2, 3}, 5), fixed<std::int32_t>(type, {1, 2, 3}, 6)));
  EXPECT_FALSE(equals(fixed<std::int32_t>(type, {1, 2, 3}, 5), fixed<std::int32_t>(type, {1, 2, 3})));
  EXPECT_FALSE(equals(fixed<std::int32_t>(type, {1, 2, 3}), fixed<std::int32_t>(type, {1, 2, 3}, 5)));
  EXPECT_TRUE(equals(lists({0, 2, 4, 5}, {1, 2, 3, 4, 5}, 5), lists({0, 2, 3, 4}, {1, 2, 9, 5}, 5)))
      << "values of a null list";
  EXPECT_TRUE(equals(lists({0, 2, 4, 5}, {1, 2, 3, 4, 5}, 5), lists({0, 2, 2, 3}, {1, 2, 5}, 5)));
  EXPECT_FALSE(equals(lists({0, 2, 4, 5}, {1, 2, 3, 4, 5}, 5), lists({0, 2, 3, 4}, {1, 2, 9, 6}, 5)));
  EXPECT_FALSE(equals(lists({0, 2, 3}, {1, 2, 3}), lists({0, 1, 3}, {1, 2, 3}))) << "lengths";
}

TEST_P(equal_data, compares_nulls_with_unknown_null_counts) {
  const data_type type(type_id::int32);
  const column some = fixed<std::int32_t>(type, {1, 2, 3}, 5).slice(0, 2);
  const buffer values = fixed<std::int32_t>(type, {1, 2}).values();
  const column none = column::make(ctx(), {type, 2, 0, 0, {{}, values}, {}}); // without a validity bitmap
  EXPECT_FALSE(equals(some, none));
  EXPECT_FALSE(equals(none, some));
  const column lists_with_nulls = lists({0, 1, 2}, {1, 2}, 1);
  const column lists_without = lists({0, 1, 2}, {1, 2});
  EXPECT_FALSE(equals(lists_with_nulls, lists_without));
  EXPECT_FALSE(equals(lists_without, lists_with_nulls));
}

TEST_P(equal_data, of_dictionaries_compares_decoded_values) {
  const auto dictionary = [&](const std::vector<std::string_view>& values,
                              const std::vector<std::int32_t>& indices) {
    return imported(support::indices(indices, support::strings(values)));
  };
  const column one = dictionary({"a", "b"}, {0, 1, 1});
  EXPECT_TRUE(equals(one, dictionary({"b", "x", "a", "b"}, {2, 0, 3})));
  EXPECT_FALSE(equals(one, dictionary({"b", "a"}, {0, 1, 1})));
  EXPECT_FALSE(equals(one, dictionary({"a", "bb"}, {0, 1, 1})));
  EXPECT_TRUE(equals(dictionary({"a", "a"}, {0, 1}), dictionary({"a"}, {0, 0})));
  const shared_array words = support::strings({"a", "b"});
  EXPECT_FALSE(equals(imported(support::indices({0, 1}, words)), imported(support::indices({1, 0}, words))));
}

TEST_P(equal_data, requires_equal_length_and_type) {
  const column one = imported(random_array(data_type(type_id::int32), {9, 0, nulls::some, true}, 1));
  const column same_bytes = imported(random_array(data_type(type_id::uint32), {9, 0, nulls::some, true}, 1));
  EXPECT_FALSE(equals(one, one.slice(0, 8)));
  EXPECT_FALSE(equals(one, same_bytes));
  EXPECT_TRUE(equals(one.slice(0, 0), one.slice(5, 0)));
  EXPECT_FALSE(equals(one.slice(0, 0), same_bytes.slice(0, 0)));
  EXPECT_TRUE(equals(std::span<const column>(), std::vector<column>{one.slice(2, 0)}));
  EXPECT_FALSE(equals(std::span<const column>(), std::vector<column>{one}));
}

TEST_P(equal_data, of_tables_compares_names_and_rows_and_metadata_on_request) {
  const column values = imported(random_array(data_type(type_id::int32), {4, 0, nulls::some, true}, 1));
  const auto named = [&](std::string name, metadata_list of_field, metadata_list of_schema, bool nullable) {
    schema fields{{{std::move(name), values.type(), nullable, std::move(of_field)}}, std::move(of_schema)};
    return table::make(ctx(), std::move(fields), {batch{4, {values}}});
  };
  const table plain = named("a", {}, {}, true);
  EXPECT_TRUE(equals(plain, named("a", {{"k", "v"}}, {{"k", "v"}}, true)));
  EXPECT_FALSE(equals(plain, named("a", {{"k", "v"}}, {}, true), true));
  EXPECT_FALSE(equals(plain, named("a", {}, {{"k", "v"}}, true), true));
  EXPECT_TRUE(equals(named("a", {{"k", "v"}}, {}, true), named("a", {{"k", "v"}}, {}, true), true));
  EXPECT_FALSE(equals(plain, named("b", {}, {}, true)));
  const auto pair_of = [&](const column& first) {
    schema fields{{{"a", first.type(), true, {}}, {"b", first.type(), true, {}}}, {}};
    return table::make(ctx(), std::move(fields), {batch{4, {first, values}}});
  };
  const column other = fixed<std::int32_t>(values.type(), {1, 2, 3, 4});
  EXPECT_FALSE(equals(pair_of(values), pair_of(other)));
  EXPECT_TRUE(equals(pair_of(other), pair_of(fixed<std::int32_t>(values.type(), {1, 2, 3, 4}))));
  EXPECT_FALSE(equals(plain, named("a", {}, {}, false)));
  EXPECT_TRUE(
      equals(table::make(ctx(), {}, {batch{3, {}}}), table::make(ctx(), {}, {batch{1, {}}, batch{2, {}}})));
  EXPECT_FALSE(equals(table::make(ctx(), {}, {batch{3, {}}}), table::make(ctx(), {}, {batch{2, {}}})));
}

TEST_P(equal_data, of_no_pieces_equals_pieces_without_rows) {
  const column none = fixed<std::int32_t>(data_type(type_id::int32), {});
  const std::span<const column> absent;
  EXPECT_TRUE(equals(absent, absent));
  EXPECT_TRUE(equals(absent, std::span(&none, 1)));
  EXPECT_TRUE(equals(std::span(&none, 1), absent));
  const column some = fixed<std::int32_t>(data_type(type_id::int32), {1});
  EXPECT_FALSE(equals(absent, std::span(&some, 1)));
  const schema fields{{{"x", data_type(type_id::int32), true, {}}}, {}};
  const table without = table::make(ctx(), fields, {});
  const table with = table::make(ctx(), fields, {batch{0, {none}}});
  EXPECT_TRUE(equals(without, without));
  EXPECT_TRUE(equals(without, with));
  EXPECT_TRUE(equals(with, without));
}

TEST_P(equal_data, is_decided_without_work_if_possible) {
  const column one = imported(random_array(data_type(type_id::string), {99, 0, nulls::some, true}, 1));
  const column more_nulls = imported(random_array(data_type(type_id::string), {99, 0, nulls::all, true}, 1));
  const counter_values before = ctx()->copies().read_counters();
  EXPECT_TRUE(equals(one, one));
  EXPECT_FALSE(equals(one, one.slice(0, 98)));
  EXPECT_FALSE(equals(one, more_nulls));
  const counter_values now = ctx()->copies().read_counters();
  EXPECT_EQ(now.allocations, before.allocations);
  EXPECT_EQ(now.synchronizations, before.synchronizations);
}

TEST_P(equal_data, does_not_download_data) {
  const column one = imported(random_array(data_type(type_id::int64), {5000, 0, nulls::some, true}, 1));
  const column other = laid_out_anew(one);
  const std::shared_ptr<void> strict = ctx()->copies().forbid_downloads();
  const counter_values before = ctx()->copies().read_counters();
  EXPECT_TRUE(equals(one, other));
  const counter_values now = ctx()->copies().read_counters();
  EXPECT_EQ(now.host_to_device, before.host_to_device);
  EXPECT_EQ(now.device_to_host, before.device_to_host);
  EXPECT_EQ(now.device_to_device, before.device_to_device);
  const std::uint64_t there = ctx()->on_host() ? 0 : 1;
  EXPECT_EQ(now.synchronizations - before.synchronizations, there) << "one answer";
}

TEST_P(equal_data, waits_for_the_writers_of_both_sides) {
  const buffer early = make(1 << 16);
  fill(early, 7, ctx()->work_stream());
  const buffer late = make(1 << 16);
  fill(late, 1, ctx()->work_stream());
  const stream_lease side = ctx()->borrow_stream();
  fill(late, 7, side.ref());
  const auto bytes_of = [&](const buffer& memory) {
    return column::make(ctx(), {data_type(type_id::uint8), 1 << 16, 0, 0, {{}, memory}});
  };
  EXPECT_TRUE(equals(bytes_of(early), bytes_of(late)));
  fill(late, 3, ctx()->work_stream());
  fill(late, 7, side.ref());
  EXPECT_TRUE(equals(bytes_of(late), bytes_of(early)));
  fill(late, 9, side.ref()); // ordered after the comparison
  EXPECT_FALSE(equals(bytes_of(early), bytes_of(late)));
}

TEST_P(equal_data, frees_its_temporary_memory) {
  const column one = lists({0, 2, 4, 5}, {1, 2, 3, 4, 5}, 5);
  const column other = lists({0, 2, 3, 4}, {1, 2, 9, 5}, 5);
  const auto before = ctx()->reports().statistics().budget.current;
  EXPECT_TRUE(equals(one, other));
  EXPECT_EQ(ctx()->reports().statistics().budget.current, before);
}

TEST_P(equal_data, between_different_contexts_is_refused) {
  const column one = imported(random_array(data_type(type_id::int8), {3, 0, nulls::some, true}, 1));
  const std::shared_ptr<context> elsewhere = new_context({});
  const column other = column::empty(elsewhere, data_type(type_id::int8));
  expect_refused(errc::invalid_argument, [&] { static_cast<void>(equals(one, other)); });
  expect_refused(errc::invalid_argument, [&] {
    static_cast<void>(equals(table::make(ctx(), {}, {}), table::make(elsewhere, {}, {})));
  });
  const column derived = column::empty(ctx()->with_budget("other"), data_type(type_id::int8));
  EXPECT_TRUE(equals(one.slice(0, 0), derived));
}

TEST_P(equal_data, refuses_unvalidated_offsets_out_of_range) {
  const buffer offsets = make(3 * sizeof(std::int32_t));
  fill(offsets, 0x7f, ctx()->work_stream()); // 0x7f7f7f7f, out of range, but equal on both sides
  const buffer more = make(3 * sizeof(std::int32_t));
  fill(more, 0xff, ctx()->work_stream()); // -1 each
  const auto strings_of = [&](const buffer& where) {
    return column::make(ctx(), {data_type(type_id::string), 2, 0, 0, {{}, where, make(8)}});
  };
  expect_refused(errc::format, [&] { static_cast<void>(equals(strings_of(offsets), strings_of(more))); });
  expect_refused(errc::format, [&] { static_cast<void>(equals(strings_of(more), strings_of(offsets))); });
  const buffer right = make(3 * sizeof(std::int32_t));
  fill(right, 0, ctx()->work_stream());
  EXPECT_TRUE(
      equals(strings_of(right), column::make(ctx(), {data_type(type_id::string), 2, 0, 0, {{}, right, {}}})));
  const column child = column::make(ctx(), {data_type(type_id::int8), 8, 0, 0, {{}, make(8)}});
  const auto lists_of = [&](const buffer& where) {
    column::parts parts{data_type::nested("+l", {{"item", child.type(), true, {}}}), 2, 0, 0, {{}, where}};
    parts.children.push_back(child);
    return column::make(ctx(), std::move(parts));
  };
  for (const buffer& wrong : {offsets, more}) {
    expect_refused(errc::format, [&] { static_cast<void>(equals(lists_of(right), lists_of(wrong))); });
    expect_refused(errc::format, [&] { static_cast<void>(equals(lists_of(wrong), lists_of(right))); });
    expect_refused(errc::format, [&] { static_cast<void>(equals(strings_of(right), strings_of(wrong))); });
    expect_refused(errc::format, [&] { static_cast<void>(equals(strings_of(wrong), strings_of(right))); });
  }
}

TEST_P(equal_data, of_misaligned_memory_is_supported_except_for_floats_on_devices) {
  const buffer memory = make(128);
  fill(memory, 0, ctx()->work_stream());
  const auto at = [&](type_id id, std::size_t place) {
    const buffer values = memory.slice(place, 64);
    const data_type type(id);
    return type.layout() == layout_kind::bytes ? column::make(ctx(), {type, 4, 0, 0, {{}, values, make(8)}})
                                               : column::make(ctx(), {type, 4, 0, 0, {{}, values}});
  };
  EXPECT_TRUE(equals(at(type_id::int64, 1), at(type_id::int64, 0)));
  EXPECT_TRUE(equals(at(type_id::int64, 0), at(type_id::int64, 4)));
  for (const type_id id : {type_id::float64, type_id::string, type_id::string_view}) {
    const column aligned = at(id, 0);
    const column misaligned = at(id, 1);
    if (ctx()->on_host()) {
      EXPECT_TRUE(equals(aligned, misaligned));
      continue;
    }
    expect_refused(errc::invalid_argument, [&] { static_cast<void>(equals(aligned, misaligned)); });
    expect_refused(errc::invalid_argument, [&] { static_cast<void>(equals(misaligned, aligned)); });
  }
}

SAETA_CONFORMANCE_SUITE(equal_data);

} // namespace
} // namespace saeta::conformance
