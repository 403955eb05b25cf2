// The memory kind of buffers, and its consequences for exports.
#include "conformance/harness/context_test.hpp"
#include "saeta/interop/arrow/c_data.hpp"
#include "saeta/interop/arrow/owned.hpp"
#include "saeta/interop/dlpack/dlpack.hpp"
#include "support/dlpack_tensors.hpp"

#include <dlpack/dlpack.h>

#include <numeric>

namespace saeta::conformance {
namespace {

class memory_kinds : public context_test {
protected:
  static constexpr std::size_t rows = 64;

  void SetUp() override {
    context_test::SetUp();
    pinned_ = ctx()->pinned().allocate(rows, 0, ctx()->work_stream());
    auto* const first = static_cast<std::uint8_t*>(pinned_.pointer);
    std::iota(first, first + rows, std::uint8_t{0});
  }
  void TearDown() override {
    EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
    EXPECT_TRUE(ctx()->pinned().deallocate(pinned_, ctx()->work_stream()));
    context_test::TearDown();
  }

  [[nodiscard]] memory_kind pinned_kind() const {
    return ctx()->on_host() ? memory_kind::host : memory_kind::pinned;
  }
  [[nodiscard]] buffer adopted(std::optional<memory_kind> kind = std::nullopt) const {
    external_memory lent;
    lent.pointer = pinned_.pointer;
    lent.bytes = rows;
    lent.device = ctx()->device();
    lent.kind = kind;
    lent.access = mutability::writable;
    lent.tag = "lent";
    return buffer::adopt(ctx(), std::move(lent));
  }
  [[nodiscard]] column page_locked_column() const {
    return column::make(ctx(), {data_type(type_id::uint8), rows, 0, 0, {{}, adopted()}, {}});
  }
  [[nodiscard]] std::vector<std::uint8_t> content() const {
    const auto* const first = static_cast<const std::uint8_t*>(pinned_.pointer);
    return {first, first + rows};
  }

  block pinned_;
};

TEST_P(memory_kinds, own_memory_has_the_kind_of_its_resource) {
  EXPECT_EQ(make(100).kind(), ctx()->on_host() ? memory_kind::host : memory_kind::device);
  EXPECT_EQ(make(0).kind(), make(100).kind());
  EXPECT_EQ(make(100).slice(10, 20).kind(), make(100).kind());
  EXPECT_EQ(pinned_.kind, pinned_kind());
  EXPECT_EQ(buffer().kind(), memory_kind::host);
}

TEST_P(memory_kinds, external_memory_of_unknown_kind_is_queried_from_the_driver) {
  EXPECT_EQ(adopted().kind(), pinned_kind());
  EXPECT_EQ(adopted(memory_kind::managed).kind(), memory_kind::managed) << "what he says is not asked";
  const buffer own = make(100);
  external_memory lent;
  lent.pointer = reinterpret_cast<void*>(own.address());
  lent.bytes = 100;
  lent.device = ctx()->device();
  EXPECT_EQ(buffer::adopt(ctx(), lent).kind(), own.kind());
  EXPECT_EQ(buffer::adopt(ctx(), {}).kind(), own.kind()) << "of no bytes there is nothing to ask";
}

TEST_P(memory_kinds, an_imported_tensor_has_the_kind_that_the_driver_reports) {
  support::lent_tensor<DLManagedTensor> lent(
      pinned_.pointer, rows, support::dtype(kDLUInt, 8),
      {static_cast<DLDeviceType>(ctx()->device().kind), ctx()->device().ordinal});
  dlpack_import how;
  if (!ctx()->on_host()) {
    how.ready = -1;
  }
  const column taken = import_dlpack(ctx(), lent.get(), how);
  EXPECT_EQ(taken.values().kind(), pinned_kind());
  const tensor_device expected{ctx()->on_host() ? kDLCPU : kDLCUDAHost, 0};
  EXPECT_EQ(dlpack_device(taken), expected);
}

TEST_P(memory_kinds, page_locked_memory_is_exported_to_the_cpu_without_a_copy) {
  const column source = page_locked_column();
  ctx()->copies().reset_counters();
  fill(source.values(), 9, ctx()->work_stream());
  const support::held_tensor<DLManagedTensorVersioned> tensor(
      export_dlpack(source, support::export_to({kDLCPU, 0})));
  EXPECT_EQ(tensor->dl_tensor.data, pinned_.pointer);
  EXPECT_EQ(content(), std::vector<std::uint8_t>(rows, 9)) << "the host has waited for the fill";
  const support::held_tensor<DLManagedTensorVersioned> unnamed(export_dlpack(source));
  EXPECT_EQ(unnamed->dl_tensor.device.device_type, ctx()->on_host() ? kDLCPU : kDLCUDAHost);
  EXPECT_EQ(ctx()->copies().read_counters().device_to_host.calls, 0U);
}

TEST_P(memory_kinds, a_cpu_consumer_without_a_stream_gets_finished_memory) {
  const auto held = close_gate(ctx()->work_stream().native_handle());
  if (!held) {
    GTEST_SKIP() << nothing_pends;
  }
  const column source = page_locked_column();
  fill(source.values(), 9, ctx()->work_stream());
  open_while_the_host_waits(held, [&] {
    const support::held_tensor<DLManagedTensorVersioned> tensor(export_dlpack(source));
    EXPECT_EQ(tensor->dl_tensor.device.device_type, kDLCUDAHost);
    EXPECT_EQ(content(), std::vector<std::uint8_t>(rows, 9));
  });
}

TEST_P(memory_kinds, a_copy_for_the_cpu_is_in_pageable_memory) {
  const column source = page_locked_column();
  const dlpack_export how{std::nullopt, tensor_device{kDLCPU, 0}, copy_policy::always};
  const support::held_tensor<DLManagedTensorVersioned> tensor(export_dlpack(source, how));
  const auto* const first = static_cast<const std::uint8_t*>(tensor->dl_tensor.data);
  EXPECT_NE(first, pinned_.pointer);
  EXPECT_EQ(std::vector<std::uint8_t>(first, first + rows), content());
}

TEST_P(memory_kinds, a_copy_can_not_be_requested_in_page_locked_memory) {
  if (ctx()->on_host()) {
    GTEST_SKIP() << "page-locked memory is ordinary memory there";
  }
  const dlpack_export how{1, tensor_device{kDLCUDAHost, 0}, copy_policy::always};
  EXPECT_THROW(static_cast<void>(export_dlpack(page_locked_column(), how)), error);
}

TEST_P(memory_kinds, arrow_exports_cpu_readable_memory_in_place) {
  const column source = page_locked_column();
  fill(source.values(), 7, ctx()->work_stream());
  ctx()->copies().reset_counters();
  const auto strict = ctx()->copies().forbid_downloads();
  arrow_array exported;
  exported.get() = export_column(source).release();
  EXPECT_EQ(exported.get().buffers[1], pinned_.pointer);
  EXPECT_EQ(content(), std::vector<std::uint8_t>(rows, 7)) << "the host has waited for the fill";
  EXPECT_EQ(ctx()->copies().read_counters().exports, 1U);
}

SAETA_CONFORMANCE_SUITE(memory_kinds);

} // namespace
} // namespace saeta::conformance
