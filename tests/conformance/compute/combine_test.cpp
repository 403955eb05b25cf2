// Joining columns that consist of several pieces: every type, every kind of piece, and refusals.
#include "conformance/harness/pieces_test.hpp"
#include "saeta/compute/combine.hpp"
#include "saeta/device/join.hpp"
#include "saeta/interop/arrow/c_data.hpp"
#include "saeta/interop/arrow/owned.hpp"
#include "support/arrays.hpp"
#include "support/nested_arrays.hpp"
#include "support/tables.hpp"
#include "unit/base/raises.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace saeta::conformance {
namespace {

using support::carried_types;
using support::nulls;
using support::random_array;
using support::shared_array;

class combine : public pieces_test {
protected:
  [[nodiscard]] table join_batches(const std::vector<std::int64_t>& rows);
  /// Expects that the columns have the rows of all parts, in order.
  static void expect_rows(const std::vector<column>& seen, const std::vector<part>& parts) {
    std::size_t piece = 0;
    std::int64_t row = 0; // row within the current column
    arrow_array out;
    const auto next = [&] {
      out = arrow_array();
      out = export_column(seen.at(piece));
    };
    next();
    for (const part& each : parts) {
      for (std::int64_t i = 0; i < each.rows; ++i, ++row) {
        if (row == seen.at(piece).length()) {
          ++piece;
          row = 0;
          next();
        }
        ASSERT_TRUE(support::same_row(out.get(), row, *each.source, each.first + i))
            << "row " << i << " of " << each.rows << " is row " << row << " of piece " << piece;
      }
    }
    EXPECT_EQ(piece + 1, seen.size());
    EXPECT_EQ(row, seen.at(piece).length());
  }
  static std::int64_t nulls_of(const std::vector<part>& parts) {
    std::int64_t count = 0;
    for (const part& each : parts) {
      count += each.source->nulls_in(each.first, each.rows);
    }
    return count;
  }
  [[nodiscard]] static shared_array dictionary_column(std::vector<std::string_view> values,
                                                      std::vector<std::int32_t> indices) {
    return support::indices(indices, support::strings(values));
  }
};

TEST_P(combine, joins_pieces_of_every_type) {
  for (const data_type& type : carried_types()) {
    for (const nulls pattern : {nulls::absent, nulls::none, nulls::some, nulls::all}) {
      SCOPED_TRACE(::testing::Message() << type.name() << ", nulls " << static_cast<int>(pattern));
      const std::vector<part> parts = parts_of(type, pattern);
      const std::vector<column> pieces = imported(parts);

      const std::vector<column> joined = combine_chunks(pieces);

      ASSERT_EQ(joined.size(), 1u);
      EXPECT_EQ(joined[0].null_count(), nulls_of(parts));
      EXPECT_TRUE(nulls_of(parts) != 0 || !joined[0].validity().present());
      expect_rows(joined, parts);
    }
  }
}

/// Makes an array of integers without nulls.
shared_array numbers(const std::vector<std::int32_t>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  support::plain_array made;
  made.type = data_type(type_id::int32);
  made.length = std::ssize(values);
  made.buffers = {{}, {bytes.begin(), bytes.end()}};
  return std::make_shared<const support::plain_array>(std::move(made));
}

/// Makes a list array of one row with all rows of its child.
shared_array list_of(const shared_array& child) {
  support::plain_array made;
  made.type = data_type::nested("+l", {{"item", child->type, true, {}}});
  made.length = 1;
  made.buffers = {{}, numbers({0, static_cast<std::int32_t>(child->length)})->buffers[1]};
  made.children = {child};
  return std::make_shared<const support::plain_array>(std::move(made));
}

/// The joined child has a single row, because pieces without rows are skipped.
TEST_P(combine, joins_lists_whose_child_has_a_single_row) {
  for (const data_type& type : carried_types()) {
    for (const nulls pattern : {nulls::absent, nulls::none, nulls::all}) {
      SCOPED_TRACE(::testing::Message() << type.name() << ", nulls " << static_cast<int>(pattern));
      const auto list = [&](std::int64_t rows) {
        return list_of(random_array(type, {rows, 0, pattern, true}, 7));
      };
      const std::vector<part> parts{{list(1), 0, 1}, {list(0), 0, 1}};
      const std::vector<column> joined = combine_chunks(imported(parts));
      ASSERT_EQ(joined.size(), 1u);
      EXPECT_EQ(joined[0].children()[0].length(), 1);
      expect_rows(joined, parts);
    }
  }
}

TEST_P(combine, writes_nothing_past_its_buffers) {
  context_options options;
  parse_stack("budget, guard, caching", options.memory);
  const auto guarded = new_context(options);
  const auto here = [&](const shared_array& source) {
    arrow_array given = support::to_c(source);
    return import_column(guarded, {"x", source->type, true, {}}, given.get());
  };
  for (const data_type& type : carried_types()) {
    for (const std::int64_t rows :
         {15, 16, 31, 32, 63, 64, 65}) { // with some of these sizes the last buffer has no padding
      const std::vector<column> pieces{here(random_array(type, {rows / 2, 3, nulls::absent, true}, 1)),
                                       here(random_array(type, {rows - rows / 2, 0, nulls::some, true}, 2))};
      ASSERT_EQ(combine_chunks(pieces).size(), 1U) << type.name();
    }
  }
  for (const char* const type : {"u", "U", "z"}) { // with empty strings the offsets are the last buffer
    for (std::int64_t rows = 2; rows <= 32; ++rows) {
      support::plain_array empty;
      empty.type = data_type::parse(type);
      empty.length = rows / 2;
      empty.buffers = {{}, std::vector<std::byte>(9 * static_cast<std::size_t>(rows)), {}};
      support::plain_array rest = empty;
      rest.length = rows - rows / 2;
      const std::vector<column> pieces{here(std::make_shared<const support::plain_array>(std::move(empty))),
                                       here(std::make_shared<const support::plain_array>(std::move(rest)))};
      ASSERT_EQ(combine_chunks(pieces).size(), 1U);
    }
  }
  EXPECT_EQ(guarded->memory().guard->check(), 0U);
}

/// Joins the batches of a table of every type, and expects their rows in one batch.
table combine::join_batches(const std::vector<std::int64_t>& rows) {
  schema fields;
  std::vector<std::vector<part>> parts;
  std::vector<batch> batches(rows.size());
  for (const data_type& type : carried_types()) {
    fields.fields.push_back({type.name(), type, true, {}});
    std::vector<part>& own = parts.emplace_back();
    for (std::size_t b = 0; b < rows.size(); ++b) {
      own.push_back({random_array(type, {rows[b], 3, nulls::some, true}, 17 * b + parts.size()), 0, rows[b]});
      batches[b].rows = rows[b];
      batches[b].columns.push_back(imported(own.back().source));
    }
  }
  table joined = combine_chunks(table::make(ctx(), fields, batches));

  EXPECT_EQ(joined.batches().size(), 1u);
  for (std::size_t c = 0; c < parts.size(); ++c) {
    SCOPED_TRACE(fields.fields[c].name);
    expect_rows(joined.pieces(c), parts[c]);
  }
  return joined;
}

TEST_P(combine, joins_the_batches_of_a_table_with_every_type) {
  EXPECT_EQ(join_batches({33, 0, 1, 70}).rows(), 104);
}

/// On the host, threads share the pieces from 4 MiB on. Bitmaps of neighbouring pieces share bytes.
TEST_P(combine, joins_many_pieces_of_every_type_on_threads) {
  EXPECT_GT(join_batches({2009, 3, 1, 4011, 13, 2203}).byte_size(), std::uint64_t{4} << 20);
}

TEST_P(combine, joins_thousands_of_small_pieces) {
  std::vector<part> parts;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const std::int64_t rows = static_cast<std::int64_t>(i % 5);
    parts.push_back({random_array(data_type(type_id::string), {rows, 1, nulls::some, false}, i), 0, rows});
  }
  const std::vector<column> pieces = imported(parts);
  const std::vector<column> joined = combine_chunks(pieces);
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(joined[0].null_count(), nulls_of(parts));
  expect_rows(joined, parts);
}

