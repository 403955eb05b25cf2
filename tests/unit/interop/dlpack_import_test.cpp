// DLPack imports of host memory: validation, ownership and release, for both structs.
// conformance/interop/dlpack_test.cpp runs on devices.
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/base/error.hpp"
#include "saeta/interop/dlpack/dlpack.hpp"
#include "support/dlpack_tensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace saeta {
namespace {

using ::testing::HasSubstr;

template <class Managed>
class dlpack_import_test : public ::testing::Test {
protected:
  using lent = support::lent_tensor<Managed>;
  static constexpr std::int64_t rows = 8;

  [[nodiscard]] lent sound() { return lent(values_.data(), rows, support::dtype(kDLInt, 32)); }

  /// Expects that an import of a broken tensor fails and does not consume it: the caller can still release
  /// it.
  void expect_refused(lent& tensor, errc code, const std::string& text, const dlpack_import& how = {}) {
    const memory_statistics before = ctx_->reports().statistics();
    try {
      static_cast<void>(import_dlpack(ctx_, tensor.get(), how));
      ADD_FAILURE() << "accepted; expected: " << text;
    } catch (const error& e) {
      EXPECT_EQ(name_of(e.code()), name_of(code)) << e.message();
      EXPECT_THAT(e.message(), HasSubstr(text));
    }
    EXPECT_EQ(tensor.deleted(), 0) << "a failed import consumed the tensor";
    EXPECT_EQ(ctx_->reports().statistics().ledger.buffers, before.ledger.buffers);
    EXPECT_EQ(ctx_->reports().statistics().budget.current, before.budget.current);
    tensor.give_back();
    EXPECT_EQ(tensor.deleted(), 1);
  }

