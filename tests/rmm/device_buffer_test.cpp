// Exchange of buffers with rmm::device_buffer in both directions, without copies and correctly ordered.
#include "conformance/harness/context_test.hpp"
#include "conformance/harness/graph_capture.hpp"
#include "conformance/harness/pinned_bytes.hpp"
#include "rmm/stand_in.hpp"
#include "saeta/rmm/device_buffer.hpp"
#include "unit/base/raises.hpp"

#include <gtest/gtest.h>

#include <rmm/mr/statistics_resource_adaptor.hpp>

namespace saeta::conformance {
namespace {

constexpr std::size_t shown_bytes = 1 << 20;

class device_buffers : public context_test {
protected:
  void SetUp() override {
    context_test::SetUp();
    foreign_.emplace(shared_device());
  }
  void TearDown() override {
    EXPECT_EQ(charged(), 0U) << "every charge was given back";
    context_test::TearDown();
  }
  /// Returns a stream of another library, which uses the device buffers.
  [[nodiscard]] stream_ref foreign() const { return foreign_->ref(); }
  [[nodiscard]] cuda::stream_ref on_foreign() const { return to_cuda_stream(foreign_->native_handle()); }
  [[nodiscard]] std::uint64_t charged() const {
    EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(60)));
    return ctx()->memory_budget()->statistics().current;
  }
  void write(void* to, std::uint8_t value) const {
    device().fill(to, value, shown_bytes, foreign().native_handle());
  }
  [[nodiscard]] static std::vector<std::uint8_t> all(std::uint8_t value) {
    return std::vector<std::uint8_t>(shown_bytes, value);
  }
  [[nodiscard]] std::unique_ptr<rmm::device_buffer> allocated_from(context_resource from) const {
    return std::make_unique<rmm::device_buffer>(shown_bytes, on_foreign(), std::move(from));
  }

private:
  std::optional<stream> foreign_;
};

TEST_P(device_buffers, are_views_that_return_the_same_memory) {
  const buffer held = make(shown_bytes);
  fill(held, 1, ctx()->work_stream());
  ctx()->copies().reset_counters();
  auto shown = lend_device_buffer(held.slice(64, 128), on_foreign());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(shown->data()), held.address() + 64);
  EXPECT_EQ(shown->size(), 128U);
  EXPECT_EQ(shown->stream().get(), on_foreign().get());
  EXPECT_EQ(ctx()->copies().read_counters().exports, 1U);
  EXPECT_EQ(ctx()->memory_budget()->statistics().current, shown_bytes);
  const buffer taken = take_device_buffer(ctx(), std::move(shown));
  EXPECT_EQ(taken.owner(), held.owner());
  EXPECT_EQ(taken.address(), held.address() + 64);
  EXPECT_EQ(taken.size(), 128U);
  EXPECT_EQ(read(taken), std::vector<std::uint8_t>(128, 1));
}

TEST_P(device_buffers, keep_the_memory_alive_until_they_are_dropped) {
  buffer held = make(shown_bytes);
  const auto address = held.address();
  auto shown = lend_device_buffer(held, on_foreign());
  held = {};
  EXPECT_EQ(charged(), shown_bytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(shown->data()), address);
  shown.reset();
  EXPECT_EQ(charged(), 0U);
}

TEST_P(device_buffers, are_read_after_the_last_write) {
  const buffer held = make(shown_bytes);
  fill(held, 1, ctx()->work_stream());
  ctx()->synchronize(ctx()->work_stream());
  const auto late = close_gate(ctx()->work_stream());
  fill(held, 2, ctx()->work_stream());
  const auto shown = lend_device_buffer(held, on_foreign());
  const pinned_bytes seen(shared_device(), shown_bytes);
  device().copy(seen.data(), shown->data(), shown_bytes, to_host(), foreign().native_handle());
  if (late) {
    EXPECT_FALSE(foreign().idle()) << "the reader did not wait for the writer";
    late->open();
  }
  ctx()->synchronize(foreign());
  EXPECT_TRUE(seen.all_are(2));
}

TEST_P(device_buffers, are_rewritten_after_the_work_on_the_stream_of_their_release) {
  const buffer held = make(shown_bytes);
  fill(held, 1, ctx()->work_stream());
  ctx()->synchronize(ctx()->work_stream());
  const stream_lease idle = ctx()->borrow_stream();
  auto shown = lend_device_buffer(held, to_cuda_stream(idle.ref().native_handle()));
  shown->set_stream(on_foreign());
  const auto pending = close_gate(foreign());
  const pinned_bytes seen(shared_device(), shown_bytes);
  device().copy(seen.data(), shown->data(), shown_bytes, to_host(), foreign().native_handle());
  shown.reset();
  fill(held, 2, ctx()->work_stream());
  if (pending) {
    EXPECT_FALSE(ctx()->work_stream().idle()) << "the writer did not wait for the reader";
    pending->open();
  }
  ctx()->synchronize(ctx()->work_stream());
  EXPECT_TRUE(seen.all_are(1));
  EXPECT_EQ(read(held), all(2));
}

