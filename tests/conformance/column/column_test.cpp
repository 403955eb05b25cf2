// Columns: validation in `make`, slices, null counts and sizes.

#include "conformance/harness/arrow_test.hpp"
#include "saeta/column/column.hpp"
#include "saeta/interop/arrow/c_data.hpp"
#include "support/arrays.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <utility>

namespace saeta::conformance {
namespace {

using support::nulls;
using support::random_array;
using support::shared_array;

class columns : public arrow_test {
protected:
  /// Returns valid parts of a column: ten rows of int32 from offset 6, some of them null.
  [[nodiscard]] column::parts good_parts() const {
    return {data_type(type_id::int32), 10, 6, column::unknown_nulls, {make(2), make(64)}, nullptr};
  }
  void expect_refused(const std::function<void(column::parts&)>& broken, errc code,
                      std::string_view said) const {
    column::parts from = good_parts();
    broken(from);
    try {
      static_cast<void>(column::make(ctx(), std::move(from)));
      FAIL() << "accepted: " << said;
    } catch (const error& seen) {
      EXPECT_EQ(seen.code(), code) << seen.message();
      EXPECT_NE(seen.message().find(said), std::string::npos) << seen.message();
    }
  }
};

TEST_P(columns, are_accepted_when_every_buffer_is_large_enough) {
  const column seen = column::make(ctx(), good_parts());
  EXPECT_EQ(seen.length(), 10);
  EXPECT_EQ(seen.offset(), 6);
  EXPECT_EQ(seen.known_null_count(), column::unknown_nulls);
  EXPECT_EQ(seen.values().size(), 64U);
  EXPECT_EQ(seen.validity().size(), 2U);
  EXPECT_EQ(seen.dictionary(), nullptr);
}

TEST_P(columns, are_refused_with_the_inconsistent_numbers) {
  constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  expect_refused([](auto& p) { p.length = -1; }, errc::invalid_argument, "length -1");
  expect_refused([](auto& p) { p.offset = -1; }, errc::invalid_argument, "offset -1");
  expect_refused([](auto& p) { p.offset = huge; }, errc::overflow, "offset + length");
  expect_refused([](auto& p) { p.length = huge - 6; }, errc::out_of_range, "validity");
  expect_refused([](auto& p) { p.null_count = 11; }, errc::invalid_argument, "null count 11");
  expect_refused([](auto& p) { p.null_count = -2; }, errc::invalid_argument, "null count -2");
  expect_refused([](auto& p) { p.buffers.resize(1); }, errc::invalid_argument, "1 buffers, expected 2");
  expect_refused([](auto& p) { p.length = 11; }, errc::out_of_range,
                 "validity of 17 rows (offset included) take 3 bytes, the buffer has 2");
  expect_refused([](auto& p) { p.type = data_type(type_id::int64); }, errc::out_of_range,
                 "values of 16 rows (offset included) take 128 bytes, the buffer has 64");
  expect_refused([](auto& p) { p.buffers[1] = buffer(); }, errc::out_of_range, "the buffer has 0");
  expect_refused(
      [](auto& p) {
        p.buffers[0] = buffer();
        p.null_count = 3;
      },
      errc::invalid_argument, "null count 3 without a validity");
  expect_refused(
      [](auto& p) {
        p.buffers[0] = buffer();
        p.length = huge - 6;
      },
      errc::overflow, "bytes of the values");
  expect_refused(
      [](auto& p) {
        p.buffers[0] = buffer();
        p.null_count = 1;
      },
      errc::invalid_argument, "null count 1 without a validity");
  expect_refused(
      [](auto& p) {
        p.length = 1;
        p.buffers[1] = p.buffers[1].slice(0, 27);
      },
      errc::out_of_range, "values of 7 rows (offset included) take 28 bytes, the buffer has 27");
  const auto other = new_context();
  for (const type_id text : {type_id::string, type_id::large_string}) {
    const std::string needed = text == type_id::string ? "68" : "136";
    expect_refused(
        [&](auto& p) {
          p.type = data_type(text);
          p.buffers.push_back({});
        },
        errc::out_of_range, "offsets of 16 rows (offset included) take " + needed + " bytes");
    expect_refused(
        [&](auto& p) {
          p.type = data_type(text);
          p.buffers = {{}, make(136), buffer::allocate(other, 1, other->work_stream())};
        },
        errc::invalid_argument, "bytes are in another context");
  }
  expect_refused([&](auto& p) { p.buffers[1] = buffer::allocate(other, 64, other->work_stream()); },
                 errc::invalid_argument, "values are in another context");
}

TEST_P(columns, are_refused_without_the_dictionary_of_their_type) {
  const auto words =
      std::make_shared<const column>(imported(random_array(data_type(type_id::string), {4}, 1)));
  const data_type codes = data_type::dictionary(data_type(type_id::int32), data_type(type_id::string));
  EXPECT_EQ(column::make(ctx(), {codes, 10, 6, -1, {make(2), make(64)}, words}).dictionary(), words.get());
  expect_refused([&](auto& p) { p.type = codes; }, errc::invalid_argument, "the dictionary is missing");
  expect_refused([&](auto& p) { p.dictionary = words; }, errc::invalid_argument,
                 "column of int32: must not have a dictionary");
  expect_refused(
      [&](auto& p) {
        p.type = data_type::dictionary(data_type(type_id::int32), data_type(type_id::binary));
        p.dictionary = words;
      },
      errc::type_mismatch, "the dictionary is of type string, expected binary");
  const auto other = new_context();
  const auto elsewhere = std::make_shared<const column>(
      column::make(other, {data_type(type_id::string), 0, 0, 0, {{}, {}, {}}, nullptr}));
  expect_refused(
      [&](auto& p) {
        p.type = codes;
        p.dictionary = elsewhere;
      },
      errc::invalid_argument, "the dictionary is in another context");
}

TEST(column, is_refused_without_a_context) {
  try {
    static_cast<void>(column::make(nullptr, {data_type(type_id::int8), 0, 0, 0, {{}, {}}, nullptr}));
    FAIL() << "accepted";
  } catch (const error& seen) {
    EXPECT_EQ(seen.code(), errc::invalid_argument);
    EXPECT_EQ(seen.message(), "column of int8: the context is null");
  }
}

TEST_P(columns, without_rows_need_no_buffers) {
  for (const data_type& type : support::carried_types()) {
    const column none = column::empty(ctx(), type);
    EXPECT_EQ(none.type(), type);
    EXPECT_EQ(none.null_count(), 0) << type.name();
    EXPECT_EQ(none.byte_size(), 0U) << type.name();
    column::parts from;
    from.type = type;
    from.offset = 3;
    from.buffers.resize(type.buffer_count());
    from.children.assign(none.children().begin(), none.children().end());
    if (none.dictionary() != nullptr) {
      from.dictionary = std::make_shared<const column>(*none.dictionary());
    }
    const column seen = column::make(ctx(), std::move(from));
    EXPECT_EQ(seen.length(), 0) << type.name();
    EXPECT_EQ(seen.byte_size(), 0U) << type.name();
  }
}

TEST_P(columns, have_only_the_buffers_of_their_layout) {
  const column text = imported(random_array(data_type(type_id::string), {4}, 1));
  EXPECT_THROW(static_cast<void>(text.values()), error);
  EXPECT_NO_THROW(static_cast<void>(text.offsets()));
  EXPECT_NO_THROW(static_cast<void>(text.bytes()));
  const column large = imported(random_array(data_type(type_id::large_string), {4}, 1));
  EXPECT_THROW(static_cast<void>(large.values()), error);
  EXPECT_NO_THROW(static_cast<void>(large.offsets()));
  EXPECT_NO_THROW(static_cast<void>(large.bytes()));
  const column bits = imported(random_array(data_type(type_id::boolean), {4}, 1));
  EXPECT_NO_THROW(static_cast<void>(bits.values()));
  EXPECT_THROW(static_cast<void>(bits.offsets()), error);
  EXPECT_THROW(static_cast<void>(bits.bytes()), error);
  const column nothing = imported(random_array(data_type(), {4}, 1));
  EXPECT_THROW(static_cast<void>(nothing.values()), error);
  EXPECT_FALSE(nothing.validity().present());
  const column numbers = imported(random_array(data_type(type_id::int8), {4}, 1));
  EXPECT_THROW(static_cast<void>(numbers.offsets()), error);
  EXPECT_THROW(static_cast<void>(numbers.bytes()), error);
}

TEST_P(columns, count_nulls_once_with_one_scalar_read) {
  const shared_array source = random_array(data_type(type_id::int32), {1000, 9, nulls::some, false}, 5);
  const column seen = imported(source);
  const column copy = seen;
  ctx()->copies().reset_counters();
  EXPECT_EQ(seen.known_null_count(), column::unknown_nulls);
  EXPECT_EQ(seen.null_count(), source->nulls_in(0, 1000));
  const traffic one{1, 1, sizeof(std::int64_t)};
  EXPECT_EQ(ctx()->copies().read_counters().scalars, one);
  EXPECT_EQ(copy.null_count(), seen.null_count()) << "a copy shares the count";
  EXPECT_EQ(seen.slice(0, 1000).known_null_count(), seen.null_count()) << "so does a slice of everything";
  EXPECT_EQ(ctx()->copies().read_counters().scalars, one);
}

TEST_P(columns, know_null_counts_that_need_no_computation) {
  const column absent = imported(random_array(data_type(type_id::int32), {100, 3, nulls::absent, false}, 5));
  EXPECT_EQ(absent.known_null_count(), 0);
  EXPECT_EQ(absent.slice(10, 20).known_null_count(), 0);
  const column all = imported(random_array(data_type(type_id::int32), {100, 3, nulls::all, true}, 5));
  EXPECT_EQ(all.known_null_count(), 100);
  EXPECT_EQ(all.slice(10, 20).known_null_count(), 20);
  const column some = imported(random_array(data_type(type_id::int32), {100, 3, nulls::some, true}, 5));
  EXPECT_EQ(some.slice(10, 20).known_null_count(), column::unknown_nulls);
  EXPECT_EQ(some.slice(10, 0).known_null_count(), 0);
  EXPECT_EQ(some.slice(10, 1).known_null_count(), column::unknown_nulls);
  column::parts one = good_parts();
  one.null_count = 1;
  EXPECT_EQ(column::make(ctx(), column::parts(one)).slice(0, 5).known_null_count(), column::unknown_nulls);
  one.length = 1;
  EXPECT_EQ(column::make(ctx(), std::move(one)).known_null_count(), 1);
  const column nothing = imported(random_array(data_type(), {100}, 5));
  EXPECT_EQ(nothing.known_null_count(), 100);
  EXPECT_EQ(nothing.slice(10, 20).known_null_count(), 20);
  EXPECT_EQ(ctx()->copies().read_counters().scalars, traffic{});
}

TEST_P(columns, are_sliced_inside_their_rows_only) {
  const column seen = imported(random_array(data_type(type_id::int32), {100, 3, nulls::some, true}, 5));
  const column cut = seen.slice(40, 60).slice(60, 0);
  EXPECT_EQ(cut.length(), 0);
  EXPECT_EQ(cut.offset(), seen.offset() + 100);
  for (const auto& [offset, length] : {std::pair<std::int64_t, std::int64_t>{-1, 1},
                                       {0, -1},
                                       {101, 0},
                                       {100, 1},
                                       {1, 100},
                                       {1, std::numeric_limits<std::int64_t>::max()}}) {
    EXPECT_THROW(static_cast<void>(seen.slice(offset, length)), error) << offset << ", " << length;
  }
}

TEST_P(columns, have_the_byte_size_of_their_rows) {
  const column numbers = column::make(ctx(), good_parts());
  EXPECT_EQ(numbers.byte_size(), 10U * 4 + 2);
  EXPECT_EQ(numbers.slice(2, 3).byte_size(), 3U * 4 + 1) << "rows 8 to 10: one byte of validity";
  EXPECT_EQ(numbers.slice(3, 0).byte_size(), 0U);
  EXPECT_EQ(numbers.slice(2, 1).byte_size(), 4U + 1);
  EXPECT_EQ(numbers.slice(0, 3).byte_size(), 3U * 4 + 2) << "rows 6 to 8: two bytes of validity";
  EXPECT_EQ(numbers.slice(1, 2).byte_size(), 2U * 4 + 2) << "rows 7 and 8";
  const column bits =
      column::make(ctx(), {data_type(type_id::boolean), 12, 4, 0, {buffer(), make(2)}, nullptr});
  EXPECT_EQ(bits.byte_size(), 2U);
  EXPECT_EQ(bits.slice(0, 4).byte_size(), 1U) << "rows 4 to 7";
  EXPECT_EQ(bits.slice(4, 4).byte_size(), 1U) << "rows 8 to 11";
  EXPECT_EQ(bits.slice(3, 2).byte_size(), 2U) << "rows 7 and 8";
  EXPECT_EQ(bits.slice(3, 0).byte_size(), 0U);
  const column text = column::make(ctx(), {data_type(type_id::large_string),
                                           3,
                                           1,
                                           0,
                                           {buffer(), make_of<std::int64_t>({0, 2, 5, 5, 17}), make(17)},
                                           nullptr});
  EXPECT_EQ(text.byte_size(), 4U * 8 + 15);
  EXPECT_EQ(text.slice(1, 1).byte_size(), 2U * 8);
  EXPECT_EQ(text.slice(2, 1).byte_size(), 2U * 8 + 12);
  const auto words = std::make_shared<const column>(text);
  const column codes =
      column::make(ctx(), {data_type::dictionary(data_type(type_id::int8), data_type(type_id::large_string)),
                           5,
                           0,
                           0,
                           {buffer(), make(5)},
                           words});
  EXPECT_EQ(codes.byte_size(), 5U + text.byte_size());
  EXPECT_EQ(codes.slice(4, 1).byte_size(), 1U + text.slice(2, 1).byte_size()) << "its share of the values";
}

TEST_P(columns, include_the_bytes_that_rows_refer_to) {
  const data_type numbers(type_id::int16);
  const column values = column::make(ctx(), {numbers, 20, 0, 0, {{}, make(40)}});
  const column lists = column::make(ctx(), {data_type::nested("+l", {{"item", numbers, true, {}}}),
                                            4,
                                            0,
                                            0,
                                            {{}, make_of<std::int32_t>({0, 1, 9, 9, 20})},
                                            nullptr,
                                            {values}});
  EXPECT_EQ(lists.byte_size(), 20U + 40);
  EXPECT_EQ(lists.slice(1, 2).byte_size(), 12U + 16);
  const column views =
      column::make(ctx(), {data_type::nested("+vl", {{"item", numbers, true, {}}}),
                           4,
                           0,
                           0,
                           {{}, make_of<std::int32_t>({18, 0, 7, 0}), make_of<std::int32_t>({1, 3, 0, 2})},
                           nullptr,
                           {values}});
  EXPECT_EQ(views.byte_size(), 32U + 6 * 2) << "few of many rows";
  EXPECT_EQ(views.slice(1, 2).byte_size(), 16U + 3 * 2);
  const column runs = column::make(
      ctx(),
      {data_type::nested("+r",
                         {{"run_ends", data_type(type_id::int32), false, {}}, {"values", numbers, true, {}}}),
       30,
       0,
       0,
       {},
       nullptr,
       {column::make(ctx(), {data_type(type_id::int32), 3, 0, 0, {{}, make_of<std::int32_t>({10, 11, 30})}}),
        values.slice(0, 3)}});
  EXPECT_EQ(runs.byte_size(), 3U * 4 + 3 * 2);
  EXPECT_EQ(runs.slice(10, 2).byte_size(), 2U * 4 + 2 * 2);
  const column texts = column::make(
      ctx(), {data_type(type_id::string_view),
              3,
              0,
              0,
              {{}, make_of<std::int32_t>({3, 0, 0, 0, 13, 0, 0, 7, 20, 0, 1, 0}), make(900), make(20)}});
  EXPECT_EQ(texts.byte_size(), 3U * 16 + 33);
  EXPECT_EQ(texts.slice(0, 1).byte_size(), 16U);
  EXPECT_EQ(texts.slice(2, 1).byte_size(), 16U + 20);
}

TEST_P(columns, cache_their_byte_size) {
  const column text = column::make(
      ctx(),
      {data_type(type_id::string), 3, 0, 0, {buffer(), make_of<std::int32_t>({0, 2, 5, 17}), make(17)}});
  const column part = text.slice(1, 1);
  const column same = part;
  ctx()->copies().reset_counters();
  EXPECT_EQ(text.byte_size(), 4U * 4 + 17);
  EXPECT_EQ(ctx()->copies().read_counters().synchronizations, 0U) << "a whole column is not read";
  EXPECT_EQ(part.byte_size(), 2U * 4 + 3);
  EXPECT_EQ(same.byte_size(), 2U * 4 + 3);
  EXPECT_EQ(ctx()->copies().read_counters().synchronizations, ctx()->on_host() ? 0U : 1U);
}

TEST_P(columns, estimate_their_byte_size_if_the_device_can_not_be_read) {
  const column text = column::make(
      ctx(),
      {data_type(type_id::string), 4, 0, 0, {buffer(), make_of<std::int32_t>({0, 2, 5, 17, 80}), make(80)}});
  const column part = text.slice(1, 2);
  ctx()->synchronize(ctx()->work_stream());
  ctx()->trim();
  ctx()->set_budget(ctx()->memory_budget()->statistics().current);
  EXPECT_EQ(part.byte_size(), 3U * 4 + (ctx()->on_host() ? 15 : 40));
  ctx()->set_budget(limit);
  EXPECT_EQ(part.byte_size(), 3U * 4 + 15);
}

TEST(required_bytes, follow_the_layout) {
  const data_type text(type_id::string);
  EXPECT_EQ(required_bytes(text, 0, 9), 2U);
  EXPECT_EQ(required_bytes(text, 1, 9), 40U);
  EXPECT_EQ(required_bytes(text, 2, 9), 0U);
  EXPECT_EQ(required_bytes(text, 1, 0), 0U);
  EXPECT_EQ(required_bytes(text, 1, 1), 8U);
  EXPECT_EQ(required_bytes(text, 0, 8), 1U);
  EXPECT_EQ(required_bytes(text, 0, 16), 2U);
  EXPECT_EQ(required_bytes(data_type(type_id::int32), 2, 9), 0U) << "it has no such buffer";
  EXPECT_EQ(required_bytes(data_type(type_id::large_string), 1, 9), 80U);
  EXPECT_EQ(required_bytes(data_type(type_id::boolean), 1, 17), 3U);
  EXPECT_EQ(required_bytes(data_type::parse("d:76,0,256"), 1, 3), 96U);
  EXPECT_EQ(required_bytes(data_type(), 0, 9), 0U);
  EXPECT_THROW(required_bytes(data_type(type_id::int64), 1, std::numeric_limits<std::int64_t>::max()), error);
}

SAETA_CONFORMANCE_SUITE(columns);

} // namespace
} // namespace saeta::conformance
