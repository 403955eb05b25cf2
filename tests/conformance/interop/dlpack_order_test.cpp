// Stream ordering of DLPack exchanges, at hand-over and at release, with one side blocked by a gate.
#include "conformance/harness/context_test.hpp"
#include "conformance/harness/pinned_bytes.hpp"
#include "saeta/backend/sim/sim.hpp"
#include "saeta/interop/dlpack/dlpack.hpp"
#include "support/dlpack_tensors.hpp"
#include "support/faulty_backend.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace saeta::conformance {
namespace {

constexpr std::size_t tensor_bytes = 1 << 20;
using versioned = support::held_tensor<DLManagedTensorVersioned>;
using lent_tensor = support::lent_tensor<DLManagedTensorVersioned>;

class dlpack_order : public context_test {
protected:
  void SetUp() override {
    context_test::SetUp();
    // Created in advance, because it may wait for the device and so hang behind a closed gate.
    ours_.emplace(ctx()->borrow_stream());
    foreign_.emplace(shared_device());
    sink_ = filled(0);
  }
  void TearDown() override {
    foreign_.reset();
    sink_ = {};
    context_test::TearDown();
  }
  [[nodiscard]] stream_ref ours() const { return ours_->ref(); }
  /// Returns a stream of another library.
  [[nodiscard]] stream_ref foreign() const { return foreign_->ref(); }
  [[nodiscard]] const buffer& sink() const { return sink_; }
  [[nodiscard]] buffer filled(std::uint8_t value) const {
    buffer made = make(tensor_bytes);
    fill(made, value, ctx()->work_stream());
    ctx()->synchronize(ctx()->work_stream());
    return made;
  }
  [[nodiscard]] column of(const buffer& values) const {
    return column::make(
        ctx(), {data_type(type_id::uint8), static_cast<std::int64_t>(tensor_bytes), 0, 0, {{}, values}, {}});
  }
  /// Returns the number of a stream in DLPack; nullopt on the host.
  [[nodiscard]] std::optional<std::int64_t> number(stream_ref stream) const {
    return ctx()->on_host() ? std::nullopt : std::optional(static_cast<std::int64_t>(stream.native_handle()));
  }
  [[nodiscard]] std::optional<std::int64_t> unordered() const {
    return ctx()->on_host() ? std::nullopt : std::optional<std::int64_t>(-1);
  }
  /// Queues a read like a foreign kernel: by pointer and stream, without a use token.
  void queue_foreign_read(const DLTensor& tensor, stream_handle stream) const {
    device().copy(reinterpret_cast<void*>(sink_.address()), tensor.data, tensor_bytes, within(), stream);
  }
  [[nodiscard]] lent_tensor lend(const buffer& memory) const {
    return lent_tensor(reinterpret_cast<void*>(memory.address()), static_cast<std::int64_t>(tensor_bytes),
                       support::dtype(kDLUInt, 8),
                       {static_cast<DLDeviceType>(ctx()->device().kind), ctx()->device().ordinal});
  }
  [[nodiscard]] bool holds(const buffer& used, std::uint8_t value) const {
    const auto content = read(used);
    return std::all_of(content.begin(), content.end(), [&](std::uint8_t b) { return b == value; });
  }
  /// Imports a view, uses it, and expects that the tensor is released after this use.
  /// @param lender  the producer's stream, which is blocked by a gate
  void expect_back_after_our_work(stream_ref lender) {
    const buffer memory = filled(1);
    const auto held = close_gate(lender.native_handle());
    if (!held) {
      GTEST_SKIP() << "nothing can be pending on this backend";
    }
    lent_tensor lent = lend(memory);
    {
      const column taken = import_dlpack(ctx(), lent.get(), {number(lender), copy_policy::never});
      fill(taken.values(), 3, ours());
    }
    EXPECT_EQ(lent.deleted(), 0) << "our write is pending behind the gate";
    held->open();
    EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
    EXPECT_EQ(lent.deleted(), 1);
  }
  void expect_consumer_waits(std::optional<std::int64_t> named, stream_handle consumer) {
    const buffer values = filled(1);
    const auto held = close_gate(ours().native_handle());
    fill(values, 2, ours());
    const versioned tensor(export_dlpack(of(values), {named, std::nullopt, copy_policy::never}));
    queue_foreign_read(tensor->dl_tensor, consumer);
    if (held) {
      EXPECT_FALSE(device().stream_idle(consumer)) << "the consumer did not wait for the last write";
      held->open();
    }
    device().synchronize_stream(consumer);
    EXPECT_TRUE(holds(sink(), 2));
  }
  void expect_import_waits(const dlpack_import& how) {
    const buffer memory = filled(1);
    lent_tensor lent = lend(memory);
    const auto held = close_gate(foreign().native_handle());
    device().fill(lent.tensor().data, 2, tensor_bytes, foreign().native_handle());
    {
      const column taken = import_dlpack(ctx(), lent.get(), how);
      use_token token(ours(), {reads(taken.values()), writes(sink())});
      ctx()->copies().copy(token.span<char>(sink()).data(), token.span<const char>(taken.values()).data(),
                           tensor_bytes, within(), ours());
    }
    if (held) {
      EXPECT_FALSE(ours().idle()) << "our read did not wait for the producer";
      EXPECT_EQ(lent.deleted(), 0) << "given back while our read was pending";
      held->open();
    }
    ctx()->synchronize(ours());
    EXPECT_TRUE(holds(sink(), 2));
    EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
    EXPECT_EQ(lent.deleted(), 1);
  }
  void expect_released_memory_is_not_given_to_others(copy_policy copy);
  /// Makes a context of the tested device that claims to be a CUDA GPU, so that it accepts tensors in
  /// page-locked and managed CUDA memory.
  [[nodiscard]] std::shared_ptr<context> passing_for_cuda() {
    const auto passing = std::make_shared<saeta::testing::faulty_backend>(shared_device());
    passing->pass_for({device_kind::cuda, 0});
    return watch(context::create(passing));
  }

private:
  std::optional<stream_lease> ours_;
  std::optional<stream> foreign_;
  buffer sink_;
};

TEST_P(dlpack_order, the_named_stream_waits_for_the_last_write) {
  expect_consumer_waits(number(foreign()), foreign().native_handle());
}

TEST_P(dlpack_order, no_stream_means_the_legacy_default_stream) {
  expect_consumer_waits(std::nullopt, legacy_stream);
}

TEST_P(dlpack_order, streams_1_and_2_are_the_legacy_and_the_per_thread_default_stream) {
  for (const stream_handle consumer : {legacy_stream, per_thread_stream}) {
    const auto named = static_cast<std::int64_t>(consumer);
    expect_consumer_waits(ctx()->on_host() ? std::nullopt : std::optional(named), consumer);
  }
}

TEST_P(dlpack_order, the_stream_that_wrote_last_needs_no_wait) {
  expect_consumer_waits(number(ours()), ours().native_handle());
}

TEST_P(dlpack_order, stream_minus_1_is_not_synchronised) {
  const buffer values = filled(1);
  const auto held = close_gate(ours().native_handle());
  if (!held) {
    GTEST_SKIP() << "nothing can be pending on this backend";
  }
  expect_races();
  fill(values, 2, ours());
  const versioned tensor(export_dlpack(of(values), support::export_on(-1)));
  queue_foreign_read(tensor->dl_tensor, foreign().native_handle());
  device().synchronize_stream(foreign().native_handle());
  held->open();
  EXPECT_TRUE(holds(sink(), 1)) << "the read of the twin tests would have passed without a wait";
}

TEST_P(dlpack_order, a_copy_for_stream_minus_1_is_finished_at_hand_over) {
  const buffer values = filled(3);
  const versioned tensor(export_dlpack(of(values), {unordered(), std::nullopt, copy_policy::always}));
  queue_foreign_read(tensor->dl_tensor, foreign().native_handle());
  device().synchronize_stream(foreign().native_handle());
  EXPECT_TRUE(holds(sink(), 3));
}

TEST_P(dlpack_order, a_copy_is_ordered_after_the_write_and_before_the_consumer) {
  const buffer values = filled(1);
  fill(values, 4, ours());
  const versioned tensor(export_dlpack(of(values), {number(foreign()), std::nullopt, copy_policy::always}));
  queue_foreign_read(tensor->dl_tensor, foreign().native_handle());
  device().synchronize_stream(foreign().native_handle());
  EXPECT_TRUE(holds(sink(), 4));
}

void dlpack_order::expect_released_memory_is_not_given_to_others(copy_policy copy) {
  auto values = std::optional(filled(5));
  versioned tensor(export_dlpack(of(*values), {number(foreign()), std::nullopt, copy}));
  const auto held = close_gate(foreign().native_handle());
  queue_foreign_read(tensor->dl_tensor, foreign().native_handle());
  tensor.reset();
  values.reset();
  std::vector<buffer> next; // may reuse the memory; the blocked read must not see their bytes
  for (int i = 0; i < 4; ++i) {
    next.push_back(buffer::allocate(ctx(), tensor_bytes, ours(), "next"));
    fill(next.back(), 0xAA, ours());
  }
  if (held) {
    held->open();
  }
  device().synchronize_stream(foreign().native_handle());
  EXPECT_TRUE(holds(sink(), 5));
}

TEST_P(dlpack_order, memory_released_during_a_foreign_read_is_not_reused) {
  expect_released_memory_is_not_given_to_others(copy_policy::never);
}

TEST_P(dlpack_order, a_copy_released_during_a_foreign_read_is_not_reused) {
  expect_released_memory_is_not_given_to_others(copy_policy::always);
}

TEST_P(dlpack_order, a_write_waits_for_an_outstanding_consumer) {
  const buffer values = filled(6);
  const versioned tensor(export_dlpack(of(values), {number(foreign()), std::nullopt, copy_policy::never}));
  const auto held = close_gate(foreign().native_handle());
  queue_foreign_read(tensor->dl_tensor, foreign().native_handle());
  fill(values, 7, ours());
  if (held) {
    EXPECT_FALSE(ours().idle()) << "the write did not wait for the consumer";
    held->open();
  }
  device().synchronize_stream(foreign().native_handle());
  EXPECT_TRUE(holds(sink(), 6));
}

TEST_P(dlpack_order, an_import_waits_for_the_producers_stream) {
  expect_import_waits({number(foreign()), copy_policy::never});
}

TEST_P(dlpack_order, an_import_from_an_unknown_stream_waits_for_the_whole_context) {
  expect_import_waits(support::import_with(copy_policy::never));
}

TEST_P(dlpack_order, the_gather_of_a_strided_import_waits_for_the_producer) {
  const buffer memory = filled(1);
  lent_tensor lent = lend(memory);
  lent.tensor().shape[0] = tensor_bytes / 2;
  lent.tensor().strides[0] = 2;
  const auto held = close_gate(foreign().native_handle());
  device().fill(lent.tensor().data, 2, tensor_bytes, foreign().native_handle());
  const column taken = import_dlpack(ctx(), lent.get(), {number(foreign()), copy_policy::when_needed});
  if (held) {
    EXPECT_EQ(lent.deleted(), 0) << "given back while the gather was pending";
    held->open();
  }
  EXPECT_TRUE(holds(taken.values(), 2));
  EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
  EXPECT_EQ(lent.deleted(), 1);
}

TEST_P(dlpack_order, filled_nulls_are_ordered_after_the_write_and_before_the_consumer) {
  const buffer values = filled(1);
  const buffer validity = make(bitmap_bytes(tensor_bytes));
  fill(validity, 0x00, ctx()->work_stream());
  ctx()->synchronize(ctx()->work_stream());
  dlpack_export how;
  how.stream = number(foreign());
  how.nulls = tensor_nulls::fill;
  how.fill = std::int64_t{9};
  const column source = column::make(ctx(), {data_type(type_id::uint8),
                                             static_cast<std::int64_t>(tensor_bytes),
                                             0,
                                             tensor_bytes / 2,
                                             {validity, values},
                                             {}});
  const auto held = close_gate(ours().native_handle());
  fill(validity, 0x55, ours());
  fill(values, 4, ours());
  const versioned tensor(export_dlpack(source, how));
  queue_foreign_read(tensor->dl_tensor, foreign().native_handle());
  if (held) {
    EXPECT_FALSE(device().stream_idle(foreign().native_handle()));
    held->open();
  }
  device().synchronize_stream(foreign().native_handle());
  const auto seen = read(sink());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    ASSERT_EQ(seen[i], i % 2 == 0 ? 4 : 9) << i;
  }
}

