// Exports of fixed-size lists, of the extension type fixed_shape_tensor and of structs as multi-dimensional
// tensors, on every backend.
#include "conformance/harness/tensor_test.hpp"
#include "saeta/base/error.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace saeta::conformance {
namespace {

using extents = std::vector<std::int64_t>;

class dlpack_nested : public tensor_test {
protected:
  /// Makes a validity bitmap in which rows 1, 5, 9, ... are null.
  [[nodiscard]] buffer one_of_four() const { return filled(std::vector<std::uint8_t>(8, 0b1101'1101)); }
  [[nodiscard]] column tensors(const column& child, std::int32_t size, std::string metadata) const {
    const column plain = lists(size, child);
    column::parts parts;
    parts.type = plain.type().with_extension("arrow.fixed_shape_tensor", std::move(metadata));
    parts.length = plain.length();
    parts.null_count = 0;
    parts.buffers = {{}};
    parts.children = {child};
    return column::make(ctx(), std::move(parts));
  }
};

TEST_P(dlpack_nested, a_fixed_size_list_adds_a_dimension_without_a_copy) {
  const column values = numbers(type_id::int32, counting<std::int32_t>(30));
  const column source = lists(3, values).slice(2, 7);
  const versioned_tensor tensor(export_dlpack(source, here(copy_policy::never)));
  EXPECT_EQ(tensor->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
  EXPECT_EQ(shape_of(tensor->dl_tensor), (extents{7, 3}));
  EXPECT_EQ(strides_of(tensor->dl_tensor), (extents{3, 1}));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor->dl_tensor.data), values.values().address() + 6 * 4);
  EXPECT_EQ(seen<std::int32_t>(tensor->dl_tensor), counting<std::int32_t>(21, 6));
  const support::held_tensor<DLManagedTensor> legacy(export_dlpack_legacy(source, here()));
  EXPECT_EQ(shape_of(legacy->dl_tensor), (extents{7, 3}));
  EXPECT_EQ(ctx()->copies().read_counters().exports, 2U);
}

TEST_P(dlpack_nested, nested_lists_add_several_dimensions) {
  const column source = lists(2, lists(3, numbers(type_id::float64, counting<double>(60)))).slice(1, 4);
  const versioned_tensor tensor(export_dlpack(source, here(copy_policy::never)));
  EXPECT_EQ(shape_of(tensor->dl_tensor), (extents{4, 2, 3}));
  EXPECT_EQ(strides_of(tensor->dl_tensor), (extents{6, 3, 1}));
  EXPECT_EQ(seen<double>(tensor->dl_tensor), counting<double>(24, 6));
  const versioned_tensor copy(export_dlpack(source, here(copy_policy::always)));
  EXPECT_EQ(copy->flags, DLPACK_FLAG_BITMASK_IS_COPIED);
  EXPECT_EQ(seen<double>(copy->dl_tensor), counting<double>(24, 6));
}

TEST_P(dlpack_nested, an_empty_column_keeps_its_shape) {
  const column source = lists(3, numbers(type_id::int8, counting<std::int8_t>(9))).slice(1, 0);
  const versioned_tensor tensor(export_dlpack(source, here()));
  EXPECT_EQ(shape_of(tensor->dl_tensor), (extents{0, 3}));
  EXPECT_EQ(tensor->dl_tensor.data, nullptr);
}

TEST_P(dlpack_nested, a_fixed_shape_tensor_has_the_shape_of_its_metadata) {
  const column child = numbers(type_id::int16, counting<std::int16_t>(36));
  const column source = tensors(child, 12, R"({"shape": [2, 3, 2], "dim_names": ["a]", "b\"}", "c"]})");
  const versioned_tensor tensor(export_dlpack(source.slice(1, 2), here(copy_policy::never)));
  EXPECT_EQ(shape_of(tensor->dl_tensor), (extents{2, 2, 3, 2}));
  EXPECT_EQ(strides_of(tensor->dl_tensor), (extents{12, 6, 2, 1}));
  EXPECT_EQ(seen<std::int16_t>(tensor->dl_tensor), counting<std::int16_t>(24, 12));
}

