// DLPack exports of columns with nulls and of types that are not numbers, on every backend.
#include "conformance/harness/tensor_test.hpp"
#include "saeta/base/error.hpp"
#include "saeta/interop/dlpack/dlpack.hpp"
#include "support/dlpack_tensors.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

namespace saeta::conformance {
namespace {

using versioned = support::held_tensor<DLManagedTensorVersioned>;

constexpr std::int64_t rows = 200;

/// Every third row is null.
bool valid_row(std::int64_t row) { return row % 3 != 1; }

class dlpack_nulls : public tensor_test {
protected:
  [[nodiscard]] buffer validity() const {
    std::vector<std::uint8_t> bits(rows / 8 + 1);
    for (std::int64_t row = 0; row < rows; ++row) {
      bits[static_cast<std::size_t>(row / 8)] |=
          static_cast<std::uint8_t>((valid_row(row) ? 1 : 0) << (row % 8));
    }
    return filled(bits.data(), bits.size());
  }
  /// Makes a column whose row i is the number i, or null by valid_row(). Its null count is unknown.
  template <class Value>
  [[nodiscard]] column numbers(const data_type& type, bool nulls = true) const {
    std::vector<Value> values(static_cast<std::size_t>(rows));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<Value>(i);
    }
    return column::make(
        ctx(), {type,
                rows,
                0,
                column::unknown_nulls,
                {nulls ? validity() : buffer{}, filled(values.data(), values.size() * sizeof(Value))},
                {}});
  }
  [[nodiscard]] dlpack_export ordered(tensor_nulls nulls, tensor_fill fill = std::int64_t{0}) const {
    dlpack_export how;
    how.stream = dlpack_import_stream(*ctx());
    how.nulls = nulls;
    how.fill = fill;
    return how;
  }
  template <class Value>
  [[nodiscard]] std::vector<Value> seen(const DLTensor& tensor) const {
    std::vector<Value> values(static_cast<std::size_t>(tensor.shape[0]));
    const stream_handle work = ctx()->work_stream().native_handle();
    device().copy(values.data(), tensor.data, values.size() * sizeof(Value), to_host(), work);
    device().synchronize_stream(work);
    return values;
  }
  template <class Value>
  void expect_filled(type_id id, tensor_fill fill, Value shown) {
    const column whole = numbers<Value>(data_type(id));
    for (const auto& [offset, length] : {std::pair{0, 200}, std::pair{9, 77}, std::pair{1, 1}}) {
      const versioned tensor(export_dlpack(whole.slice(offset, length), ordered(tensor_nulls::fill, fill)));
      EXPECT_EQ(tensor->flags, DLPACK_FLAG_BITMASK_IS_COPIED);
      EXPECT_EQ(tensor->dl_tensor.dtype.bits, 8 * sizeof(Value));
      const auto values = seen<Value>(tensor->dl_tensor);
      for (std::int64_t i = 0; i < length; ++i) {
        const Value wanted = valid_row(offset + i) ? static_cast<Value>(offset + i) : shown;
        ASSERT_EQ(values[static_cast<std::size_t>(i)], wanted)
            << data_type(id).name() << " row " << offset + i;
      }
    }
  }
  static errc refusal(const std::function<void()>& call) {
    try {
      call();
    } catch (const error& seen) {
      return seen.code();
    }
    ADD_FAILURE() << "accepted";
    return errc::invalid_argument;
  }
};

TEST_P(dlpack_nulls, nulls_of_every_width_can_be_filled) {
  expect_filled<std::int8_t>(type_id::int8, std::int64_t{-128}, -128);
  expect_filled<std::uint8_t>(type_id::uint8, std::uint64_t{255}, 255);
  expect_filled<std::int16_t>(type_id::int16, std::int64_t{-2}, -2);
  expect_filled<std::uint32_t>(type_id::uint32, std::int64_t{4'000'000'000}, 4'000'000'000);
  expect_filled<std::int64_t>(type_id::int64, std::int64_t{-1}, -1);
  expect_filled<std::uint64_t>(type_id::uint64, ~std::uint64_t{0}, ~std::uint64_t{0});
  expect_filled<float>(type_id::float32, 0.1, 0.1F);
  expect_filled<double>(type_id::float64, std::int64_t{-7}, -7.0);
}

TEST_P(dlpack_nulls, nan_fills_only_nulls_of_floats) {
  const versioned tensor(
      export_dlpack(numbers<float>(data_type(type_id::float32)), ordered(tensor_nulls::nan)));
  const auto values = seen<float>(tensor->dl_tensor);
  for (std::int64_t row = 0; row < rows; ++row) {
    const float value = values[static_cast<std::size_t>(row)];
    ASSERT_TRUE(valid_row(row) ? value == static_cast<float>(row) : std::isnan(value)) << row;
  }
  for (const bool nulls : {true, false}) {
    const column integers = numbers<std::int32_t>(data_type(type_id::int32), nulls);
    EXPECT_EQ(refusal([&] { static_cast<void>(export_dlpack(integers, ordered(tensor_nulls::nan))); }),
              errc::exchange);
  }
}

TEST_P(dlpack_nulls, filling_copies_only_columns_with_nulls) {
  const column whole = numbers<std::int32_t>(data_type(type_id::int32));
  dlpack_export in_place = ordered(tensor_nulls::fill);
  in_place.copy = copy_policy::never;
  EXPECT_EQ(refusal([&] { static_cast<void>(export_dlpack(whole, in_place)); }), errc::exchange);
  const column valid = whole.slice(2, 2);
  const versioned view(export_dlpack(valid, in_place));
  EXPECT_EQ(view->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view->dl_tensor.data), whole.values().address() + 8);
}

TEST_P(dlpack_nulls, a_mask_tensor_has_the_valid_rows) {
  const column source = numbers<std::int16_t>(data_type(type_id::int16)).slice(5, 100);
  dlpack_export in_place = ordered(tensor_nulls::masked);
  in_place.copy = copy_policy::never;
  const versioned values(export_dlpack(source, in_place));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(values->dl_tensor.data), source.values().address() + 10);
  const versioned mask(export_dlpack(is_valid(source), ordered(tensor_nulls::refuse)));
  EXPECT_EQ(mask->dl_tensor.dtype.code, kDLBool);
  ASSERT_EQ(mask->dl_tensor.shape[0], 100);
  const auto valid = seen<std::uint8_t>(mask->dl_tensor);
  for (std::int64_t i = 0; i < 100; ++i) {
    ASSERT_EQ(valid[static_cast<std::size_t>(i)], valid_row(5 + i) ? 1 : 0) << i;
  }
}

