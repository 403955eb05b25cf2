// Arrow C Data import and export of every supported type, with various lengths, offsets and nulls, on each
// backend.

#include "conformance/harness/arrow_test.hpp"
#include "saeta/interop/arrow/c_data.hpp"
#include "support/arrays.hpp"
#include "support/test_size.hpp"

#include <gtest/gtest.h>

namespace saeta::conformance {
namespace {

using support::array_shape;
using support::carried_types;
using support::nulls;
using support::random_array;
using support::same_rows;
using support::shared_array;

constexpr std::array all_patterns{nulls::absent, nulls::none, nulls::some, nulls::all};

class arrow_c : public arrow_test {
protected:
  [[nodiscard]] static arrow_array exported(const column& source) {
    arrow_array given = export_column(source);
    return given;
  }

  /// Imports an array, counts nulls, exports it, slices it twice and exports the slice.
  void expect_round_trip(const data_type& type, const array_shape& shape) const {
    SCOPED_TRACE(::testing::Message() << type.name() << ", length " << shape.length << ", offset "
                                      << shape.offset << ", nulls " << static_cast<int>(shape.pattern)
                                      << ", count " << (shape.count_known ? "known" : "unknown"));
    const shared_array source = random_array(type, shape, 7);
    const column seen = imported(source);
    ASSERT_EQ(seen.type(), type);
    ASSERT_EQ(seen.length(), shape.length);
    ASSERT_TRUE(same_rows(exported(seen).get(), *source));
    ASSERT_EQ(seen.null_count(), source->nulls_in(0, shape.length));
    ASSERT_TRUE(same_rows(exported(seen).get(), *source)) << "with the null count known";
    const std::int64_t first = shape.length / 4;
    const std::int64_t second = shape.length / 8;
    const std::int64_t rows = shape.length / 2;
    const column cut = seen.slice(first, shape.length - first).slice(second, rows);
    ASSERT_TRUE(same_rows(exported(cut).get(), *source, first + second, rows)) << "sliced twice";
    ASSERT_EQ(cut.null_count(), source->nulls_in(first + second, rows));
  }
};

TEST_P(arrow_c, round_trips_every_type_in_every_shape) {
  for (const data_type& type : carried_types()) {
    bool known = false;
    for (const std::int64_t length : {0, 1, 7, 8, 63, 64, 65}) {
      for (const std::int64_t offset : {0, 1, 7, 9}) {
        for (const nulls pattern : all_patterns) {
          known = !known;
          expect_round_trip(type, {length, offset, pattern, known});
          if (HasFatalFailure()) {
            return;
          }
        }
        known = !known; // so that each pattern is tested with both
      }
    }
  }
}

TEST_P(arrow_c, round_trips_every_type_at_length) {
  for (const data_type& type : carried_types()) {
    expect_round_trip(type, {support::rows_to_test(100'000, 10'000), 9, nulls::some, false});
    if (HasFatalFailure()) {
      return;
    }
  }
}

TEST_P(arrow_c, copies_only_the_rows_of_a_nested_slice) {
  const data_type rows = data_type::nested("+s", {{"n", data_type(type_id::int64), true, {}}});
  for (const char* const format : {"+l", "+L", "+w:4"}) {
    const data_type type = data_type::nested(format, {{"item", rows, true, {}}});
    array_shape shape{100'000, 9, nulls::some, false};
    support::plain_array part = *random_array(type, shape, 5);
    part.offset += 50'000;
    part.length = 20;
    part.null_count = -1;
    const auto source = std::make_shared<const support::plain_array>(std::move(part));
    ctx()->copies().reset_counters();
    import_options copying;
    copying.copy = copy_policy::always;
    const column seen = imported(source, copying);
    const counter_values now = ctx()->copies().read_counters();
    EXPECT_EQ(now.host_to_device.transfers + now.host_to_host.transfers, 1U);
    EXPECT_LT(now.host_to_device.bytes + now.host_to_host.bytes, 20'000U) << type.name();
    EXPECT_TRUE(same_rows(exported(seen).get(), *source));
    // An export from a device downloads only the rows of a slice.
    const column whole = imported(random_array(type, shape, 5));
    ctx()->copies().reset_counters();
    EXPECT_TRUE(same_rows(exported(whole.slice(50'000, 20)).get(), *source));
    EXPECT_LT(ctx()->copies().read_counters().device_to_host.bytes, 20'000U) << type.name();
  }
}

TEST_P(arrow_c, round_trips_reimported_exports) {
  for (const data_type& type : carried_types()) {
    SCOPED_TRACE(type.name());
    const shared_array source = random_array(type, {65, 9, nulls::some, false}, 3);
    arrow_array ours = exported(imported(source).slice(2, 60));
    const column again = import_column(ctx(), {"x", type, true, {}}, ours.get());
    EXPECT_TRUE(same_rows(exported(again).get(), *source, 2, 60));
  }
}

TEST_P(arrow_c, imports_a_batch_with_the_offset_of_its_struct) {
  schema fields;
  std::vector<shared_array> children;
  for (const data_type& type : carried_types()) {
    fields.fields.push_back({type.name(), type, true, {}});
    children.push_back(random_array(type, {90, 9, nulls::some, true}, children.size()));
  }
  arrow_array given = support::to_c_batch(children, 70, 13);
  dictionary_cache dictionaries;
  batch seen = import_batch(ctx(), fields, given.get(), dictionaries);
  const table whole = table::make(ctx(), fields, {std::move(seen)});
  arrow_array out = export_batch(whole, 0);
  ASSERT_EQ(out.get().length, 70);
  ASSERT_EQ(out.get().offset, 0);
  ASSERT_EQ(out.get().n_children, static_cast<std::int64_t>(children.size()));
  for (std::size_t i = 0; i < children.size(); ++i) {
    EXPECT_TRUE(same_rows(*out.get().children[i], *children[i], 13, 70)) << fields.fields[i].name;
  }
}

TEST_P(arrow_c, exports_complete_structs) {
  const data_type numbers(type_id::int32);
  const column absent = imported(random_array(numbers, {8, 0, nulls::absent, true}, 1));
  arrow_array one = exported(absent);
  EXPECT_EQ(one.get().null_count, 0);
  EXPECT_EQ(one.get().n_buffers, 2);
  EXPECT_EQ(one.get().buffers[0], nullptr);
  EXPECT_EQ(one.get().n_children, 0);
  EXPECT_EQ(one.get().children, nullptr);
  EXPECT_EQ(one.get().dictionary, nullptr);
  one.get().release(&one.get());
  EXPECT_EQ(one.get().release, nullptr) << "which tells a consumer that it was released";
  const column nothing = imported(random_array(data_type(), {8}, 1));
  EXPECT_EQ(exported(nothing.slice(2, 3)).get().null_count, 3);
  const table whole = table::make(ctx(), {{{"x", numbers, true, {}}}, {}}, {{8, {absent}}});
  arrow_array batch = export_batch(whole, 0);
  EXPECT_EQ(batch.get().offset, 0);
  EXPECT_EQ(batch.get().null_count, 0);
  EXPECT_EQ(batch.get().n_buffers, 1);
  EXPECT_EQ(batch.get().buffers[0], nullptr);
  try {
    batch = export_batch(whole, 1);
    FAIL() << "the table has one batch";
  } catch (const error& seen) {
    EXPECT_EQ(seen.code(), errc::out_of_range);
    EXPECT_EQ(seen.message(), "batch 1 of a table with 1 batches");
  }
}

TEST_P(arrow_c, supports_rows_without_columns) {
  arrow_array given = support::to_c_batch({}, 5);
  dictionary_cache dictionaries;
  const table seen = table::make(ctx(), {}, {import_batch(ctx(), {}, given.get(), dictionaries)});
  EXPECT_EQ(seen.rows(), 5);
  arrow_array out = export_batch(seen, 0);
  EXPECT_EQ(out.get().length, 5);
  EXPECT_EQ(out.get().n_children, 0);
}

TEST_P(arrow_c, exports_null_pointers_only_for_absent_validity) {
  for (const data_type& type : carried_types()) {
    const column empty = imported(random_array(type, {}, 1));
    const arrow_array out = exported(empty);
    EXPECT_EQ(out.get().offset, 0);
    for (std::int64_t i = 1; i < out.get().n_buffers; ++i) {
      EXPECT_NE(out.get().buffers[i], nullptr) << type.name() << ", buffer " << i;
    }
  }
}

TEST_P(arrow_c, keeps_the_offset_of_a_struct_with_fixed_width_children) {
  const data_type numbers(type_id::int32);
  const data_type pair = data_type::nested("+s", {{"a", numbers, true, {}}, {"b", numbers, true, {}}});
  const column cut = imported(random_array(pair, {40, 0, nulls::some}, 9)).slice(5, 20);
  if (!ctx()->on_host()) {
    GTEST_SKIP() << "downloads begin at row 0";
  }
  const arrow_array out = exported(cut);
  EXPECT_EQ(out.get().offset, 5);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(out.get().buffers[0]), cut.validity().address());
}

TEST_P(arrow_c, trusts_a_null_count_of_0) {
  for (const data_type& type : carried_types()) {
    const bool points = type.id() == type_id::dictionary || type.layout() == layout_kind::views ||
                        type.layout() == layout_kind::list_view;
    if (!type.has_validity() || points) {
      continue; // values under a null may be out of range
    }
    for (const std::int64_t offset : {0, 4}) {
      SCOPED_TRACE(::testing::Message() << type.name() << ", offset " << offset);
      auto given = std::make_shared<support::plain_array>(*random_array(type, {40, offset, nulls::some}, 9));
      given->null_count = 0; // although the bitmap has zeros
      auto said = std::make_shared<support::plain_array>(*given);
      said->buffers[0].clear();
      const column seen = imported(given);
      EXPECT_EQ(seen.null_count(), 0);
      EXPECT_FALSE(seen.validity().present());
      EXPECT_TRUE(same_rows(exported(seen).get(), *said));
      EXPECT_TRUE(same_rows(exported(seen.slice(3, 20)).get(), *said, 3, 20));
    }
  }
}

SAETA_CONFORMANCE_SUITE(arrow_c);

} // namespace
} // namespace saeta::conformance