TEST_P(device_buffers, of_a_context_are_imported_as_its_own_memory) {
  auto received = allocated_from(context_resource(ctx(), "shuffle"));
  const void* const address = received->data();
  const auto pending = close_gate(foreign());
  write(received->data(), 3);
  const buffer taken = take_device_buffer(ctx(), std::move(received));
  EXPECT_EQ(reinterpret_cast<const void*>(taken.address()), address);
  EXPECT_FALSE(taken.owner()->external());
  EXPECT_EQ(taken.owner().use_count(), 1) << "the loan is over";
  EXPECT_EQ(taken.owner()->tag(), "shuffle");
  EXPECT_EQ(ctx()->memory_budget()->statistics().current, shown_bytes);
  const pinned_bytes seen(shared_device(), shown_bytes);
  queue_read(taken, seen.data(), ctx()->work_stream());
  if (pending) {
    EXPECT_FALSE(ctx()->work_stream().idle())
        << "the reader did not wait for the stream of the device buffer";
    pending->open();
  }
  ctx()->synchronize(ctx()->work_stream());
  EXPECT_TRUE(seen.all_are(3));
}

TEST_P(device_buffers, of_an_adaptor_are_imported_as_own_memory_if_the_source_is_given) {
  rmm::mr::statistics_resource_adaptor counted{context_resource(ctx(), "counted")};
  const auto make_one = [&] {
    return std::make_unique<rmm::device_buffer>(shown_bytes, on_foreign(), counted);
  };
  auto one = make_one();
  context_resource below(ctx(), "counted");
  EXPECT_FALSE(take_device_buffer(ctx(), std::move(one), below).owner()->external());
  const buffer view = take_device_buffer(ctx(), make_one());
  EXPECT_TRUE(view.owner()->external());
  EXPECT_EQ(counted.get_bytes_counter().value, static_cast<std::int64_t>(shown_bytes));
}

TEST_P(device_buffers, of_other_resources_are_viewed_until_the_last_use) {
  const stand_in others(shared_device());
  {
    auto theirs = std::make_unique<rmm::device_buffer>(shown_bytes, on_foreign(), others);
    write(theirs->data(), 4);
    const buffer view = take_device_buffer(ctx(), std::move(theirs));
    EXPECT_TRUE(view.owner()->external());
    EXPECT_TRUE(view.owner()->writable());
    EXPECT_EQ(read(view), all(4));
    EXPECT_TRUE(others.seen().freed.empty());
  }
  EXPECT_EQ(charged(), 0U);
  EXPECT_EQ(others.seen().freed.size(), 1U);
}

TEST_P(device_buffers, without_bytes_are_imported_as_absent_buffers) {
  const auto none = [&] { return lend_device_buffer({}, on_foreign()); };
  EXPECT_EQ(none()->size(), 0U);
  EXPECT_FALSE(take_device_buffer(ctx(), none()).present());
}

TEST_P(device_buffers, that_were_exported_can_not_grow) {
  const buffer held = make(shown_bytes);
  const auto shown = lend_device_buffer(held, on_foreign());
  EXPECT_THROW(shown->reserve(2 * shown_bytes, on_foreign()), rmm::bad_alloc);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(shown->data()), held.address());
}

TEST_P(device_buffers, can_be_exported_without_a_stream) {
  const buffer held = make(shown_bytes);
  lent_buffer lent(held);
  void* address = nullptr;
  const auto late = close_gate(ctx()->work_stream());
  fill(held, 5, ctx()->work_stream());
  open_while_the_host_waits(late, [&] { address = lent.allocate_sync(shown_bytes, 64); });
  EXPECT_TRUE(ctx()->work_stream().idle());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(address), held.address());
  lent.deallocate_sync(address, shown_bytes, 64);
  EXPECT_FALSE(lent.shown().present());
  EXPECT_EQ(read(held), all(5));
}

TEST_P(device_buffers, of_another_device_are_refused) {
  if (second_device() == nullptr || ctx()->on_host()) {
    GTEST_SKIP() << one_device_alone;
  }
  const auto there = watch(context::create(second_device()));
  EXPECT_EQ(unit::code_raised_by([&] {
              static_cast<void>(
                  take_device_buffer(there, lend_device_buffer(make(shown_bytes), on_foreign())));
            }),
            errc::invalid_argument);
  EXPECT_EQ(unit::code_raised_by([&] {
              static_cast<void>(take_device_buffer(there, allocated_from(context_resource(ctx()))));
            }),
            errc::invalid_argument);
}

TEST_P(device_buffers, are_not_imported_during_a_capture_of_their_stream) {
  if (ctx()->on_host()) {
    GTEST_SKIP() << "the host captures no graphs";
  }
  auto received = allocated_from(context_resource(ctx()));
  graph_capture capture(device(), foreign().native_handle());
  EXPECT_EQ(unit::code_raised_by([&] { static_cast<void>(take_device_buffer(ctx(), std::move(received))); }),
            errc::busy);
  EXPECT_TRUE(capture.end());
}

SAETA_CONFORMANCE_SUITE(device_buffers);

} // namespace
} // namespace saeta::conformance
