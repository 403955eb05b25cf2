// DLPack exchange on every backend: fields of the structs, ownership of memory, and number of copies.
#include "conformance/harness/context_test.hpp"
#include "saeta/base/error.hpp"
#include "saeta/interop/dlpack/dlpack.hpp"
#include "saeta/interop/dlpack/types.hpp"
#include "support/dlpack_tensors.hpp"
#include "support/faulty_backend.hpp"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <thread>

namespace saeta::conformance {
namespace {

using support::held_tensor;
using legacy = held_tensor<DLManagedTensor>;
using versioned = held_tensor<DLManagedTensorVersioned>;

std::vector<std::uint8_t> counting(std::size_t count) {
  std::vector<std::uint8_t> made(count);
  std::iota(made.begin(), made.end(), std::uint8_t{1});
  return made;
}

class dlpack : public context_test {
protected:
  [[nodiscard]] copy_kind from_host() const {
    return ctx()->on_host() ? copy_kind::host_to_host : copy_kind::host_to_device;
  }
  /// Makes a column whose buffer has the bytes 1, 2, 3, ..., and resets the counters.
  [[nodiscard]] column numbers(const data_type& type, std::int64_t rows) const {
    const auto width = static_cast<std::size_t>(std::max(type.byte_width(), 1));
    const auto content = counting(static_cast<std::size_t>(rows) * width);
    const stream_ref work = ctx()->work_stream();
    const buffer values = make(content.size());
    use_token token(work, {writes(values)});
    ctx()->copies().copy(token.span<std::uint8_t>(values).data(), content.data(), content.size(), from_host(),
                         work);
    token.finish();
    ctx()->synchronize(work);
    ctx()->copies().reset_counters();
    return column::make(ctx(), {type, rows, 0, 0, {{}, values}, {}});
  }
  /// Returns options for an export to a consumer on the context's own stream.
  [[nodiscard]] dlpack_export here(copy_policy copy = copy_policy::when_needed) const {
    return {dlpack_import_stream(*ctx()), std::nullopt, copy};
  }
  /// Returns options for an import from a producer on the context's own stream.
  [[nodiscard]] dlpack_import ordered(copy_policy copy = copy_policy::when_needed) const {
    return {dlpack_import_stream(*ctx()), copy};
  }
  /// Reads the bytes of a tensor on the context's own stream.
  [[nodiscard]] std::vector<std::uint8_t> seen(const DLTensor& tensor) const {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(tensor.shape[0]) * tensor.dtype.bits / 8);
    const stream_handle work = ctx()->work_stream().native_handle();
    device().copy(bytes.data(), tensor.data, bytes.size(), to_host(), work);
    device().synchronize_stream(work);
    return bytes;
  }
  /// Returns the counter of copies within the device.
  [[nodiscard]] traffic copies() const {
    const counter_values now = ctx()->copies().read_counters();
    return ctx()->on_host() ? now.host_to_host : now.device_to_device;
  }
  void expect_header(const DLTensor& tensor, const column& source) const {
    const tensor_type type = to_tensor_type(source.type());
    const auto skipped = static_cast<std::uintptr_t>(source.offset() * source.type().byte_width());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data), source.values().address() + skipped);
    EXPECT_EQ(tensor.byte_offset, 0U);
    EXPECT_EQ(static_cast<std::int32_t>(tensor.device.device_type),
              static_cast<std::int32_t>(ctx()->device().kind));
    EXPECT_EQ(tensor.device.device_id, ctx()->device().ordinal);
    EXPECT_EQ(tensor.ndim, 1);
    EXPECT_EQ(tensor.dtype.code, type.code);
    EXPECT_EQ(tensor.dtype.bits, type.bits);
    EXPECT_EQ(tensor.dtype.lanes, 1);
    EXPECT_EQ(tensor.shape[0], source.length());
    ASSERT_NE(tensor.strides, nullptr);
    EXPECT_EQ(tensor.strides[0], 1);
  }
};

