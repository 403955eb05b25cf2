#include "saeta/base/error.hpp"
#include "saeta/interop/dlpack/types.hpp"

#include <dlpack/dlpack.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace saeta {
namespace {

using ::testing::HasSubstr;

std::vector<std::pair<data_type, tensor_type>> carried_types() {
  return {{data_type(type_id::int8), {kDLInt, 8}},          {data_type(type_id::uint8), {kDLUInt, 8}},
          {data_type(type_id::int16), {kDLInt, 16}},        {data_type(type_id::uint16), {kDLUInt, 16}},
          {data_type(type_id::int32), {kDLInt, 32}},        {data_type(type_id::uint32), {kDLUInt, 32}},
          {data_type(type_id::int64), {kDLInt, 64}},        {data_type(type_id::uint64), {kDLUInt, 64}},
          {data_type(type_id::half_float), {kDLFloat, 16}}, {data_type(type_id::float32), {kDLFloat, 32}},
          {data_type(type_id::float64), {kDLFloat, 64}},    {data_type::byte_bool(), {kDLBool, 8}}};
}

TEST(dlpack_types, numeric_types_and_bool8_convert_both_ways) {
  for (const auto& [column, tensor] : carried_types()) {
    EXPECT_EQ(to_tensor_type(column), tensor) << column.name();
    EXPECT_EQ(from_tensor_type(tensor), column) << column.name();
  }
}

TEST(dlpack_types, narrow_floats_are_bytes_with_an_extension_of_saeta) {
  const std::vector<std::pair<std::string, tensor_type>> carried{
      {"bfloat16", {kDLBfloat, 16}},
      {"float8_e3m4", {kDLFloat8_e3m4, 8}},
      {"float8_e4m3", {kDLFloat8_e4m3, 8}},
      {"float8_e4m3b11fnuz", {kDLFloat8_e4m3b11fnuz, 8}},
      {"float8_e4m3fn", {kDLFloat8_e4m3fn, 8}},
      {"float8_e4m3fnuz", {kDLFloat8_e4m3fnuz, 8}},
      {"float8_e5m2", {kDLFloat8_e5m2, 8}},
      {"float8_e5m2fnuz", {kDLFloat8_e5m2fnuz, 8}},
      {"float8_e8m0fnu", {kDLFloat8_e8m0fnu, 8}}};
  for (const auto& [name, tensor] : carried) {
    const data_type column = from_tensor_type(tensor);
    EXPECT_EQ(column,
              data_type::parse(tensor.bits == 16 ? "w:2" : "w:1").with_extension("saeta." + name, ""));
    EXPECT_EQ(to_tensor_type(column), tensor) << name;
    EXPECT_TRUE(has_tensor_type(column)) << name;
    EXPECT_EQ(narrow_float_type(name), column);
    EXPECT_EQ(narrow_float_type("saeta." + name), column);
    const narrow_float* const narrow = narrow_float_of(column);
    ASSERT_NE(narrow, nullptr);
    EXPECT_EQ(narrow->name(), name);
    EXPECT_EQ(narrow->has_zero, name != "float8_e8m0fnu");
  }
  EXPECT_EQ(narrow_float_type("float16"), std::nullopt);
}

TEST(dlpack_types, bytes_of_another_width_or_name_are_not_narrow_floats) {
  for (const data_type& type :
       {data_type::parse("w:4").with_extension("saeta.bfloat16", ""),
        data_type::parse("w:2").with_extension("saeta.float8_e5m2", ""),
        data_type::parse("w:2").with_extension("shop.bfloat16", ""),
        data_type(type_id::uint16).with_extension("saeta.bfloat16", ""), data_type::parse("w:2")}) {
    EXPECT_FALSE(has_tensor_type(type)) << type.name();
    EXPECT_EQ(narrow_float_of(type), nullptr) << type.name();
  }
}

TEST(dlpack_types, a_type_without_a_tensor_is_refused_with_a_suggestion) {
  const data_type text(type_id::string);
  const data_type indices = data_type::dictionary(data_type(type_id::int32), text);
  const data_type money = data_type(type_id::int64).with_extension("shop.cents", "");
  for (const data_type& type :
       {data_type(type_id::date32), data_type(type_id::date64), data_type::parse("tsu:UTC"),
        data_type::parse("tDn"), data_type::parse("ttu"), data_type::parse("d:10,2"),
        data_type::parse("w:16"), data_type(type_id::boolean), data_type(), text,
        data_type(type_id::large_binary), indices, money}) {
    try {
      static_cast<void>(to_tensor_type(type));
      ADD_FAILURE() << type.name() << " was accepted";
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::exchange) << type.name();
      EXPECT_THAT(e.message(), HasSubstr("type " + type.name() + " "));
      EXPECT_THAT(e.message(), HasSubstr("to_arrow"));
    }
  }
}