TEST_P(dlpack_order, an_unused_view_is_released_without_waiting) {
  const buffer memory = filled(1);
  const auto held = close_gate(foreign().native_handle());
  if (!held) {
    GTEST_SKIP() << "nothing can be pending on this backend";
  }
  lent_tensor lent = lend(memory);
  device().fill(lent.tensor().data, 2, tensor_bytes, foreign().native_handle());
  static_cast<void>(import_dlpack(ctx(), lent.get(), {number(foreign()), copy_policy::never}));
  EXPECT_EQ(lent.deleted(), 1) << "its own work was waited for";
  held->open();
  device().synchronize_stream(foreign().native_handle()); // as the owner would do before freeing it
}

TEST_P(dlpack_order, a_used_view_is_released_after_the_work_on_it) { expect_back_after_our_work(foreign()); }

TEST_P(dlpack_order, a_view_used_on_the_producers_stream_is_released_after_the_work_on_it) {
  expect_back_after_our_work(ours()); // that work is in the same epoch as the producer's
}

TEST_P(dlpack_order, an_import_after_minus_1_waits_for_nothing) {
  const buffer memory = filled(1);
  lent_tensor lent = lend(memory);
  const auto held = close_gate(foreign().native_handle());
  if (!held) {
    GTEST_SKIP() << "nothing can be pending on this backend";
  }
  expect_races();
  device().fill(lent.tensor().data, 2, tensor_bytes, foreign().native_handle());
  const column taken = import_dlpack(ctx(), lent.get(), support::import_after(-1));
  {
    use_token token(ours(), {reads(taken.values()), writes(sink())});
    ctx()->copies().copy(token.span<char>(sink()).data(), token.span<const char>(taken.values()).data(),
                         tensor_bytes, within(), ours());
  }
  ctx()->synchronize(ours());
  held->open();
  EXPECT_TRUE(holds(sink(), 1));
}