TEST_P(combine, does_not_copy_a_single_piece) {
  const shared_array source = random_array(data_type(type_id::int32), {9, 0, nulls::some, true}, 1);
  const column only = imported(source);
  const column none = only.slice(0, 0);
  const auto before = ctx()->copies().read_counters();
  const std::vector<column> joined = combine_chunks(std::vector<column>{none, only, none});
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(joined[0].values().address(), only.values().address());
  EXPECT_EQ(combine_chunks(std::vector<column>{none, none}).size(), 1u);
  EXPECT_TRUE(combine_chunks(std::vector<column>{}).empty());
  EXPECT_EQ(ctx()->copies().read_counters().allocations, before.allocations);
}

TEST_P(combine, keeps_the_rows_of_tables_without_columns) {
  const table source = table::make(ctx(), {}, {batch{3, {}}, batch{4, {}}});
  const table joined = combine_chunks(source);
  EXPECT_EQ(joined.rows(), 7);
  EXPECT_EQ(joined.batches().size(), 1u);
}

TEST_P(combine, starts_a_new_column_at_the_limit_of_16_bit_run_ends) {
  const data_type type = data_type::nested("+r", {{"run_ends", data_type(type_id::int16), false, {}},
                                                  {"values", data_type(type_id::int32), true, {}}});
  std::vector<part> parts;
  for (std::uint64_t i = 0; i < 3; ++i) {
    parts.push_back({random_array(type, {15'000, 0, nulls::some, true}, i), 0, 15'000});
  }
  const std::vector<column> joined = combine_chunks(imported(parts));
  ASSERT_EQ(joined.size(), 2u);
  EXPECT_EQ(joined[0].length(), 30'000);
  EXPECT_EQ(joined[1].length(), 15'000);
  expect_rows(joined, parts);
}

TEST_P(combine, starts_a_new_column_if_8_bit_indices_can_not_represent_the_values) {
  const data_type type = data_type::dictionary(data_type(type_id::int8), data_type(type_id::int64));
  const auto values = [](std::uint64_t seed) {
    return random_array(data_type(type_id::int64), {100, 0, nulls::absent, true}, seed);
  };
  const shared_array first = values(1);
  const shared_array other = values(2);
  std::vector<part> parts;
  for (const shared_array& dictionary : {first, values(1), other}) { // the second is a prefix of the first
    parts.push_back({support::random_indices(type, {40, 0, nulls::some, true}, dictionary, 7), 0, 40});
  }
  const std::vector<column> joined = combine_chunks(imported(parts));
  ASSERT_EQ(joined.size(), 2u);
  EXPECT_EQ(joined[0].length(), 80);
  expect_rows(joined, parts);
}

TEST_P(combine, reuses_a_dictionary_that_contains_the_others) {
  const std::vector<part> parts{{dictionary_column({"a", "b"}, {1, 0, 1}), 0, 3},
                                {dictionary_column({"a", "b", "c"}, {2, 1}), 0, 2}};
  const std::vector<column> pieces = imported(parts);
  const std::vector<column> joined = combine_chunks(pieces);
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(joined[0].dictionary()->bytes().address(), pieces[1].dictionary()->bytes().address());
  expect_rows(joined, parts);
}

TEST_P(combine, unifies_dictionaries_that_differ) {
  const std::vector<part> parts{{dictionary_column({"b", "", "long enough to matter"}, {1, 0, 2}), 0, 3},
                                {dictionary_column({"x", "b", "y", ""}, {2, 1, 3, 0}), 0, 4},
                                {dictionary_column({"b", "", "long enough to matter"}, {2}), 0, 1}};
  const std::vector<column> joined = combine_chunks(imported(parts));
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(joined[0].dictionary()->length(), 5);
  expect_rows(joined, parts);
}

TEST_P(combine, shares_a_common_dictionary_without_reading_it) {
  const shared_array values = support::strings({"a", "b"});
  const column whole = imported(support::indices({0, 1, 1, 0}, values));
  const std::shared_ptr<void> strict = ctx()->copies().forbid_downloads();
  const std::vector<column> joined =
      combine_chunks(std::vector<column>{whole.slice(2, 2), whole.slice(0, 1)});
  EXPECT_EQ(joined[0].dictionary()->bytes().address(), whole.dictionary()->bytes().address());
}

TEST_P(combine, does_not_compare_dictionaries_if_downloads_are_forbidden) {
  const std::vector<column> pieces = imported(
      std::vector<part>{{dictionary_column({"a"}, {0}), 0, 1}, {dictionary_column({"b"}, {0}), 0, 1}});
  const std::shared_ptr<void> strict = ctx()->copies().forbid_downloads();
  if (ctx()->on_host()) {
    EXPECT_EQ(combine_chunks(pieces).size(), 1u);
    return;
  }
  EXPECT_EQ(unit::code_raised_by([&] { static_cast<void>(combine_chunks(pieces)); }),
            errc::download_forbidden);
}

TEST_P(combine, joins_slices_of_one_list_view_with_one_copy_of_its_child) {
  const data_type type = data_type::nested("+vl", {{"item", data_type(type_id::int32), true, {}}});
  const shared_array source = random_array(type, {400, 0, nulls::some, true}, 3);
  const column whole = imported(source);
  std::vector<column> pieces;
  std::vector<part> parts;
  for (std::int64_t row = 0; row < 400; row += 2) {
    pieces.push_back(whole.slice(row, 1));
    parts.push_back({source, row, 1});
  }
  const std::vector<column> joined = combine_chunks(pieces);
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(joined[0].children()[0].length(), whole.children()[0].length());
  expect_rows(joined, parts);
}

/// The child has more than half of the rows that 32-bit offsets can count. It is of type null and needs no
/// memory.
TEST_P(combine, counts_the_shared_child_of_list_view_slices_once) {
  constexpr std::int64_t child_rows = std::int64_t{3} << 29;
  const column child = column::make(ctx(), {data_type(type_id::null), child_rows, 0, child_rows, {}});
  const data_type type = data_type::nested("+vl", {{"item", child.type(), true, {}}});
  const buffer offsets = imported(numbers({0, 5, static_cast<std::int32_t>(child_rows) - 1})).values();
  const buffer sizes = imported(numbers({2, 0, 1})).values();
  const auto list = [&](const column& values) {
    return column::make(ctx(), {type, 3, 0, 0, {{}, offsets, sizes}, {}, {values}});
  };
  const column whole = list(child);
  EXPECT_EQ(combine_chunks(std::vector<column>{whole.slice(0, 2), whole.slice(1, 2)}).size(), 1u);
  const column other = list(column::make(ctx(), {data_type(type_id::null), child_rows, 0, child_rows, {}}));
  EXPECT_EQ(combine_chunks(std::vector<column>{whole, other}).size(), 2u);
}

TEST_P(combine, pads_its_buffers_with_zeroes) {
  const shared_array source = random_array(data_type(type_id::int8), {3, 0, nulls::absent, true}, 1);
  const column piece = imported(source);
  const std::vector<column> joined = combine_chunks(std::vector<column>{piece, piece});
  const buffer whole(joined[0].values().owner());
  ASSERT_EQ(whole.size(), 64u);
  const auto content = read(whole);
  EXPECT_TRUE(std::all_of(content.begin() + 6, content.end(), [](std::uint8_t b) { return b == 0; }));
}

TEST_P(combine, uploads_only_the_step_list_of_its_kernel) {
  const column piece = imported(random_array(data_type(type_id::int32), {10, 0, nulls::absent, true}, 1));
  const counter_values before = ctx()->copies().read_counters();
  const std::vector<column> joined = combine_chunks(std::vector<column>{piece, piece});
  const counter_values now = ctx()->copies().read_counters();
  EXPECT_EQ(now.host_to_device, before.host_to_device);
  EXPECT_EQ(now.device_to_host, before.device_to_host);
  EXPECT_EQ(now.device_to_device, before.device_to_device);
  EXPECT_EQ(now.synchronizations, before.synchronizations) << "the host waits for nothing";
  const std::uint64_t uploads = ctx()->on_host() ? 0 : 1;
  EXPECT_EQ(now.scalars.transfers - before.scalars.transfers, uploads);
  EXPECT_EQ(now.scalars.calls - before.scalars.calls, uploads);
  EXPECT_EQ(now.scalars.bytes - before.scalars.bytes,
            uploads * 3 * sizeof(join_step)); // a step for each of the two pieces and one for the padding
}

TEST_P(combine, waits_for_the_writers_of_the_pieces) {
  const buffer late = make(1 << 16);
  fill(late, 1, ctx()->work_stream());
  const stream_lease side = ctx()->borrow_stream();
  fill(late, 7, side.ref());
  const column piece = column::make(ctx(), {data_type(type_id::uint8), 1 << 16, 0, 0, {{}, late}});
  const std::vector<column> joined =
      combine_chunks(std::vector<column>{piece.slice(3, 1000), piece.slice(0, 9)});
  fill(late, 9, side.ref()); // ordered after the join
  const auto content = read(joined[0].values());
  EXPECT_TRUE(std::all_of(content.begin(), content.begin() + 1009, [](std::uint8_t b) { return b == 7; }));
}

TEST_P(combine, charges_nothing_if_the_budget_refuses) {
  const column piece = column::make(ctx(), {data_type(type_id::uint8), 24 << 20, 0, 0, {{}, make(24 << 20)}});
  const auto before = ctx()->reports().statistics().budget.current;
  EXPECT_THROW(static_cast<void>(combine_chunks(std::vector<column>{piece, piece})), error);
  EXPECT_EQ(ctx()->reports().statistics().budget.current, before);
  const std::vector<column> joined =
      combine_chunks(std::vector<column>{piece.slice(0, 1), piece.slice(1, 1)});
  EXPECT_EQ(joined[0].length(), 2);
}

TEST_P(combine, refuses_pieces_of_different_types) {
  const column a = imported(random_array(data_type(type_id::int8), {3, 0, nulls::some, true}, 1));
  const column b = imported(random_array(data_type(type_id::uint8), {3, 0, nulls::some, true}, 1));
  EXPECT_EQ(unit::code_raised_by([&] {
              static_cast<void>(combine_chunks(std::vector<column>{a, b}));
            }),
            errc::type_mismatch);
}

TEST_P(combine, refuses_unvalidated_offsets_that_decrease) {
  const buffer offsets = make(3 * sizeof(std::int32_t));
  fill(offsets, 0xff, ctx()->work_stream()); // -1 each
  const column bad = column::make(ctx(), {data_type(type_id::string), 2, 0, 0, {{}, offsets, make(8)}});
  EXPECT_EQ(unit::code_raised_by([&] {
              static_cast<void>(combine_chunks(std::vector<column>{bad, bad}));
            }),
            errc::format);
}

TEST_P(combine, refuses_unaligned_offsets_on_devices) {
  const buffer memory = make(64);
  fill(memory, 0, ctx()->work_stream());
  const auto strings_at = [&](std::size_t place) {
    return column::make(ctx(), {data_type(type_id::string), 2, 0, 0, {{}, memory.slice(place, 12), make(8)}});
  };
  const auto joined = [](const column& first, const column& second) {
    return combine_chunks(std::vector<column>{first, second});
  };
  EXPECT_EQ(joined(strings_at(0), strings_at(4))[0].length(), 4);
  const column numbers = column::make(ctx(), {data_type(type_id::int64), 2, 0, 0, {{}, memory.slice(1, 16)}});
  EXPECT_EQ(joined(numbers, numbers)[0].length(), 4) << "copied values need no alignment";
  if (ctx()->on_host()) {
    EXPECT_EQ(joined(strings_at(0), strings_at(1))[0].length(), 4);
    return;
  }
  std::string message;
  EXPECT_EQ(unit::code_raised_by([&] { joined(strings_at(0), strings_at(1)); }, &message),
            errc::invalid_argument);
  EXPECT_NE(message.find("values of 4 bytes at"), std::string::npos) << message;
}

SAETA_CONFORMANCE_SUITE(combine);

} // namespace
} // namespace saeta::conformance