TEST_P(dlpack, the_header_of_every_type_and_slice_is_exact_in_both_structs) {
  for (const type_id id : {type_id::int8, type_id::uint8, type_id::int16, type_id::uint16, type_id::int32,
                           type_id::uint32, type_id::int64, type_id::uint64, type_id::half_float,
                           type_id::float32, type_id::float64, type_id::null}) {
    const data_type type = id == type_id::null ? data_type::bool8() : data_type(id);
    SCOPED_TRACE(type.name());
    const column whole = numbers(type, 9);
    for (const column& source : {whole, whole.slice(3, 4)}) {
      const versioned tensor(export_dlpack(source, here()));
      EXPECT_EQ(tensor->version.major, 1U);
      EXPECT_EQ(tensor->version.minor, static_cast<std::uint32_t>(DLPACK_MINOR_VERSION));
      EXPECT_EQ(tensor->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
      expect_header(tensor->dl_tensor, source);
      const legacy old(export_dlpack_legacy(source, here()));
      expect_header(old->dl_tensor, source);
    }
  }
}

TEST_P(dlpack, a_round_trip_shares_memory_and_ordering_without_an_import) {
  const column source = numbers(data_type(type_id::float64), 100).slice(10, 50);
  const memory_statistics before = ctx()->reports().statistics();
  dlpack_tensor tensor = export_dlpack(source, here());
  {
    const column back = import_dlpack(ctx(), std::move(tensor), ordered(copy_policy::never));
    EXPECT_EQ(back.type(), source.type());
    EXPECT_EQ(back.length(), 50);
    EXPECT_EQ(back.values().address(), source.values().address() + 10 * sizeof(double));
    EXPECT_EQ(back.values().owner(), source.values().owner()) << "the storage is one, and so is its order";
    EXPECT_EQ(ctx()->reports().statistics().ledger.external, 0U);
    EXPECT_EQ(ctx()->reports().statistics().ledger.buffers, before.ledger.buffers);
    EXPECT_EQ(ctx()->reports().statistics().budget.current, before.budget.current);
  }
  EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
  counter_values expected;
  expected.exports = 1;
  EXPECT_EQ(ctx()->copies().read_counters(), expected) << "nothing is copied, taken in or waited for";
}

TEST_P(dlpack, a_reimported_column_outlives_its_source) {
  std::optional<column> source(numbers(data_type(type_id::int32), 64));
  dlpack_legacy_tensor tensor = export_dlpack_legacy(source->slice(4, 8), here());
  source.reset();
  const column back = import_dlpack(ctx(), std::move(tensor), ordered());
  EXPECT_FALSE(back.values().owner()->external());
  const auto all = counting(256);
  EXPECT_EQ(read(back.values()), std::vector<std::uint8_t>(all.begin() + 16, all.begin() + 48));
}

TEST_P(dlpack, a_reimported_copy_keeps_its_storage) {
  const column source = numbers(data_type(type_id::int32), 16);
  const column back = import_dlpack(ctx(), export_dlpack(source, here(copy_policy::always)), ordered());
  EXPECT_FALSE(back.values().owner()->external());
  EXPECT_NE(back.values().owner(), source.values().owner());
  EXPECT_EQ(read(back.values()), counting(64));
}

TEST_P(dlpack, a_reimported_slice_of_a_tensor_has_its_rows) {
  const column source = numbers(data_type(type_id::uint8), 32);
  dlpack_tensor tensor = export_dlpack(source, here());
  tensor->dl_tensor.byte_offset = 3;
  tensor->dl_tensor.shape[0] = 5;
  const column part = import_dlpack(ctx(), std::move(tensor), ordered());
  EXPECT_EQ(part.values().owner(), source.values().owner());
  EXPECT_EQ(read(part.values()), (std::vector<std::uint8_t>{4, 5, 6, 7, 8}));
}

TEST_P(dlpack, a_tensor_can_be_allocated_under_the_budget) {
  const std::uint64_t before = ctx()->reports().statistics().budget.current;
  const std::array<std::int64_t, 2> shape{3, 5};
  versioned tensor(allocate_dlpack(ctx(), to_tensor_type(data_type(type_id::int16)), shape));
  EXPECT_EQ(ctx()->reports().statistics().budget.current, before + 30);
  EXPECT_EQ(tensor->flags, 0U);
  EXPECT_EQ(tensor->dl_tensor.ndim, 2);
  EXPECT_EQ(tensor->dl_tensor.shape[1], 5);
  EXPECT_EQ(tensor->dl_tensor.strides[0], 5);
  EXPECT_EQ(static_cast<std::int32_t>(tensor->dl_tensor.device.device_type),
            static_cast<std::int32_t>(ctx()->device().kind));
  const stream_handle work = ctx()->work_stream().native_handle();
  device().fill(tensor->dl_tensor.data, 0, 30, work);
  const column taken = import_dlpack(ctx(), std::move(tensor), ordered());
  EXPECT_TRUE(taken.child(0).values().owner()->writable());
  EXPECT_EQ(read(taken.child(0).values()), std::vector<std::uint8_t>(30, 0));
  EXPECT_EQ(ctx()->reports().statistics().budget.current, before + 30) << "counted once";
  const std::array<std::int64_t, 2> negative{3, -1};
  EXPECT_THROW(static_cast<void>(allocate_dlpack(ctx(), {}, negative)), error);
  const std::array<std::int64_t, 2> endless{std::int64_t{1} << 62, 64};
  EXPECT_THROW(static_cast<void>(allocate_dlpack(ctx(), {0, 64, 1}, endless)), error);
}

TEST_P(dlpack, read_only_memory_stays_read_only) {
  const column source = numbers(data_type(type_id::int64), 10);
  support::lent_tensor<DLManagedTensorVersioned> lent(
      reinterpret_cast<void*>(source.values().address()), 10, support::dtype(kDLInt, 64),
      {static_cast<DLDeviceType>(ctx()->device().kind), ctx()->device().ordinal});
  lent.get()->flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  const column taken = import_dlpack(ctx(), lent.get(), ordered());
  EXPECT_TRUE(taken.values().owner()->external());
  EXPECT_FALSE(taken.values().owner()->writable());
  EXPECT_THROW(use_token(ctx()->work_stream(), {writes(taken.values())}), error);
}

TEST_P(dlpack, a_legacy_round_trip_has_the_same_bytes) {
  const column source = numbers(data_type(type_id::int32), 16);
  const column back = import_dlpack(ctx(), export_dlpack_legacy(source, here()), ordered());
  EXPECT_EQ(read(back.values()), counting(64));
}

TEST_P(dlpack, the_deleter_runs_on_another_thread_after_the_column_is_gone) {
  std::optional<column> source(numbers(data_type(type_id::int64), 1000));
  versioned tensor(export_dlpack(*source, here()));
  source.reset();
  EXPECT_EQ(ctx()->reports().statistics().budget.current, 8000U);
  EXPECT_EQ(seen(tensor->dl_tensor), counting(8000));
  std::thread([taken = std::move(tensor)]() mutable { taken.reset(); }).join();
  EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
  EXPECT_EQ(ctx()->reports().statistics().budget.current, 0U);
}

TEST_P(dlpack, the_deleter_runs_after_the_last_user_of_the_context_is_gone) {
  const std::weak_ptr<context> alive = context_->weak_from_this();
  versioned tensor(export_dlpack(numbers(data_type(type_id::int8), 64), here()));
  context_->work_stream().owner().synchronize_stream(context_->work_stream().native_handle());
  context_.reset();
  EXPECT_FALSE(alive.expired()) << "the tensor keeps its context";
  tensor.reset();
  EXPECT_TRUE(alive.expired());
}

TEST_P(dlpack, a_copy_is_the_consumers_own_and_counted_as_a_copy) {
  const column source = numbers(data_type(type_id::int16), 40).slice(4, 20);
  const versioned tensor(export_dlpack(source, here(copy_policy::always)));
  EXPECT_EQ(tensor->flags, DLPACK_FLAG_BITMASK_IS_COPIED);
  EXPECT_NE(reinterpret_cast<std::uintptr_t>(tensor->dl_tensor.data), source.values().address() + 8);
  EXPECT_EQ(copies(), (traffic{1, 1, 40}));
  EXPECT_EQ(ctx()->copies().read_counters().exports, 0U);
  const auto before = counting(80);
  EXPECT_EQ(seen(tensor->dl_tensor), std::vector(before.begin() + 8, before.begin() + 48));
  // The consumer may write to it without changing the column.
  const stream_handle work = ctx()->work_stream().native_handle();
  device().fill(tensor->dl_tensor.data, 0, 40, work);
  EXPECT_EQ(seen(tensor->dl_tensor), std::vector<std::uint8_t>(40, 0));
  EXPECT_EQ(read(source.values()), before);
}

TEST_P(dlpack, bits_are_expanded_by_one_kernel) {
  const column bits = column::make(
      ctx(),
      {data_type(type_id::boolean), 16, 0, 0, {{}, numbers(data_type(type_id::uint8), 2).values()}, {}});
  const versioned tensor(export_dlpack(bits.slice(1, 10), here()));
  EXPECT_EQ(tensor->flags, DLPACK_FLAG_BITMASK_IS_COPIED);
  EXPECT_EQ(tensor->dl_tensor.dtype.code, kDLBool);
  EXPECT_EQ(seen(tensor->dl_tensor), (std::vector<std::uint8_t>{0, 0, 0, 0, 0, 0, 0, 0, 1, 0}));
  EXPECT_EQ(ctx()->copies().read_counters().device_to_host, traffic{});
  EXPECT_THROW(static_cast<void>(export_dlpack(bits, here(copy_policy::never))), error);
}

TEST_P(dlpack, a_tensor_for_the_host_is_one_download_or_the_memory_itself) {
  const column source = numbers(data_type(type_id::uint32), 32).slice(1, 30);
  const versioned none(export_dlpack(source.slice(3, 0), support::export_to({kDLCPU, 0})));
  EXPECT_EQ(none->dl_tensor.data, nullptr);
  EXPECT_EQ(none->dl_tensor.shape[0], 0);
  ctx()->copies().reset_counters();
  const versioned tensor(export_dlpack(source, support::export_to({kDLCPU, 0})));
  EXPECT_EQ(tensor->dl_tensor.device.device_type, kDLCPU);
  EXPECT_EQ(tensor->dl_tensor.device.device_id, 0);
  const auto* const bytes = static_cast<const std::uint8_t*>(tensor->dl_tensor.data);
  const auto all = counting(128);
  EXPECT_TRUE(std::equal(all.begin() + 4, all.begin() + 124, bytes));
  const counter_values now = ctx()->copies().read_counters();
  const bool view = ctx()->on_host();
  EXPECT_EQ(tensor->flags, view ? DLPACK_FLAG_BITMASK_READ_ONLY : DLPACK_FLAG_BITMASK_IS_COPIED);
  EXPECT_EQ(now.exports, view ? 1U : 0U);
  EXPECT_EQ(now.device_to_host.transfers, view ? 0U : 1U);
  EXPECT_EQ(now.device_to_host.bytes, view ? 0U : 120U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bytes) == source.values().address() + 4, view);
  const dlpack_export forbidden{std::nullopt, tensor_device{kDLCPU, 0}, copy_policy::never};
  if (view) {
    EXPECT_NO_THROW(versioned(export_dlpack(source, forbidden)));
  } else {
    EXPECT_THROW(static_cast<void>(export_dlpack(source, forbidden)), error);
  }
  const dlpack_export streamed{1, tensor_device{kDLCPU, 0}, copy_policy::when_needed};
  EXPECT_THROW(static_cast<void>(export_dlpack(source, streamed)), error);
}