TEST_P(dlpack_order, a_missing_stream_is_not_the_per_thread_default_stream) {
  auto* const simulated = dynamic_cast<sim::device*>(&device());
  if (simulated == nullptr) {
    GTEST_SKIP() << "needs a stream that waits for the legacy default stream and for no other";
  }
  const stream_handle blocking = simulated->create_blocking_stream();
  expect_consumer_waits(std::nullopt, blocking);
  device().destroy_stream(blocking);
}

TEST_P(dlpack_order, a_view_of_managed_memory_waits_for_its_producer) {
  if (GetParam().name != "sim") {
    GTEST_SKIP() << "needs a device without CUDA that passes for one with it";
  }
  const auto gpu = passing_for_cuda();
  const stream_ref work = gpu->work_stream();
  for (const std::optional<std::int64_t> named : {number(foreign()), std::optional<std::int64_t>{}}) {
    const buffer memory = filled(1);
    lent_tensor lent(reinterpret_cast<void*>(memory.address()), static_cast<std::int64_t>(tensor_bytes),
                     support::dtype(kDLUInt, 8), {kDLCUDAManaged, 0});
    const pinned_bytes seen(shared_device(), tensor_bytes);
    const auto held = close_gate(foreign().native_handle());
    device().fill(lent.tensor().data, 2, tensor_bytes, foreign().native_handle());
    {
      const column taken = import_dlpack(gpu, lent.get(), {named, copy_policy::never});
      use_token token(work, {reads(taken.values())});
      gpu->copies().copy(seen.data(), token.span<const char>(taken.values()).data(), tensor_bytes,
                         copy_kind::device_to_host, work);
    }
    EXPECT_FALSE(work.idle()) << "our read did not wait for the producer";
    held->open();
    gpu->synchronize(work);
    EXPECT_TRUE(seen.all_are(2));
    EXPECT_TRUE(gpu->wait_for_releases(std::chrono::seconds(20)));
  }
}