TEST_P(dlpack_nested, a_permutation_orders_the_dimensions_of_the_tensor) {
  const column child = numbers(type_id::int16, counting<std::int16_t>(24));
  const column source = tensors(child, 24, R"({"permutation":[2,0,1],"shape":[2,3,4]})");
  for (const copy_policy copy : {copy_policy::never, copy_policy::always}) {
    const versioned_tensor tensor(export_dlpack(source, here(copy)));
    EXPECT_EQ(shape_of(tensor->dl_tensor), (extents{1, 4, 2, 3}));
    EXPECT_EQ(strides_of(tensor->dl_tensor), (extents{24, 1, 12, 4}));
    std::vector<std::int16_t> expected;
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 2; ++j) {
        for (int k = 0; k < 3; ++k) {
          expected.push_back(static_cast<std::int16_t>(j * 12 + k * 4 + i));
        }
      }
    }
    EXPECT_EQ(seen<std::int16_t>(tensor->dl_tensor), expected);
  }
}

TEST_P(dlpack_nested, metadata_with_an_invalid_shape_is_refused) {
  const column child = numbers(type_id::int8, counting<std::int8_t>(12));
  for (const char* const text :
       {"", "{}", "[2,6]", R"({"shape":[2,5]})", R"({"shape":[2,-6]})",
        R"({"shape":[2,6],"permutation":[0,0]})", R"({"shape":[2,6],"permutation":[0]})", R"({"shape":[2,6])",
        R"({"shape":[2,6]} x)", R"({"shape":[2,x]})", R"({"shape":[9223372036854775808]})", R"({"shape)"}) {
    SCOPED_TRACE(text);
    expect_refused(tensors(child, 12, text), here(), errc::format, "arrow.fixed_shape_tensor");
  }
  expect_refused(tensors(child, 12, R"({"shape":[9223372036854775807,2]})"), here(), errc::overflow,
                 "values of a tensor");
}