TEST_P(dlpack, a_tensor_in_host_memory_is_one_upload_or_a_view) {
  auto content = counting(400);
  support::lent_tensor<DLManagedTensor> lent(content.data(), 100, support::dtype(kDLFloat, 32));
  if (!ctx()->on_host()) {
    EXPECT_THROW(
        static_cast<void>(import_dlpack(ctx(), lent.get(), support::import_with(copy_policy::never))), error);
    EXPECT_EQ(lent.deleted(), 0);
  }
  ctx()->copies().reset_counters();
  const column taken = import_dlpack(ctx(), lent.get());
  EXPECT_EQ(lent.deleted(), ctx()->on_host() ? 0 : 1) << "a copied tensor is released at once";
  EXPECT_EQ(ctx()->copies().read_counters().host_to_device.transfers, ctx()->on_host() ? 0U : 1U);
  EXPECT_EQ(ctx()->copies().read_counters().imports, ctx()->on_host() ? 1U : 0U);
  EXPECT_EQ(read(taken.values()), content);
}

TEST_P(dlpack, a_copying_import_of_device_memory_releases_the_tensor) {
  const column source = numbers(data_type(type_id::int64), 10);
  support::lent_tensor<DLManagedTensorVersioned> lent(
      reinterpret_cast<void*>(source.values().address()), 10, support::dtype(kDLInt, 64),
      {static_cast<DLDeviceType>(ctx()->device().kind), ctx()->device().ordinal});
  lent.get()->flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  const column own = import_dlpack(ctx(), lent.get(), ordered(copy_policy::always));
  EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
  EXPECT_EQ(lent.deleted(), 1);
  EXPECT_TRUE(own.values().owner()->writable());
  EXPECT_EQ(copies(), (traffic{1, 1, 80}));
  EXPECT_EQ(read(own.values()), counting(80));
}