TEST(dlpack_types, a_dtype_without_a_column_is_refused_with_its_numbers) {
  const std::vector<tensor_type> refused{
      {kDLInt, 32, 4},        {kDLInt, 32, 0},       {kDLInt, 128},         {kDLInt, 7},
      {kDLFloat, 8},          {kDLFloat, 128},       {kDLBool, 1},          {kDLBool, 8, 2},
      {kDLBfloat, 32},        {kDLComplex, 64},      {kDLOpaqueHandle, 64}, {kDLFloat8_e4m3fn, 8, 2},
      {kDLFloat8_e4m3fn, 16}, {kDLFloat6_e2m3fn, 6}, {kDLFloat4_e2m1fn, 4}, {200, 8}};
  for (const tensor_type type : refused) {
    try {
      static_cast<void>(from_tensor_type(type));
      ADD_FAILURE() << "code " << +type.code << " of " << +type.bits << " bits was accepted";
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::exchange);
      EXPECT_THAT(e.message(), HasSubstr("code " + std::to_string(type.code) + " "));
      EXPECT_THAT(e.message(), HasSubstr(" " + std::to_string(type.bits) + " bits"));
      EXPECT_THAT(e.message(), HasSubstr(" " + std::to_string(type.lanes) + " lanes"));
    }
  }
}

TEST(dlpack_types, a_refused_dtype_is_named) {
  const std::vector<std::pair<int, std::string>> names{{kDLInt, "int"},
                                                       {kDLUInt, "uint"},
                                                       {kDLFloat, "float"},
                                                       {kDLOpaqueHandle, "opaque handle"},
                                                       {kDLBfloat, "bfloat"},
                                                       {kDLComplex, "complex"},
                                                       {kDLBool, "bool"},
                                                       {kDLFloat8_e3m4, "narrow float"},
                                                       {kDLFloat4_e2m1fn, "narrow float"},
                                                       {kDLFloat4_e2m1fn + 1, "unknown"}};
  for (const auto& [code, name] : names) {
    try {
      static_cast<void>(from_tensor_type({static_cast<std::uint8_t>(code), 3}));
      ADD_FAILURE() << name << " of 3 bits was accepted";
    } catch (const error& e) {
      EXPECT_THAT(e.message(),
                  HasSubstr("code " + std::to_string(code) + " (" + name + "), 3 bits and 1 lanes"));
    }
  }
}

TEST(dlpack_types, stream_numbers_mean_what_the_standard_says) {
  EXPECT_EQ(tensor_stream(1), legacy_stream);
  EXPECT_EQ(tensor_stream(2), per_thread_stream);
  EXPECT_EQ(tensor_stream(0x7f00'1234'5678), stream_handle{0x7f00'1234'5678});
  EXPECT_EQ(tensor_stream(-1), std::nullopt);
}

TEST(dlpack_types, stream_0_is_ambiguous_and_other_negatives_mean_nothing) {
  for (const std::int64_t number : {std::int64_t{0}, std::int64_t{-2}, std::int64_t{INT64_MIN}}) {
    try {
      static_cast<void>(tensor_stream(number));
      ADD_FAILURE() << number << " was accepted";
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::invalid_argument);
      EXPECT_THAT(e.message(), HasSubstr("stream " + std::to_string(number) + " is "));
    }
  }
}

TEST(dlpack_types, device_and_memory_kind_convert_to_a_dlpack_device) {
  const device_id gpu{device_kind::cuda, 2};
  EXPECT_EQ(to_tensor_device(gpu, memory_kind::device), (tensor_device{kDLCUDA, 2}));
  EXPECT_EQ(to_tensor_device(gpu, memory_kind::managed), (tensor_device{kDLCUDAManaged, 0}));
  EXPECT_EQ(to_tensor_device(gpu, memory_kind::pinned), (tensor_device{kDLCUDAHost, 0}));
  EXPECT_EQ(to_tensor_device(gpu, memory_kind::host), (tensor_device{kDLCPU, 0}));
  EXPECT_EQ(to_tensor_device({device_kind::sim, 1}, memory_kind::device), (tensor_device{kDLExtDev, 1}));
  for (const memory_kind kind :
       {memory_kind::device, memory_kind::managed, memory_kind::pinned, memory_kind::host}) {
    EXPECT_EQ(kind_of(to_tensor_device(gpu, kind)), kind);
  }
  EXPECT_EQ(kind_of(tensor_device{kDLExtDev, 0}), memory_kind::device);
  EXPECT_EQ(kind_of(tensor_device{kDLROCM, 0}), std::nullopt);
}

TEST(dlpack_types, a_device_is_named_in_messages) {
  EXPECT_EQ(to_string(tensor_device{kDLCPU, 0}), "host");
  EXPECT_EQ(to_string(tensor_device{kDLCUDA, 3}), "cuda:3");
  EXPECT_EQ(to_string(tensor_device{kDLCUDAHost, 0}), "cuda_host:0");
  EXPECT_EQ(to_string(tensor_device{kDLCUDAManaged, 1}), "cuda_managed:1");
  EXPECT_EQ(to_string(tensor_device{kDLROCM, 0}), "unknown:0");
}

} // namespace
} // namespace saeta