TEST_P(dlpack_nulls, a_column_without_validity_has_a_mask_too) {
  const column full = is_valid(numbers<std::int16_t>(data_type(type_id::int16), false).slice(3, 70));
  EXPECT_EQ(full.type(), data_type::byte_bool());
  EXPECT_EQ(read(full.values()), std::vector<std::uint8_t>(70, 1));
  const column none = is_valid(column::make(ctx(), {data_type(), 70, 0, 70, {}, {}}));
  EXPECT_EQ(read(none.values()), std::vector<std::uint8_t>(70, 0));
  EXPECT_EQ(is_valid(full.slice(0, 0)).length(), 0);
}

TEST_P(dlpack_nulls, bits_are_expanded_and_filled) {
  const std::vector<std::uint8_t> bits(rows / 8, 0xff);
  const column flags = column::make(ctx(), {data_type(type_id::boolean),
                                            rows,
                                            0,
                                            column::unknown_nulls,
                                            {validity(), filled(bits.data(), bits.size())},
                                            {}});
  const versioned tensor(export_dlpack(flags.slice(7, 100), ordered(tensor_nulls::fill, std::int64_t{0})));
  EXPECT_EQ(tensor->dl_tensor.dtype.code, kDLBool);
  const auto values = seen<std::uint8_t>(tensor->dl_tensor);
  for (std::int64_t i = 0; i < 100; ++i) {
    ASSERT_EQ(values[static_cast<std::size_t>(i)], valid_row(7 + i) ? 1 : 0) << i;
  }
}

