// DLPack exports of tables as two-dimensional tensors, on every backend.
#include "conformance/harness/tensor_test.hpp"
#include "saeta/base/error.hpp"
#include "saeta/base/half.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace saeta::conformance {
namespace {

using extents = std::vector<std::int64_t>;

class dlpack_table : public tensor_test {
protected:
  [[nodiscard]] table rows_of(const std::vector<std::vector<column>>& batches) const {
    schema fields;
    for (const column& each : batches.front()) {
      fields.fields.push_back(field{"c" + std::to_string(fields.fields.size()), each.type(), true, {}});
    }
    std::vector<batch> made;
    for (const std::vector<column>& columns : batches) {
      made.push_back({columns.front().length(), columns});
    }
    return table::make(ctx(), std::move(fields), std::move(made));
  }
  template <class Value>
  [[nodiscard]] column counted(type_id id, std::size_t rows, int first) const {
    return numbers(id, counting<Value>(rows, first));
  }
};

TEST_P(dlpack_table, equally_spaced_columns_of_one_allocation_are_a_tensor_without_a_copy) {
  const table source = rows_of({spaced<std::int32_t>(type_id::int32, 3, 10, 16)}).slice(2, 5);
  const versioned_tensor tensor(export_dlpack(source, here(copy_policy::never)));
  EXPECT_EQ(tensor->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
  EXPECT_EQ(shape_of(tensor->dl_tensor), (extents{5, 3}));
  EXPECT_EQ(strides_of(tensor->dl_tensor), (extents{1, 16}));
  EXPECT_EQ(seen<std::int32_t>(tensor->dl_tensor),
            (std::vector<std::int32_t>{2, 18, 34, 3, 19, 35, 4, 20, 36, 5, 21, 37, 6, 22, 38}));
  dlpack_export how = here(copy_policy::never);
  how.order = tensor_order::column;
  const versioned_tensor by_columns(export_dlpack(source, how));
  EXPECT_EQ(by_columns->dl_tensor.data, tensor->dl_tensor.data);
  how.order = tensor_order::row;
  expect_refused(source, how, errc::exchange, "not equally spaced in one allocation in the requested order");
}

TEST_P(dlpack_table, columns_that_are_not_equally_spaced_are_copied) {
  const std::vector<column> even = spaced<std::int32_t>(type_id::int32, 3, 4, 4);
  const column apart = numbers(type_id::int32, counting<std::int32_t>(4, 50));
  const std::vector<std::vector<column>> elsewhere{{even[0], even[2], even[1]},
                                                   {even[2], even[1], even[0]},
                                                   {even[0], even[1], apart},
                                                   {even[1], even[1]}};
  for (const std::vector<column>& columns : elsewhere) {
    expect_refused(rows_of({columns}), here(copy_policy::never), errc::exchange, "equally spaced");
    const versioned_tensor tensor(export_dlpack(rows_of({columns}), here()));
    EXPECT_EQ(tensor->flags, DLPACK_FLAG_BITMASK_IS_COPIED);
    EXPECT_EQ(strides_of(tensor->dl_tensor), (extents{static_cast<std::int64_t>(columns.size()), 1}));
  }
  const versioned_tensor last(export_dlpack(rows_of({elsewhere[2]}), here()));
  EXPECT_EQ(seen<std::int32_t>(last->dl_tensor),
            (std::vector<std::int32_t>{0, 4, 50, 1, 5, 51, 2, 6, 52, 3, 7, 53}));
}

TEST_P(dlpack_table, a_single_column_or_row_has_both_memory_orders) {
  dlpack_export how = here(copy_policy::never);
  for (const tensor_order order : {tensor_order::any, tensor_order::row, tensor_order::column}) {
    how.order = order;
    const versioned_tensor column(export_dlpack(rows_of({{counted<float>(type_id::float32, 4, 0)}}), how));
    EXPECT_EQ(shape_of(column->dl_tensor), (extents{4, 1}));
    EXPECT_EQ(column->dl_tensor.strides[0], 1);
    const versioned_tensor row(export_dlpack(rows_of({spaced<float>(type_id::float32, 5, 1, 1)}), how));
    EXPECT_EQ(shape_of(row->dl_tensor), (extents{1, 5}));
    EXPECT_EQ(row->dl_tensor.strides[1], 1);
    const versioned_tensor none(
        export_dlpack(rows_of({spaced<float>(type_id::float32, 2, 5, 5)}).slice(3, 0), how));
    EXPECT_EQ(shape_of(none->dl_tensor), (extents{0, 2}));
    EXPECT_EQ(none->dl_tensor.data, nullptr);
  }
}

TEST_P(dlpack_table, batches_become_rows_of_one_tensor_in_either_memory_order) {
  const table source =
      rows_of({{counted<double>(type_id::float64, 3, 0), counted<double>(type_id::float64, 3, 10)},
               {counted<double>(type_id::float64, 0, 0), counted<double>(type_id::float64, 0, 0)},
               {counted<double>(type_id::float64, 2, 3), counted<double>(type_id::float64, 2, 13)}})
          .slice(1, 4);
  expect_refused(source, here(copy_policy::never), errc::exchange, "2 batches");
  for (const tensor_order order : {tensor_order::any, tensor_order::column}) {
    dlpack_export how = here();
    how.order = order;
    const versioned_tensor tensor(export_dlpack(source, how));
    EXPECT_EQ(shape_of(tensor->dl_tensor), (extents{4, 2}));
    EXPECT_EQ(strides_of(tensor->dl_tensor),
              order == tensor_order::column ? (extents{1, 4}) : (extents{2, 1}));
    EXPECT_EQ(seen<double>(tensor->dl_tensor), (std::vector<double>{1, 11, 2, 12, 3, 13, 4, 14}));
  }
}

TEST_P(dlpack_table, columns_of_several_types_need_a_type) {
  const column bits = column::make(
      ctx(), {data_type(type_id::boolean), 4, 0, 0, {{}, filled(std::vector<std::uint8_t>{0b0110})}, {}, {}});
  const table source =
      rows_of({{counted<std::int64_t>(type_id::int64, 4, -1), counted<float>(type_id::float32, 4, 7),
                counted<std::uint8_t>(type_id::uint8, 4, 250), bits}});
  expect_refused(source, here(), errc::type_mismatch,
                 "column 'c0' is of type int64, column 'c1' of type float");
  dlpack_export how = here();
  how.type = data_type(type_id::float32);
  const versioned_tensor tensor(export_dlpack(source, how));
  EXPECT_EQ(tensor->dl_tensor.dtype.code, kDLFloat);
  EXPECT_EQ(seen<float>(tensor->dl_tensor),
            (std::vector<float>{-1, 7, 250, 0, 0, 8, 251, 1, 1, 9, 252, 1, 2, 10, 253, 0}));
  how.type = data_type(type_id::half_float);
  const versioned_tensor half(export_dlpack(source, how));
  EXPECT_EQ(seen<std::uint16_t>(half->dl_tensor)[2], half_bits(250));
  how.type = data_type(type_id::int64);
  expect_refused(source, how, errc::type_mismatch, "column 'c1': values of type float can't become int64");
  how.type = data_type(type_id::uint64);
  expect_refused(source, how, errc::type_mismatch, "column 'c0': values of type int64 can't become uint64");
  how.type = data_type(type_id::string);
  expect_refused(source, how, errc::exchange, "type string has no tensor type");
  const std::array<std::size_t, 2> integers{2, 3};
  how.type = data_type(type_id::int16);
  const versioned_tensor whole(export_dlpack(source.select(integers), how));
  EXPECT_EQ(seen<std::int16_t>(whole->dl_tensor),
            (std::vector<std::int16_t>{250, 0, 251, 1, 252, 1, 253, 0}));
}

TEST_P(dlpack_table, the_type_of_a_column_can_be_converted) {
  dlpack_export how = here();
  how.type = data_type(type_id::float64);
  const versioned_tensor tensor(export_dlpack(counted<std::int32_t>(type_id::int32, 5, -2), how));
  EXPECT_EQ(seen<double>(tensor->dl_tensor), counting<double>(5, -2));
  how.copy = copy_policy::never;
  expect_refused(counted<std::int32_t>(type_id::int32, 5, 0), how, errc::exchange, "int32 become double");
}

TEST_P(dlpack_table, nulls_of_every_column_are_refused_filled_or_masked) {
  const buffer validity = filled(std::vector<std::uint8_t>{0b1011'0110});
  const table source = rows_of({{counted<float>(type_id::float32, 6, 0),
                                 numbers(type_id::float32, counting<float>(6, 10), validity)}})
                           .slice(2, 4);
  expect_refused(source, here(), errc::exchange, "1 of 8 values of the table are null");
  dlpack_export how = here();
  how.nulls = tensor_nulls::fill;
  how.fill = 0.5;
  const versioned_tensor tensor(export_dlpack(source, how));
  EXPECT_EQ(seen<float>(tensor->dl_tensor), (std::vector<float>{2, 12, 3, 0.5, 4, 14, 5, 15}));
  how.nulls = tensor_nulls::nan;
  const versioned_tensor nan(export_dlpack(source, how));
  EXPECT_TRUE(std::isnan(seen<float>(nan->dl_tensor)[3]));
  how.nulls = tensor_nulls::masked;
  const versioned_tensor values(export_dlpack(source, how));
  EXPECT_EQ(seen<float>(values->dl_tensor)[3], 13);
  how.nulls = tensor_nulls::mask;
  const versioned_tensor mask(export_dlpack(source, how));
  EXPECT_EQ(mask->dl_tensor.dtype.code, kDLBool);
  EXPECT_EQ(seen<std::uint8_t>(mask->dl_tensor), (std::vector<std::uint8_t>{1, 1, 1, 0, 1, 1, 1, 1}));
  how.copy = copy_policy::never;
  expect_refused(source, how, errc::exchange, "one bit per value and a mask one byte");
}

TEST_P(dlpack_table, a_tensor_for_the_host_is_one_download) {
  const table source =
      rows_of({{counted<std::int32_t>(type_id::int32, 4, 0), counted<std::int32_t>(type_id::int32, 4, 9)}});
  ctx()->copies().reset_counters();
  dlpack_export how = support::export_to({kDLCPU, 0});
  how.order = tensor_order::column;
  const versioned_tensor tensor(export_dlpack(source, how));
  EXPECT_EQ(tensor->dl_tensor.device.device_type, kDLCPU);
  EXPECT_EQ(seen<std::int32_t>(tensor->dl_tensor), (std::vector<std::int32_t>{0, 9, 1, 10, 2, 11, 3, 12}));
  EXPECT_EQ(ctx()->copies().read_counters().device_to_host.transfers, ctx()->on_host() ? 0U : 1U);
}

TEST_P(dlpack_table, tables_without_numbers_are_refused) {
  expect_refused(table::make(ctx(), schema{}, {{5, {}}}), here(), errc::exchange, "without columns");
  const column list = lists(2, counted<std::int32_t>(type_id::int32, 4, 0));
  expect_refused(rows_of({{list}}), here(), errc::exchange, "has no tensor type");
}

TEST_P(dlpack_table, the_legacy_struct_has_the_same_fields) {
  const table source = rows_of({spaced<std::int8_t>(type_id::int8, 2, 3, 4)});
  const support::held_tensor<DLManagedTensor> tensor(export_dlpack_legacy(source, here()));
  EXPECT_EQ(strides_of(tensor->dl_tensor), (extents{1, 4}));
  EXPECT_EQ(dlpack_device(source), dlpack_device(source.batches().front().columns.front()));
  EXPECT_EQ(dlpack_device(source.slice(0, 0)), dlpack_device(source));
}

SAETA_CONFORMANCE_SUITE(dlpack_table);

} // namespace
} // namespace saeta::conformance
