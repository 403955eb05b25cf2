// DLPack exports on the host: arguments and refusals. conformance/interop/dlpack_test.cpp runs on devices.
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/base/error.hpp"
#include "saeta/interop/dlpack/dlpack.hpp"
#include "saeta/memory/use_token.hpp"
#include "support/dlpack_tensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace saeta {
namespace {

using ::testing::HasSubstr;
using held = support::held_tensor<DLManagedTensorVersioned>;

class dlpack_export_test : public ::testing::Test {
protected:
  [[nodiscard]] buffer bytes(const std::vector<std::uint8_t>& content) const {
    const stream_ref work = ctx_->work_stream();
    buffer made = buffer::allocate(ctx_, content.size(), work, "test");
    use_token token(work, {writes(made)});
    std::copy(content.begin(), content.end(), token.span<std::uint8_t>(made).data());
    token.finish();
    return made;
  }
  /// Makes a column of eight int8 values. The bits of `valid` are its validity.
  [[nodiscard]] column numbers(std::uint8_t valid = 0xFF) const {
    const buffer validity = valid == 0xFF ? buffer{} : bytes({valid});
    return column::make(ctx_, {data_type(type_id::int8),
                               8,
                               0,
                               column::unknown_nulls,
                               {validity, bytes({1, 2, 3, 4, 5, 6, 7, 8})},
                               {}});
  }
  [[nodiscard]] column flags() const {
    return column::make(ctx_, {data_type(type_id::boolean), 8, 0, 0, {{}, bytes({0b1010'0110})}, {}});
  }
  static void expect_refused(const column& source, const dlpack_export& how, errc code,
                             const std::string& text) {
    try {
      const held tensor(export_dlpack(source, how));
      ADD_FAILURE() << "accepted; expected: " << text;
    } catch (const error& e) {
      EXPECT_EQ(name_of(e.code()), name_of(code)) << e.message();
      EXPECT_THAT(e.message(), HasSubstr(text));
    }
    EXPECT_EQ(source.ctx()->copies().read_counters().exports, 0U);
  }

  std::shared_ptr<context> ctx_ = context::create(make_host_backend());
};

TEST_F(dlpack_export_test, nulls_are_refused_with_their_count_and_type) {
  expect_refused(numbers(0b1111'0101), {}, errc::exchange, "2 of 8 values of an int8 column are null");
}

TEST_F(dlpack_export_test, a_slice_without_nulls_is_exported) {
  const column part = numbers(0b1111'0101).slice(4, 4);
  const held tensor(export_dlpack(part));
  EXPECT_EQ(tensor->dl_tensor.shape[0], 4);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor->dl_tensor.data), part.values().address() + 4);
}

TEST_F(dlpack_export_test, a_type_without_a_tensor_is_refused) {
  const column days = column::make(
      ctx_, {data_type(type_id::date32), 2, 0, 0, {{}, bytes(std::vector<std::uint8_t>(8))}, {}});
  expect_refused(days, {}, errc::exchange, "type date32");
  expect_refused(column::make(ctx_, {data_type(), 3, 0, 3, {}, {}}), {}, errc::exchange, "type null");
}

TEST_F(dlpack_export_test, a_tensor_on_the_host_takes_no_stream) {
  for (const std::int64_t number :
       {std::int64_t{-1}, std::int64_t{1}, std::int64_t{2}, std::int64_t{12345}}) {
    expect_refused(numbers(), support::export_on(number), errc::exchange,
                   "stream " + std::to_string(number) + " was given");
  }
  expect_refused(numbers(), support::export_on(0), errc::invalid_argument, "stream 0 is ambiguous");
  expect_refused(numbers(), support::export_on(-2), errc::invalid_argument, "stream -2");
}

TEST_F(dlpack_export_test, another_device_is_refused_naming_both) {
  expect_refused(numbers(), support::export_to({kDLCUDA, 1}), errc::exchange,
                 "on host and can't be exported to cuda:1");
}

TEST_F(dlpack_export_test, the_own_device_may_be_named) {
  const column source = numbers();
  const held tensor(export_dlpack(source, {std::nullopt, dlpack_device(source), copy_policy::never}));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor->dl_tensor.data), source.values().address());
}

TEST_F(dlpack_export_test, booleans_are_converted_by_a_copy_that_can_be_forbidden) {
  expect_refused(flags(), support::export_with(copy_policy::never), errc::exchange, "one bit per value");
  const held tensor(export_dlpack(flags().slice(1, 6)));
  EXPECT_EQ(tensor->flags, DLPACK_FLAG_BITMASK_IS_COPIED);
  EXPECT_EQ(tensor->dl_tensor.dtype.code, kDLBool);
  const auto* const values = static_cast<const std::uint8_t*>(tensor->dl_tensor.data);
  EXPECT_EQ(std::vector<std::uint8_t>(values, values + 6), (std::vector<std::uint8_t>{1, 1, 0, 0, 1, 0}));
  EXPECT_EQ(ctx_->copies().read_counters().exports, 0U) << "a copy is not an export of our memory";
}

TEST_F(dlpack_export_test, a_copy_belongs_to_the_consumer_and_is_freed_by_the_deleter) {
  const column source = numbers();
  const std::uint64_t live = ctx_->reports().statistics().budget.current;
  held tensor(export_dlpack(source, support::export_with(copy_policy::always)));
  EXPECT_EQ(tensor->flags, DLPACK_FLAG_BITMASK_IS_COPIED);
  EXPECT_EQ(ctx_->reports().statistics().budget.current, live + 8);
  static_cast<std::int8_t*>(tensor->dl_tensor.data)[0] = 99;
  EXPECT_EQ(*reinterpret_cast<const std::int8_t*>(source.values().address()), 1);
  tensor.reset();
  EXPECT_TRUE(ctx_->wait_for_releases(std::chrono::seconds(20)));
  EXPECT_EQ(ctx_->reports().statistics().budget.current, live);
}

TEST_F(dlpack_export_test, a_dropped_column_lives_until_the_deleter_is_called) {
  held tensor(export_dlpack(numbers()));
  EXPECT_EQ(ctx_->reports().statistics().ledger.buffers, 1U);
  EXPECT_EQ(static_cast<const std::int8_t*>(tensor->dl_tensor.data)[7], 8);
  tensor.reset();
  EXPECT_EQ(ctx_->reports().statistics().ledger.buffers, 0U);
}

TEST_F(dlpack_export_test, an_empty_column_is_a_tensor_without_data) {
  for (const copy_policy copy : {copy_policy::when_needed, copy_policy::always}) {
    const held tensor(export_dlpack(numbers().slice(3, 0), support::export_with(copy)));
    EXPECT_EQ(tensor->dl_tensor.shape[0], 0);
    EXPECT_EQ(tensor->dl_tensor.strides[0], 1);
    EXPECT_EQ(tensor->dl_tensor.data, nullptr);
  }
}

TEST_F(dlpack_export_test, the_device_of_a_column_without_values_is_its_context) {
  const tensor_device own{kDLCPU, 0};
  EXPECT_EQ(dlpack_device(column::make(ctx_, {data_type(), 3, 0, 3, {}, {}})), own);
  EXPECT_EQ(dlpack_device(numbers()), own);
  EXPECT_EQ(dlpack_device(column::make(ctx_, {data_type(type_id::int8), 0, 0, 0, {{}, {}}, {}})), own);
  EXPECT_EQ(dlpack_device(column::make(ctx_, {data_type(type_id::string), 0, 0, 0, {{}, {}, {}}, {}})), own);
}

TEST_F(dlpack_export_test, the_device_of_a_column_follows_the_kind_of_its_values) {
  alignas(64) std::array<std::byte, 64> memory{};
  for (const type_id id : {type_id::int8, type_id::boolean}) {
    external_memory lent;
    lent.pointer = memory.data();
    lent.bytes = memory.size();
    lent.kind = memory_kind::pinned;
    const column source =
        column::make(ctx_, {data_type(id), 8, 0, 0, {{}, buffer::adopt(ctx_, std::move(lent))}, {}});
    EXPECT_EQ(dlpack_device(source), (tensor_device{kDLCUDAHost, 0}));
    const bool copied = id == type_id::boolean; // a copy is in memory of the context
    EXPECT_EQ(held(export_dlpack(source))->dl_tensor.device.device_type, copied ? kDLCPU : kDLCUDAHost);
    const held on_host(export_dlpack(source, support::export_to({kDLCPU, 0})));
    EXPECT_EQ(on_host->dl_tensor.device.device_type, kDLCPU);
  }
}

/// Exports a column with one null, filled with the number. Returns the bits of the filled value.
std::uint64_t filled_bits(const std::shared_ptr<context>& ctx, const data_type& type, tensor_fill number) {
  const stream_ref work = ctx->work_stream();
  const buffer nothing = buffer::allocate(ctx, 8, work, "test");
  use_token token(work, {writes(nothing)});
  std::fill_n(token.span<std::uint8_t>(nothing).data(), 8, std::uint8_t{0});
  token.finish();
  dlpack_export how;
  how.nulls = tensor_nulls::fill;
  how.fill = number;
  const held tensor(export_dlpack(column::make(ctx, {type, 1, 0, 1, {nothing, nothing}, {}}), how));
  std::uint64_t bits = 0;
  std::memcpy(&bits, tensor->dl_tensor.data, static_cast<std::size_t>(type.byte_width()));
  return bits;
}

TEST_F(dlpack_export_test, half_floats_are_rounded_to_the_nearest_even) {
  const data_type half(type_id::half_float);
  const double ulp = std::ldexp(1.0, -10);
  for (const auto& [value, bits] :
       std::vector<std::pair<double, std::uint64_t>>{{0.0, 0},
                                                     {-0.0, 0x8000},
                                                     {1.0, 0x3c00},
                                                     {-2.5, 0xc100},
                                                     {65504.0, 0x7bff},
                                                     {1 + ulp / 2, 0x3c00},
                                                     {1 + ulp * 3 / 2, 0x3c02},
                                                     {2 - ulp / 4, 0x4000},
                                                     {std::ldexp(1.0, -14), 0x0400},
                                                     {std::ldexp(1.0, -24), 0x0001},
                                                     {std::ldexp(1023.0, -24), 0x03ff},
                                                     {std::ldexp(1.0, -26), 0},
                                                     {std::numeric_limits<double>::infinity(), 0x7c00},
                                                     {-std::numeric_limits<double>::infinity(), 0xfc00},
                                                     {std::numeric_limits<double>::quiet_NaN(), 0x7e00}}) {
    EXPECT_EQ(filled_bits(ctx_, half, value), bits) << value;
  }
  EXPECT_EQ(filled_bits(ctx_, half, std::int64_t{4096}), 0x6c00U);
}

TEST_F(dlpack_export_test, a_fill_value_must_be_representable_in_the_type) {
  const data_type small(type_id::int8);
  const data_type single(type_id::float32);
  constexpr double most = std::numeric_limits<float>::max();
  EXPECT_EQ(filled_bits(ctx_, small, std::int64_t{-128}), 0x80U);
  EXPECT_EQ(filled_bits(ctx_, data_type::bool8(), std::int64_t{1}), 1U);
  EXPECT_EQ(filled_bits(ctx_, single, std::int64_t{1} << 40), 0x53800000U);
  EXPECT_EQ(filled_bits(ctx_, single, most), 0x7f7fffffU);
  EXPECT_EQ(filled_bits(ctx_, single, std::numeric_limits<double>::infinity()), 0x7f800000U);
  EXPECT_EQ(filled_bits(ctx_, data_type(type_id::float64), std::numeric_limits<std::int64_t>::min()),
            0xc3e0000000000000U);
  EXPECT_EQ(filled_bits(ctx_, data_type(type_id::uint64), ~std::uint64_t{0}), ~std::uint64_t{0});
  struct refused {
    data_type type;
    tensor_fill number;
    errc code;
    std::string text;
  };
  for (const refused& one : std::vector<refused>{
           {small, std::int64_t{128}, errc::out_of_range, "fill 128 for a column of type int8"},
           {small, std::int64_t{-129}, errc::out_of_range, "fill -129"},
           {small, 1.0, errc::type_mismatch, "expected an integer"},
           {data_type(type_id::uint64), std::int64_t{-1}, errc::out_of_range, "fill -1"},
           {data_type(type_id::int64), ~std::uint64_t{0}, errc::out_of_range, "fill 18446744073709551615"},
           {data_type::bool8(), std::int64_t{2}, errc::out_of_range, "expected 0 or 1"},
           {single, std::int64_t{16777217}, errc::out_of_range, "exactly"},
           {single, std::int64_t{-16777217}, errc::out_of_range, "exactly"},
           {single, 1e39, errc::out_of_range, "range"},
           {single, -1e39, errc::out_of_range, "range"},
           {data_type(type_id::half_float), 65505.0, errc::out_of_range, "range"},
           {data_type(type_id::half_float), std::int64_t{65536}, errc::out_of_range, "range"}}) {
    dlpack_export how;
    how.nulls = tensor_nulls::fill;
    how.fill = one.number;
    const column source = column::make(ctx_, {one.type, 0, 0, 0, {{}, {}}, {}}); // refused even without rows
    expect_refused(source, how, one.code, one.text);
  }
}

} // namespace
} // namespace saeta