TEST_P(dlpack, a_strided_tensor_on_the_device_takes_one_kernel) {
  const column source = numbers(data_type(type_id::int32), 100);
  support::lent_tensor<DLManagedTensorVersioned> lent(
      reinterpret_cast<void*>(source.values().address() + 8), 30, support::dtype(kDLInt, 32),
      {static_cast<DLDeviceType>(ctx()->device().kind), ctx()->device().ordinal});
  lent.tensor().strides[0] = 3;
  EXPECT_THROW(static_cast<void>(import_dlpack(ctx(), lent.get(), ordered(copy_policy::never))), error);
  EXPECT_EQ(lent.deleted(), 0);
  const column own = import_dlpack(ctx(), lent.get(), ordered());
  EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
  EXPECT_EQ(lent.deleted(), 1);
  EXPECT_EQ(copies(), traffic{}) << "a kernel is not a transfer";
  const auto content = read(own.values());
  const auto all = counting(400);
  ASSERT_EQ(content.size(), 120U);
  for (std::size_t i = 0; i < content.size(); ++i) {
    ASSERT_EQ(content[i], all[8 + i / 4 * 12 + i % 4]) << i;
  }
}

TEST_P(dlpack, a_strided_tensor_in_host_memory_uploads_only_its_values) {
  auto content = counting(256);
  support::lent_tensor<DLManagedTensor> lent(content.data() + 254, 64, support::dtype(kDLInt, 16));
  lent.tensor().strides[0] = -2;
  const column taken = import_dlpack(ctx(), lent.get());
  EXPECT_EQ(lent.deleted(), 1);
  EXPECT_EQ(ctx()->copies().read_counters().host_to_device,
            ctx()->on_host() ? traffic{} : (traffic{1, 1, 128}));
  const auto seen = read(taken.values());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    ASSERT_EQ(seen[i], content[254 - i / 2 * 4 + i % 2]) << i;
  }
}