TEST_P(dlpack_order, an_upload_of_page_locked_memory_waits_for_its_producer) {
  if (GetParam().name != "sim") {
    GTEST_SKIP() << "needs a device without CUDA that passes for one with it";
  }
  const buffer content = filled(2);
  context_ = passing_for_cuda(); // waits of this context open the gate
  for (const std::optional<std::int64_t> named : {number(foreign()), std::optional<std::int64_t>{}}) {
    const pinned_bytes pinned(shared_device(), tensor_bytes);
    lent_tensor lent(pinned.data(), static_cast<std::int64_t>(tensor_bytes), support::dtype(kDLUInt, 8),
                     {kDLCUDAHost, 0});
    std::optional<column> taken;
    {
      const auto held = close_gate(foreign().native_handle());
      device().copy(pinned.data(), reinterpret_cast<const void*>(content.address()), tensor_bytes,
                    copy_kind::device_to_host, foreign().native_handle());
      open_while_the_host_waits(held, [&] {
        taken = import_dlpack(ctx(), lent.get(), {named, copy_policy::when_needed});
      });
    }
    EXPECT_TRUE(holds(taken->values(), 2)) << "the memory was read before its producer wrote it";
    EXPECT_EQ(lent.deleted(), 1);
    device().synchronize_stream(foreign().native_handle());
  }
}

SAETA_CONFORMANCE_SUITE(dlpack_order);

} // namespace
} // namespace saeta::conformance