TEST_P(dlpack_nested, a_struct_of_equally_spaced_fields_is_a_tensor_without_a_copy) {
  const column source = structs(spaced<float>(type_id::float32, 3, 5, 8)).slice(1, 3);
  const versioned_tensor tensor(export_dlpack(source, here(copy_policy::never)));
  EXPECT_EQ(tensor->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
  EXPECT_EQ(shape_of(tensor->dl_tensor), (extents{3, 3}));
  EXPECT_EQ(strides_of(tensor->dl_tensor), (extents{1, 8}));
  EXPECT_EQ(seen<float>(tensor->dl_tensor), (std::vector<float>{1, 9, 17, 2, 10, 18, 3, 11, 19}));
}

TEST_P(dlpack_nested, a_struct_of_scattered_fields_is_copied_once) {
  const column source = structs({numbers(type_id::int64, counting<std::int64_t>(9)),
                                 numbers(type_id::int64, counting<std::int64_t>(9, 100))})
                            .slice(2, 3);
  expect_refused(source, here(copy_policy::never), errc::exchange, "equally spaced");
  const versioned_tensor tensor(export_dlpack(source, here()));
  EXPECT_EQ(tensor->flags, DLPACK_FLAG_BITMASK_IS_COPIED);
  EXPECT_EQ(strides_of(tensor->dl_tensor), (extents{2, 1}));
  EXPECT_EQ(seen<std::int64_t>(tensor->dl_tensor), (std::vector<std::int64_t>{2, 102, 3, 103, 4, 104}));
}

TEST_P(dlpack_nested, a_struct_inside_of_a_list_is_the_last_dimension) {
  const column fields = structs({numbers(type_id::uint8, counting<std::uint8_t>(8)),
                                 numbers(type_id::uint8, counting<std::uint8_t>(8, 50))});
  const versioned_tensor tensor(export_dlpack(lists(4, fields), here()));
  EXPECT_EQ(shape_of(tensor->dl_tensor), (extents{2, 4, 2}));
  EXPECT_EQ(seen<std::uint8_t>(tensor->dl_tensor),
            (std::vector<std::uint8_t>{0, 50, 1, 51, 2, 52, 3, 53, 4, 54, 5, 55, 6, 56, 7, 57}));
}

TEST_P(dlpack_nested, types_without_fixed_shape_are_refused_by_name) {
  const column whole = numbers(type_id::int32, counting<std::int32_t>(4));
  expect_refused(structs({whole, numbers(type_id::float32, counting<float>(4))}), here(), errc::exchange,
                 "'f0' and 'f1' are of different types");
  expect_refused(structs({lists(2, whole), lists(2, whole)}), here(), errc::exchange, "fields of their own");
  const column text = column::make(
      ctx(), {data_type(type_id::string), 4, 0, 0, {{}, filled(std::vector<std::int32_t>(5)), {}}, {}, {}});
  expect_refused(lists(2, text), here(), errc::exchange, "has no tensor type: it has values of type string");
}

TEST_P(dlpack_nested, nulls_of_rows_are_refused_filled_or_masked) {
  const column source = lists(3, numbers(type_id::float32, counting<float>(24)), one_of_four())
                            .slice(3, 4); // rows 3 to 6; 5 is null
  expect_refused(source, here(), errc::exchange, "1 of 4 values of a fixed_size_list");
  dlpack_export how = here();
  how.nulls = tensor_nulls::fill;
  how.fill = -1.0;
  const versioned_tensor tensor(export_dlpack(source, how));
  EXPECT_EQ(shape_of(tensor->dl_tensor), (extents{4, 3}));
  EXPECT_EQ(seen<float>(tensor->dl_tensor),
            (std::vector<float>{9, 10, 11, 12, 13, 14, -1, -1, -1, 18, 19, 20}));
  how.copy = copy_policy::never;
  expect_refused(source, how, errc::exchange, "must be replaced");
  how.copy = copy_policy::when_needed;
  how.nulls = tensor_nulls::nan;
  const versioned_tensor nan(export_dlpack(source, how));
  EXPECT_TRUE(std::isnan(seen<float>(nan->dl_tensor)[7]));
  how.nulls = tensor_nulls::masked;
  const versioned_tensor as_they_are(export_dlpack(source, how));
  EXPECT_EQ(seen<float>(as_they_are->dl_tensor), counting<float>(12, 9));
  how.nulls = tensor_nulls::mask;
  const versioned_tensor mask(export_dlpack(source, how));
  EXPECT_EQ(shape_of(mask->dl_tensor), (extents{4}));
  EXPECT_EQ(seen<std::uint8_t>(mask->dl_tensor), (std::vector<std::uint8_t>{1, 1, 0, 1}));
}

TEST_P(dlpack_nested, nulls_of_structs_and_of_lists_of_one_value_are_filled) {
  dlpack_export how = here();
  how.nulls = tensor_nulls::fill;
  how.fill = std::int64_t{9};
  const column fields = structs(spaced<std::int16_t>(type_id::int16, 2, 4, 4), one_of_four());
  const versioned_tensor of_structs(export_dlpack(fields, how));
  EXPECT_EQ(seen<std::int16_t>(of_structs->dl_tensor), (std::vector<std::int16_t>{0, 4, 9, 9, 2, 6, 3, 7}));
  const column single = lists(1, numbers(type_id::int16, counting<std::int16_t>(4)), one_of_four());
  const versioned_tensor of_lists(export_dlpack(single, how));
  EXPECT_EQ(seen<std::int16_t>(of_lists->dl_tensor), (std::vector<std::int16_t>{0, 9, 2, 3}));
}

TEST_P(dlpack_nested, nulls_inside_of_rows_are_refused_in_every_mode) {
  const column source = lists(2, numbers(type_id::int32, counting<std::int32_t>(8), one_of_four()));
  const column fields = structs({numbers(type_id::int32, counting<std::int32_t>(8), one_of_four())});
  for (const tensor_nulls mode : {tensor_nulls::refuse, tensor_nulls::fill, tensor_nulls::masked}) {
    dlpack_export how = here();
    how.nulls = mode;
    expect_refused(source, how, errc::exchange, "2 of 8 values of type int32 inside of a fixed_size_list");
    expect_refused(fields, how, errc::exchange, "2 of 8 values of type int32 inside of a struct");
  }
  const versioned_tensor part(export_dlpack(source.slice(1, 1), here()));
  EXPECT_EQ(seen<std::int32_t>(part->dl_tensor), (std::vector<std::int32_t>{2, 3})) << "rows without a null";
}

TEST_P(dlpack_nested, nulls_inside_of_null_rows_are_ignored) {
  const buffer inner =
      filled(std::vector<std::uint8_t>{0b1111'0011, 0b1111'1111}); // nulls 2 and 3 are in null row 1
  const column source = lists(2, numbers(type_id::int32, counting<std::int32_t>(12), inner), one_of_four());
  dlpack_export how = here();
  expect_refused(source, how, errc::exchange, "2 of 6 values of a fixed_size_list");
  how.nulls = tensor_nulls::fill;
  const versioned_tensor tensor(export_dlpack(source.slice(1, 3), how));
  EXPECT_EQ(seen<std::int32_t>(tensor->dl_tensor), (std::vector<std::int32_t>{0, 0, 4, 5, 6, 7}));
  const buffer more = filled(std::vector<std::uint8_t>{0b1101'0011, 0b1111'1111}); // 5 is null in valid row 2
  const column refused = lists(2, numbers(type_id::int32, counting<std::int32_t>(12), more), one_of_four());
  expect_refused(refused, how, errc::exchange, "1 of 12 values of type int32 inside of a fixed_size_list");
}

TEST_P(dlpack_nested, bits_inside_of_lists_become_bytes) {
  const column bits = column::make(ctx(), {data_type(type_id::boolean),
                                           12,
                                           0,
                                           0,
                                           {{}, filled(std::vector<std::uint8_t>{0b1010'0110, 0b1001})},
                                           {},
                                           {}});
  const column source = lists(3, bits, one_of_four());
  expect_refused(source.slice(2, 2), here(copy_policy::never), errc::exchange, "one bit per value");
  const versioned_tensor tensor(export_dlpack(source.slice(2, 2), here()));
  EXPECT_EQ(tensor->dl_tensor.dtype.code, kDLBool);
  EXPECT_EQ(seen<std::uint8_t>(tensor->dl_tensor), (std::vector<std::uint8_t>{0, 1, 1, 0, 0, 1}));
  dlpack_export how = here();
  how.nulls = tensor_nulls::fill;
  how.fill = std::int64_t{1};
  const versioned_tensor all(export_dlpack(source, how));
  EXPECT_EQ(seen<std::uint8_t>(all->dl_tensor),
            (std::vector<std::uint8_t>{0, 1, 1, 1, 1, 1, 0, 1, 1, 0, 0, 1}));
}

TEST_P(dlpack_nested, times_are_reinterpreted_on_request_at_any_depth) {
  const column days = column::make(
      ctx(), {data_type(type_id::date32), 4, 0, 0, {{}, filled(counting<std::int32_t>(4))}, {}, {}});
  expect_refused(lists(2, days), here(), errc::exchange, "reinterpret=True");
  dlpack_export how = here();
  how.reinterpret = true;
  const versioned_tensor tensor(export_dlpack(lists(2, days), how));
  EXPECT_EQ(seen<std::int32_t>(tensor->dl_tensor), counting<std::int32_t>(4));
}

TEST_P(dlpack_nested, a_tensor_for_the_host_is_one_download_or_the_memory_itself) {
  const column list = lists(2, numbers(type_id::int32, counting<std::int32_t>(20))).slice(3, 5);
  const column fields = structs(spaced<std::int32_t>(type_id::int32, 2, 5, 5));
  ctx()->copies().reset_counters();
  const versioned_tensor of_list(export_dlpack(list, support::export_to({kDLCPU, 0})));
  EXPECT_EQ(seen<std::int32_t>(of_list->dl_tensor), counting<std::int32_t>(10, 6));
  const versioned_tensor of_fields(export_dlpack(fields, support::export_to({kDLCPU, 0})));
  EXPECT_EQ(seen<std::int32_t>(of_fields->dl_tensor),
            (std::vector<std::int32_t>{0, 5, 1, 6, 2, 7, 3, 8, 4, 9}));
  EXPECT_EQ(ctx()->copies().read_counters().device_to_host.transfers, ctx()->on_host() ? 0U : 2U);
}

TEST_P(dlpack_nested, a_copy_is_charged_until_the_deleter_is_called) {
  const std::uint64_t before = ctx()->reports().statistics().budget.current;
  {
    const column source = structs({numbers(type_id::int64, counting<std::int64_t>(100)),
                                   numbers(type_id::int64, counting<std::int64_t>(100))});
    const std::uint64_t held = ctx()->reports().statistics().budget.current;
    versioned_tensor tensor(export_dlpack(source, here()));
    EXPECT_EQ(ctx()->reports().statistics().budget.current, held + 1600);
    tensor.reset();
    EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
    EXPECT_EQ(ctx()->reports().statistics().budget.current, held);
    ctx()->memory_budget()->set_limit(held);
    EXPECT_THROW(static_cast<void>(export_dlpack(source, here())), error);
  }
  EXPECT_EQ(ctx()->reports().statistics().budget.current, before);
}

SAETA_CONFORMANCE_SUITE(dlpack_nested);

} // namespace
} // namespace saeta::conformance