TEST_P(dlpack, a_broadcast_value_is_uploaded_once_and_its_rows_are_charged) {
  std::int32_t value = 77;
  support::lent_tensor<DLManagedTensor> lent(&value, 1000, support::dtype(kDLInt, 32));
  lent.tensor().strides[0] = 0;
  const column taken = import_dlpack(ctx(), lent.get());
  EXPECT_LE(ctx()->copies().read_counters().host_to_device.bytes, 64U);
  const auto seen = read(taken.values());
  ASSERT_EQ(seen.size(), 4000U);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    ASSERT_EQ(seen[i], i % 4 == 0 ? 77 : 0) << i;
  }
  support::lent_tensor<DLManagedTensor> endless(&value, std::int64_t{1} << 50, support::dtype(kDLInt, 32));
  endless.tensor().strides[0] = 0;
  try {
    static_cast<void>(import_dlpack(ctx(), endless.get()));
    FAIL() << "a petabyte fits no budget";
  } catch (const error& seen_error) {
    EXPECT_EQ(seen_error.code(), errc::budget_exceeded);
  }
  EXPECT_EQ(endless.deleted(), 0);
}

TEST_P(dlpack, bools_are_0_and_1_after_an_upload) {
  std::vector<std::uint8_t> content{0, 1, 255, 2, 0, 128};
  support::lent_tensor<DLManagedTensor> lent(content.data(), 6, support::dtype(kDLBool, 8));
  const column taken = import_dlpack(ctx(), lent.get(), support::import_with(copy_policy::always));
  EXPECT_EQ(taken.type(), data_type::byte_bool());
  auto seen = read(taken.values());
  seen.resize(6); // without padding
  EXPECT_EQ(seen, (std::vector<std::uint8_t>{0, 1, 1, 1, 0, 1}));
}