TEST_P(dlpack_nulls, a_filled_tensor_for_the_host_is_one_download) {
  const column source = numbers<std::int32_t>(data_type(type_id::int32));
  ctx()->copies().reset_counters();
  dlpack_export how = ordered(tensor_nulls::fill, std::int64_t{-1});
  how.stream.reset();
  how.target = tensor_device{kDLCPU, 0};
  const versioned tensor(export_dlpack(source, how));
  EXPECT_EQ(tensor->dl_tensor.device.device_type, kDLCPU);
  EXPECT_EQ(static_cast<const std::int32_t*>(tensor->dl_tensor.data)[0], 0);
  EXPECT_EQ(static_cast<const std::int32_t*>(tensor->dl_tensor.data)[1], -1);
  const traffic down = ctx()->copies().read_counters().device_to_host;
  EXPECT_EQ(down.bytes, ctx()->on_host() ? 0U : sizeof(std::int32_t) * rows);
}

TEST_P(dlpack_nulls, temporal_types_are_exported_as_integers_on_request) {
  for (const auto& [format, bits] : {std::pair{"tdD", 32}, std::pair{"tdm", 64}, std::pair{"tts", 32},
                                     std::pair{"ttu", 64}, std::pair{"tsn:UTC", 64}, std::pair{"tDm", 64}}) {
    SCOPED_TRACE(format);
    const data_type type = data_type::parse(format);
    const column source =
        bits == 32 ? numbers<std::int32_t>(type, false) : numbers<std::int64_t>(type, false);
    dlpack_export how = ordered(tensor_nulls::refuse);
    how.codes = true;
    EXPECT_EQ(refusal([&] { static_cast<void>(export_dlpack(source, how)); }), errc::exchange);
    how.reinterpret = true;
    how.copy = copy_policy::never;
    const versioned tensor(export_dlpack(source.slice(4, 6), how));
    EXPECT_EQ(tensor->dl_tensor.dtype.code, kDLInt);
    EXPECT_EQ(tensor->dl_tensor.dtype.bits, bits);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor->dl_tensor.data),
              source.values().address() + static_cast<std::uintptr_t>(4 * bits / 8));
  }
}

TEST_P(dlpack_nulls, integers_of_a_timestamp_may_have_nulls_filled) {
  dlpack_export how = ordered(tensor_nulls::fill, std::int64_t{-1});
  how.reinterpret = true;
  const versioned tensor(export_dlpack(numbers<std::int64_t>(data_type::parse("tsu:")).slice(0, 3), how));
  EXPECT_EQ(seen<std::int64_t>(tensor->dl_tensor), (std::vector<std::int64_t>{0, -1, 2}));
}

TEST_P(dlpack_nulls, dictionaries_are_exported_as_indices_on_request) {
  const data_type type = data_type::dictionary(data_type(type_id::uint16), data_type(type_id::int64));
  const column indices = numbers<std::uint16_t>(data_type(type_id::uint16), false);
  const column source = column::make(
      ctx(), {type,
              rows,
              0,
              0,
              {{}, indices.values()},
              std::make_shared<const column>(numbers<std::int64_t>(data_type(type_id::int64), false))});
  dlpack_export how = ordered(tensor_nulls::refuse);
  how.reinterpret = true;
  EXPECT_EQ(refusal([&] { static_cast<void>(export_dlpack(source, how)); }), errc::exchange);
  how.codes = true;
  const versioned tensor(export_dlpack(source.slice(10, 3), how));
  EXPECT_EQ(tensor->dl_tensor.dtype.code, kDLUInt);
  EXPECT_EQ(tensor->dl_tensor.dtype.bits, 16);
  EXPECT_EQ(seen<std::uint16_t>(tensor->dl_tensor), (std::vector<std::uint16_t>{10, 11, 12}));
}

SAETA_CONFORMANCE_SUITE(dlpack_nulls);

} // namespace
} // namespace saeta::conformance