  std::array<std::int32_t, rows> values_{10, 11, 12, 13, 14, 15, 16, 17};
  std::shared_ptr<context> ctx_ = context::create(make_host_backend());
};

using both_structs = ::testing::Types<DLManagedTensor, DLManagedTensorVersioned>;
TYPED_TEST_SUITE(dlpack_import_test, both_structs);

TYPED_TEST(dlpack_import_test, is_a_view_whose_last_column_calls_the_deleter) {
  auto tensor = this->sound();
  {
    const column whole = import_dlpack(this->ctx_, tensor.get());
    EXPECT_EQ(whole.type(), data_type(type_id::int32));
    EXPECT_EQ(whole.length(), 8);
    EXPECT_EQ(whole.offset(), 0);
    EXPECT_EQ(whole.known_null_count(), 0);
    EXPECT_FALSE(whole.validity().present());
    EXPECT_EQ(whole.values().address(), reinterpret_cast<std::uintptr_t>(this->values_.data()));
    EXPECT_EQ(whole.values().size(), sizeof this->values_);
    EXPECT_EQ(whole.values().owner()->tag(), tag("dlpack"));
    const column part = whole.slice(2, 3);
    EXPECT_EQ(tensor.deleted(), 0);
    counter_values expected;
    expected.imports = 1;
    EXPECT_EQ(this->ctx_->copies().read_counters(), expected) << "a view copies and waits for nothing";
  }
  EXPECT_EQ(tensor.deleted(), 1);
  EXPECT_EQ(this->ctx_->reports().statistics().ledger.external, 0U);
}

TYPED_TEST(dlpack_import_test, refuses_each_broken_field_by_name_without_consuming_the_tensor) {
  struct broken {
    std::function<void(DLTensor&)> field;
    errc code;
    std::string text;
  };
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const std::vector<broken> all{
      {[](DLTensor& t) { t.dtype.lanes = 2; }, errc::exchange, "2 lanes"},
      {[](DLTensor& t) { t.dtype.bits = 31; }, errc::exchange, "31 bits"},
      {[](DLTensor& t) { t.dtype.code = kDLComplex; }, errc::exchange, "code 5 (complex)"},
      {[](DLTensor& t) { t.ndim = 0; }, errc::exchange,
       "ndim is 0 and a column has rows: reshape the scalar to (1,)"},
      {[](DLTensor& t) { t.ndim = -1; }, errc::format, "ndim is -1"},
      {[](DLTensor& t) { t.ndim = 65; }, errc::exchange,
       "ndim is 65 and at most 64 dimensions are supported"},
      {[](DLTensor& t) { t.ndim = std::numeric_limits<std::int32_t>::max(); }, errc::exchange, "at most 64"},
      {[](DLTensor& t) { t.shape = nullptr; }, errc::format, "shape is null"},
      {[](DLTensor& t) { t.shape[0] = -3; }, errc::format, "shape[0] is -3"},
      {[](DLTensor& t) { t.shape[0] = most; }, errc::format, "overflows"},
      {[](DLTensor& t) { t.shape[0] = most / 4 + 1; }, errc::format,
       "shape (2305843009213693952) of values of 4 bytes overflows"},
      {[](DLTensor& t) {
         t.shape[0] = most / 4;
         t.byte_offset = std::uint64_t{1} << 63;
       },
       errc::format, "leave the address space"},
      {[](DLTensor& t) { t.strides[0] = most; }, errc::format, "strides (9223372036854775807)"},
      {[](DLTensor& t) { t.strides[0] = most / 4; }, errc::format, "leave the address space"},
      {[](DLTensor& t) { t.strides[0] = -(most / 28); }, errc::format, "leave the address space"},
      {[](DLTensor& t) {
         t.strides[0] = most / 28;
         t.data = reinterpret_cast<void*>(std::uintptr_t{3} << 62);
       },
       errc::format, "leave the address space"},
      {[](DLTensor& t) { t.data = nullptr; }, errc::format, "data is null and shape is (8)"},
      {[](DLTensor& t) { t.byte_offset = 2; }, errc::format,
       "byte_offset 2 is not aligned to its values of 4 bytes"},
      {[](DLTensor& t) { t.byte_offset = std::uint64_t{1} << 63; }, errc::format,
       "byte_offset 9223372036854775808"},
      {[](DLTensor& t) { t.byte_offset = UINT64_MAX - 3; }, errc::format, "byte_offset 18446744073709551612"},
      {[](DLTensor& t) {
         t.device = {kDLCUDA, 1};
       },
       errc::exchange, "device type 2, ordinal 1 (cuda:1)"},
      {[](DLTensor& t) {
         t.device = {kDLROCM, 0};
       },
       errc::exchange, "device type 10, ordinal 0"},
      {[](DLTensor& t) {
         t.device = {static_cast<DLDeviceType>(99), 0};
       },
       errc::exchange, "device type 99"},
  };
  for (const broken& one : all) {
    auto tensor = this->sound();
    one.field(tensor.tensor());
    SCOPED_TRACE(one.text);
    this->expect_refused(tensor, one.code, one.text);
  }
}

TYPED_TEST(dlpack_import_test, a_host_import_has_no_stream) {
  for (const auto& [number, code] :
       {std::pair{std::int64_t{0}, errc::invalid_argument},
        std::pair{std::int64_t{-2}, errc::invalid_argument}, std::pair{std::int64_t{1}, errc::exchange}}) {
    auto tensor = this->sound();
    this->expect_refused(tensor, code, "stream " + std::to_string(number), support::import_after(number));
  }
  EXPECT_EQ(dlpack_import_stream(*this->ctx_), std::nullopt);
  auto tensor = this->sound();
  EXPECT_EQ(import_dlpack(this->ctx_, tensor.get(), support::import_after(-1)).length(), 8);
}

TYPED_TEST(dlpack_import_test, one_element_or_none_has_no_stride) {
  for (const std::int64_t length : {0, 1}) {
    for (const std::int64_t stride : {std::int64_t{77}, std::numeric_limits<std::int64_t>::max()}) {
      auto tensor = this->sound();
      tensor.tensor().shape[0] = length;
      tensor.tensor().strides[0] = stride;
      EXPECT_EQ(import_dlpack(this->ctx_, tensor.get(), support::import_with(copy_policy::never)).length(),
                length);
      EXPECT_EQ(tensor.deleted(), 1);
    }
  }
}

TYPED_TEST(dlpack_import_test, null_strides_are_contiguous) {
  auto tensor = this->sound();
  tensor.tensor().strides = nullptr;
  EXPECT_EQ(import_dlpack(this->ctx_, tensor.get()).length(), 8);
}

TYPED_TEST(dlpack_import_test, no_rows_need_no_data) {
  auto tensor = this->sound();
  tensor.tensor().shape[0] = 0;
  tensor.tensor().data = nullptr;
  tensor.tensor().byte_offset = 3;
  EXPECT_EQ(import_dlpack(this->ctx_, tensor.get()).length(), 0);
  EXPECT_EQ(tensor.deleted(), 1);
}

TYPED_TEST(dlpack_import_test, may_have_as_many_rows_as_int64_allows) {
  auto tensor = this->sound();
  tensor.tensor().dtype = support::dtype(kDLInt, 8);
  tensor.tensor().shape[0] = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(import_dlpack(this->ctx_, tensor.get()).length(), std::numeric_limits<std::int64_t>::max());
}

TYPED_TEST(dlpack_import_test, byte_offset_moves_the_rows) {
  auto tensor = this->sound();
  tensor.tensor().byte_offset = 3 * sizeof(std::int32_t);
  tensor.tensor().shape[0] = 5;
  const column rest = import_dlpack(this->ctx_, tensor.get());
  EXPECT_EQ(rest.values().address(), reinterpret_cast<std::uintptr_t>(&this->values_[3]));
}

TYPED_TEST(dlpack_import_test, host_accessible_memory_of_any_device_is_a_view) {
  for (const DLDevice device : {DLDevice{kDLCPU, 4}, DLDevice{kDLCUDAHost, 0}, DLDevice{kDLCUDAManaged, 0}}) {
    auto tensor = this->sound();
    tensor.tensor().device = device;
    const column view = import_dlpack(this->ctx_, tensor.get(), support::import_with(copy_policy::never));
    EXPECT_EQ(view.values().address(), reinterpret_cast<std::uintptr_t>(this->values_.data()));
  }
}

TYPED_TEST(dlpack_import_test, a_copy_releases_the_tensor_at_once) {
  auto tensor = this->sound();
  const column own = import_dlpack(this->ctx_, tensor.get(), support::import_with(copy_policy::always));
  EXPECT_EQ(tensor.deleted(), 1);
  EXPECT_NE(own.values().address(), reinterpret_cast<std::uintptr_t>(this->values_.data()));
  EXPECT_FALSE(own.values().owner()->external());
  EXPECT_EQ(this->ctx_->reports().statistics().ledger.own, sizeof this->values_);
  EXPECT_EQ(this->ctx_->copies().read_counters().host_to_host, (traffic{1, 1, sizeof this->values_}));
  const auto* const copied = reinterpret_cast<const std::int32_t*>(own.values().address());
  EXPECT_TRUE(std::equal(this->values_.begin(), this->values_.end(), copied));
}

TYPED_TEST(dlpack_import_test, a_copy_that_the_budget_refuses_leaves_the_tensor_with_the_caller) {
  auto tensor = this->sound();
  this->ctx_->memory_budget()->set_limit(16);
  this->expect_refused(tensor, errc::budget_exceeded, "refused 32 bytes",
                       support::import_with(copy_policy::always));
}

TYPED_TEST(dlpack_import_test, a_closed_context_leaves_the_tensor_with_the_caller) {
  auto tensor = this->sound();
  this->ctx_->close();
  this->expect_refused(tensor, errc::closed, "closed");
}

TYPED_TEST(dlpack_import_test, a_tensor_without_a_deleter_is_supported) {
  auto tensor = this->sound();
  tensor.get()->deleter = nullptr;
  EXPECT_EQ(import_dlpack(this->ctx_, tensor.get()).length(), 8);
  EXPECT_EQ(tensor.deleted(), 0);
}

TYPED_TEST(dlpack_import_test, a_strided_tensor_is_copied_and_released) {
  for (const auto& [first, stride, length] : {std::tuple{0, 2, 4}, std::tuple{7, -1, 8}, std::tuple{6, -3, 3},
                                              std::tuple{5, 0, 4}, std::tuple{1, 1, 1}}) {
    SCOPED_TRACE(::testing::Message() << length << " rows with stride " << stride);
    auto tensor = this->sound();
    tensor.tensor().byte_offset = static_cast<std::uint64_t>(first) * sizeof(std::int32_t);
    tensor.tensor().shape[0] = length;
    tensor.tensor().strides[0] = stride;
    const column own = import_dlpack(this->ctx_, tensor.get());
    const bool view = length == 1;
    EXPECT_EQ(tensor.deleted(), view ? 0 : 1);
    EXPECT_EQ(own.values().owner()->external(), view);
    ASSERT_EQ(own.length(), length);
    const auto* const values = reinterpret_cast<const std::int32_t*>(own.values().address());
    for (int i = 0; i < length; ++i) {
      EXPECT_EQ(values[i], this->values_[static_cast<std::size_t>(first + i * stride)]);
    }
  }
}

TYPED_TEST(dlpack_import_test, a_strided_tensor_is_refused_if_copies_are_forbidden) {
  for (const std::int64_t stride : {2, 0, -1}) {
    auto tensor = this->sound();
    tensor.tensor().shape[0] = 2;
    tensor.tensor().strides[0] = stride;
    tensor.tensor().byte_offset = 4;
    this->expect_refused(tensor, errc::exchange,
                         "strides (" + std::to_string(stride) +
                             ") of shape (2) are not those of contiguous values, and a copy was forbidden",
                         support::import_with(copy_policy::never));
  }
}

TYPED_TEST(dlpack_import_test, a_strided_tensor_that_the_budget_refuses_stays_with_the_caller) {
  auto tensor = this->sound();
  tensor.tensor().shape[0] = std::int64_t{1} << 40;
  tensor.tensor().strides[0] = 0;
  this->ctx_->memory_budget()->set_limit(16);
  this->expect_refused(tensor, errc::budget_exceeded, "refused 4398046511104 bytes");
}

TYPED_TEST(dlpack_import_test, a_view_of_bools_keeps_their_bytes_and_a_copy_has_0_and_1) {
  std::array<std::uint8_t, 5> bytes{0, 1, 255, 2, 0};
  for (const copy_policy in_place : {copy_policy::when_needed, copy_policy::never}) {
    typename TestFixture::lent tensor(bytes.data(), 5, support::dtype(kDLBool, 8));
    const column flags = import_dlpack(this->ctx_, tensor.get(), support::import_with(in_place));
    EXPECT_EQ(flags.type(), data_type::byte_bool());
    EXPECT_EQ(flags.values().address(), reinterpret_cast<std::uintptr_t>(bytes.data()));
  }
  const auto content = [](const column& flags) {
    EXPECT_EQ(flags.type(), data_type::byte_bool());
    const auto* const first = reinterpret_cast<const std::uint8_t*>(flags.values().address());
    return std::vector<std::uint8_t>(first, first + flags.length());
  };
  typename TestFixture::lent whole(bytes.data(), 5, support::dtype(kDLBool, 8));
  const column copied = import_dlpack(this->ctx_, whole.get(), support::import_with(copy_policy::always));
  EXPECT_EQ(content(copied), (std::vector<std::uint8_t>{0, 1, 1, 1, 0}));
  typename TestFixture::lent strided(bytes.data(), 3, support::dtype(kDLBool, 8));
  strided.tensor().strides[0] = 2;
  EXPECT_EQ(content(import_dlpack(this->ctx_, strided.get())), (std::vector<std::uint8_t>{0, 1, 0}));
  EXPECT_EQ(bytes[2], 255) << "the memory of others";
}

TYPED_TEST(dlpack_import_test, a_tensor_with_a_keepalive_stays_the_callers) {
  std::array<std::int64_t, 4> numbers{1, 2, 3, 4};
  support::lent_tensor<TypeParam> tensor(numbers.data(), 4, support::dtype(kDLInt, 64));
  auto keepalive = std::make_shared<int>(0);
  const std::weak_ptr<int> kept = keepalive;
  {
    const column taken = import_dlpack(this->ctx_, *tensor.get(), std::move(keepalive));
    keepalive.reset();
    EXPECT_EQ(taken.length(), 4);
    EXPECT_FALSE(kept.expired());
  }
  this->ctx_->wait_for_releases(std::chrono::seconds(5));
  EXPECT_TRUE(kept.expired());
  EXPECT_EQ(tensor.deleted(), 0);
}

TYPED_TEST(dlpack_import_test, a_null_tensor_is_an_error) {
  EXPECT_THROW(static_cast<void>(import_dlpack(this->ctx_, support::held_tensor<TypeParam>())), error);
}

class dlpack_import_versioned : public dlpack_import_test<DLManagedTensorVersioned> {};

TEST_F(dlpack_import_versioned, the_read_only_flag_is_kept) {
  auto locked = sound();
  locked.get()->flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  EXPECT_FALSE(import_dlpack(ctx_, locked.get()).values().owner()->writable());
  auto open = sound();
  open.get()->flags = DLPACK_FLAG_BITMASK_IS_COPIED;
  EXPECT_TRUE(import_dlpack(ctx_, open.get()).values().owner()->writable());
}

TEST_F(dlpack_import_versioned, a_copy_of_read_only_memory_is_writable) {
  auto locked = sound();
  locked.get()->flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  EXPECT_TRUE(import_dlpack(ctx_, locked.get(), support::import_with(copy_policy::always))
                  .values()
                  .owner()
                  ->writable());
}

TEST_F(dlpack_import_versioned, another_major_version_is_refused_and_only_its_deleter_is_used) {
  for (const std::uint32_t major : {0U, 2U}) {
    auto tensor = sound();
    tensor.get()->version = {major, 7};
    tensor.tensor().shape = nullptr; // unknown layout: must not be read
    expect_refused(tensor, errc::exchange, "version is " + std::to_string(major) + ".7");
  }
}

TEST_F(dlpack_import_versioned, a_newer_minor_version_is_read) {
  auto tensor = sound();
  tensor.get()->version.minor = 99;
  EXPECT_EQ(import_dlpack(ctx_, tensor.get()).length(), 8);
}

} // namespace
} // namespace saeta