TEST_P(dlpack, a_copy_that_the_budget_refuses_reads_nothing) {
  const column source = numbers(data_type(type_id::int8), 1 << 16);
  support::lent_tensor<DLManagedTensorVersioned> lent(
      reinterpret_cast<void*>(source.values().address()), 1 << 16, support::dtype(kDLBool, 8),
      {static_cast<DLDeviceType>(ctx()->device().kind), ctx()->device().ordinal});
  ctx()->memory_budget()->set_limit(ctx()->reports().statistics().budget.current + (1 << 16) + 64);
  EXPECT_THROW(static_cast<void>(import_dlpack(ctx(), lent.get(), ordered(copy_policy::always))), error)
      << "bools need an eighth more to become 0 and 1";
  EXPECT_EQ(copies(), traffic{}) << "a read of memory that stays with the caller";
  EXPECT_EQ(lent.deleted(), 0);
}

TEST_P(dlpack, cuda_host_and_managed_memory_is_refused_by_other_devices) {
  if (ctx()->on_host() || ctx()->device().kind == device_kind::cuda) {
    GTEST_SKIP() << "the host can load it, and a GPU of CUDA can, too";
  }
  for (const DLDeviceType lender : {kDLCUDAHost, kDLCUDAManaged}) {
    support::lent_tensor<DLManagedTensor> lent(&context_, 1, support::dtype(kDLInt, 64), {lender, 0});
    EXPECT_THROW(static_cast<void>(import_dlpack(ctx(), lent.get())), error);
    EXPECT_EQ(lent.deleted(), 0);
  }
}

TEST_P(dlpack, a_gpu_views_managed_memory_and_copies_page_locked_memory) {
  if (GetParam().name != "sim") {
    GTEST_SKIP() << "needs a device without CUDA that passes for one with it";
  }
  const auto passing = std::make_shared<saeta::testing::faulty_backend>(shared_device());
  passing->pass_for({device_kind::cuda, 0});
  const auto gpu = watch(context::create(passing));
  auto content = counting(64);
  for (const DLDeviceType lender : {kDLCPU, kDLCUDAHost, kDLCUDAManaged}) {
    SCOPED_TRACE(lender);
    support::lent_tensor<DLManagedTensor> lent(content.data(), 64, support::dtype(kDLUInt, 8), {lender, 0});
    const column taken = import_dlpack(gpu, lent.get(), support::import_after(-1));
    const bool view = lender == kDLCUDAManaged;
    EXPECT_EQ(taken.values().owner()->external(), view);
    EXPECT_EQ(lent.deleted(), view ? 0 : 1);
    support::lent_tensor<DLManagedTensor> fixed(content.data(), 64, support::dtype(kDLUInt, 8), {lender, 0});
    const dlpack_import in_place{-1, copy_policy::never};
    if (view) {
      EXPECT_NO_THROW(static_cast<void>(import_dlpack(gpu, fixed.get(), in_place)));
    } else {
      EXPECT_THROW(static_cast<void>(import_dlpack(gpu, fixed.get(), in_place)), error);
    }
  }
}

TEST_P(dlpack, an_empty_host_tensor_has_an_empty_buffer) {
  support::lent_tensor<DLManagedTensor> lent(nullptr, 0, support::dtype(kDLFloat, 32));
  const column taken = import_dlpack(ctx(), lent.get());
  EXPECT_EQ(taken.length(), 0);
  EXPECT_EQ(taken.values().size(), 0U);
  EXPECT_EQ(ctx()->copies().read_counters().host_to_device.transfers, 0U);
}

TEST_P(dlpack, a_tensor_of_another_device_is_refused) {
  support::lent_tensor<DLManagedTensor> lent(&context_, 1, support::dtype(kDLInt, 64), {kDLCUDA, 77});
  EXPECT_THROW(static_cast<void>(import_dlpack(ctx(), lent.get())), error);
  EXPECT_EQ(lent.deleted(), 0);
}

TEST_P(dlpack, a_million_exchanges_leak_nothing) {
  const column source = numbers(data_type(type_id::float32), 256);
  support::lent_tensor<DLManagedTensorVersioned> lent(
      reinterpret_cast<void*>(source.values().address()), 256, support::dtype(kDLFloat, 32),
      {static_cast<DLDeviceType>(ctx()->device().kind), ctx()->device().ordinal});
  const memory_statistics before = ctx()->reports().statistics();
  const int rounds = ctx()->on_host() ? 500'000 : 50'000; // two exchanges each; devices are slower
  for (int i = 0; i < rounds; ++i) {
    const column back = import_dlpack(ctx(), export_dlpack(source, here()), ordered());
    ASSERT_EQ(back.values().address(), source.values().address());
    const column foreign = import_dlpack(ctx(), lent.get(), ordered());
    ASSERT_EQ(foreign.values().address(), source.values().address());
  }
  EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(60)));
  EXPECT_EQ(lent.deleted(), rounds);
  const memory_statistics after = ctx()->reports().statistics();
  EXPECT_EQ(after.budget.current, before.budget.current);
  EXPECT_EQ(after.budget.peak, before.budget.peak);
  EXPECT_EQ(after.ledger.buffers, before.ledger.buffers);
  EXPECT_EQ(after.ledger.external, 0U);
  EXPECT_EQ(after.pending_releases, 0U);
  EXPECT_EQ(ctx()->copies().read_counters().exports, static_cast<std::uint64_t>(rounds));
  EXPECT_LE(source.values().owner()->ordering().find_dependencies(access::write, "source").points.size(),
            ordering_state::max_reads + 1);
}

SAETA_CONFORMANCE_SUITE(dlpack);

} // namespace
} // namespace saeta::conformance
