// A context as an RMM memory resource: it satisfies RMM's resource concept, and allocations are charged and
// ordered by Saeta.
#include "conformance/harness/context_test.hpp"
#include "conformance/harness/graph_capture.hpp"
#include "rmm/stand_in.hpp"
#include "saeta/base/error.hpp"
#include "saeta/memory/loans/graph_pool.hpp"
#include "saeta/rmm/context_resource.hpp"
#include "saeta/rmm/rmm_resource.hpp"
#include "unit/base/raises.hpp"

#include <gmock/gmock.h>

#include <rmm/mr/limiting_resource_adaptor.hpp>
#include <rmm/mr/statistics_resource_adaptor.hpp>
#include <rmm/resource_ref.hpp>

namespace saeta::conformance {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::size_t bytes = 1 << 20;
constexpr std::size_t alignment = rmm::CUDA_ALLOCATION_ALIGNMENT;

class rmm_downstream : public context_test {
protected:
  [[nodiscard]] cuda::stream_ref stream() const {
    return to_cuda_stream(ctx()->work_stream().native_handle());
  }
  [[nodiscard]] std::uint64_t charged() const {
    ctx()->wait_for_releases(std::chrono::seconds(60));
    return ctx()->memory_budget()->statistics().current;
  }
  /// Returns the bytes at an address after the work queued on the stream.
  [[nodiscard]] std::vector<std::uint8_t> content(const void* address, stream_ref on) const {
    std::vector<std::uint8_t> found(bytes);
    device().copy(found.data(), address, bytes, to_host(), on.native_handle());
    ctx()->synchronize(on);
    return found;
  }
  void work_on(void* address, std::uint8_t value, stream_ref on) const {
    device().fill(address, value, bytes, on.native_handle());
  }
  /// Requests `bytes` bytes and returns the message of the RMM exception.
  template <class Exception>
  [[nodiscard]] std::string text_when_asked(context_resource from, std::size_t for_bytes,
                                            std::size_t aligned = alignment) const {
    try {
      static_cast<void>(from.allocate(stream(), for_bytes, aligned));
    } catch (const Exception& e) {
      return e.what();
    }
    return "nothing";
  }
};

TEST_P(rmm_downstream, charges_the_context_through_every_kind_of_resource_ref) {
  context_resource own(ctx(), "index");
  const rmm::device_async_resource_ref borrowed = own;
  cuda::mr::any_resource<cuda::mr::device_accessible> erased = own;
  void* const direct = own.allocate(stream(), bytes);
  void* const by_ref = rmm::device_async_resource_ref(borrowed).allocate(stream(), bytes, alignment);
  void* const by_any = erased.allocate(stream(), bytes, alignment);
  const std::vector<std::pair<std::string, std::uint64_t>> expected{{"index", 3 * bytes}};
  EXPECT_EQ(ctx()->reports().live_by_tag(), expected);
  EXPECT_EQ(charged(), 3 * bytes);
  // Memory may be freed through an equal resource.
  erased.deallocate(stream(), direct, bytes, alignment);
  own.deallocate(stream(), by_ref, bytes);
  rmm::device_async_resource_ref(borrowed).deallocate(stream(), by_any, bytes, alignment);
  EXPECT_EQ(charged(), 0u);
}

TEST_P(rmm_downstream, throws_rmms_out_of_memory_with_the_numbers_of_the_budget) {
  const context_resource own(ctx());
  EXPECT_THAT(text_when_asked<rmm::out_of_memory>(own, limit + 1),
              AllOf(HasSubstr(std::to_string(limit + 1)), HasSubstr(std::to_string(limit))));
  EXPECT_EQ(charged(), 0u);
}

TEST_P(rmm_downstream, throws_rmms_bad_alloc_for_other_failures) {
  EXPECT_THAT(text_when_asked<rmm::bad_alloc>(context_resource(ctx()), 8, 384), HasSubstr("384"));
  const auto closed = ctx()->with_budget("closed");
  closed->close();
  EXPECT_THAT(text_when_asked<rmm::bad_alloc>(context_resource(closed), 8), HasSubstr("closed"));
  EXPECT_EQ(unit::code_raised_by([] { context_resource none(nullptr); }), errc::invalid_argument);
}

TEST_P(rmm_downstream, honours_alignment_and_returns_null_for_zero_bytes) {
  context_resource own(ctx());
  void* const page = own.allocate(stream(), 100, 4096);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(page) % 4096, 0u);
  own.deallocate(stream(), page, 100, 4096);
  EXPECT_EQ(own.allocate(stream(), 0), nullptr);
  own.deallocate(stream(), nullptr, 0);
  EXPECT_EQ(charged(), 0u);
}

TEST_P(rmm_downstream, is_equal_if_budget_and_tag_are) {
  const context_resource own(ctx(), "a");
  const auto child = ctx()->with_budget("child");
  EXPECT_TRUE(own == context_resource(ctx(), "a"));
  EXPECT_FALSE(own == context_resource(ctx(), "b"));
  EXPECT_FALSE(own == context_resource(child, "a"));
  EXPECT_FALSE(own == context_resource(ctx()->with_reservation(1), "a"));
  EXPECT_FALSE(own == context_resource(new_context(), "a"));
}

TEST_P(rmm_downstream, reuses_memory_after_the_work_on_the_stream_of_the_free) {
  context_resource own(ctx());
  const stream_lease first = ctx()->borrow_stream();
  const stream_lease second = ctx()->borrow_stream();
  const auto on = [](const stream_lease& lease) { return to_cuda_stream(lease.ref().native_handle()); };
  void* const used = own.allocate(on(first), bytes);
  ctx()->synchronize(first.ref());
  const auto held = close_gate(second.ref().native_handle());
  work_on(used, 1, second.ref());
  own.deallocate(on(second), used, bytes);
  void* const next = own.allocate(on(first), bytes);
  EXPECT_EQ(next, used) << "another block shows nothing";
  work_on(next, 2, first.ref());
  if (held) {
    EXPECT_FALSE(first.ref().idle()) << "did not wait for the work before the free";
    held->open();
  }
  ctx()->synchronize(second.ref());
  EXPECT_EQ(content(next, first.ref()), std::vector<std::uint8_t>(bytes, 2));
  own.deallocate(on(first), next, bytes);
}

TEST_P(rmm_downstream, needs_no_stream) {
  context_resource own(ctx());
  const stream_lease other = ctx()->borrow_stream();
  // A block with pending work on another stream, so that it is not ready for every stream.
  void* const used = own.allocate(to_cuda_stream(other.ref().native_handle()), bytes);
  const stream_lease unknown = ctx()->borrow_stream();
  const auto held = close_gate(other.ref().native_handle());
  work_on(used, 1, other.ref());
  own.deallocate(to_cuda_stream(other.ref().native_handle()), used, bytes);
  void* next = nullptr;
  open_while_the_host_waits(held, [&] { next = own.allocate_sync(bytes); });
  EXPECT_EQ(next, used) << "another block shows nothing";
  EXPECT_TRUE(other.ref().idle()) << "any stream may use the memory";
  if (held) {
    held->open(); // still closed after a failure
  }
  work_on(next, 2, unknown.ref());
  EXPECT_EQ(content(next, unknown.ref()), std::vector<std::uint8_t>(bytes, 2));
  own.deallocate_sync(next, bytes);
  void* const last = own.allocate(stream(), bytes);
  work_on(last, 3, ctx()->work_stream());
  EXPECT_EQ(content(last, ctx()->work_stream()), std::vector<std::uint8_t>(bytes, 3));
  own.deallocate(stream(), last, bytes);
}

TEST_P(rmm_downstream, allocates_from_a_graph_pool_in_a_capture) {
  if (ctx()->on_host()) {
    GTEST_SKIP() << "the host captures no graphs";
  }
  context_resource own(ctx(), "index");
  const saeta::stream capturing(shared_device());
  const cuda::stream_ref on = to_cuda_stream(capturing.native_handle());
  const auto pool = graph_pool::create(ctx(), "graph");
  graph_capture capture(device(), capturing.native_handle());
  EXPECT_THROW(static_cast<void>(own.allocate(on, bytes)), rmm::bad_alloc) << "whose would it be?";
  {
    const graph_pool_scope open(pool);
    void* const temporary = own.allocate(on, bytes);
    own.deallocate(on, temporary, bytes);
    void* const next = own.allocate(on, bytes);
    EXPECT_EQ(next, temporary);
    own.deallocate(on, next, bytes);
  }
  void* const everywhere = own.allocate_sync(bytes);
  EXPECT_TRUE(capture.end());
  const std::vector<std::pair<std::string, std::uint64_t>> expected{{"graph", bytes}, {"index", bytes}};
  EXPECT_EQ(ctx()->reports().live_by_tag(), expected);
  own.deallocate_sync(everywhere, bytes);
  pool->release();
  EXPECT_EQ(charged(), 0U);
}

TEST_P(rmm_downstream, can_be_wrapped_by_rmms_adaptors) {
  rmm::mr::limiting_resource_adaptor limited{context_resource(ctx(), "limited"), 2 * bytes};
  rmm::mr::statistics_resource_adaptor counted{limited};
  void* const one = counted.allocate(stream(), bytes, alignment);
  EXPECT_EQ(counted.get_bytes_counter().value, static_cast<std::int64_t>(bytes));
  EXPECT_EQ(charged(), bytes);
  EXPECT_THROW(static_cast<void>(counted.allocate(stream(), 2 * bytes, alignment)), rmm::bad_alloc);
  counted.deallocate(stream(), one, bytes, alignment);
  EXPECT_EQ(charged(), 0u);
}

TEST_P(rmm_downstream, can_be_used_between_two_layers_of_rmm) {
  const stand_in below(shared_device());
  context_options options;
  options.budget = 4 * bytes;
  options.memory.custom_slabs = rmm_source(below);
  const auto between = new_context(std::move(options));
  rmm::mr::statistics_resource_adaptor above{context_resource(between, "above")};
  const cuda::stream_ref on = to_cuda_stream(between->work_stream().native_handle());
  void* const held = above.allocate(on, bytes, alignment);
  EXPECT_THROW(static_cast<void>(above.allocate(on, 4 * bytes, alignment)), rmm::out_of_memory);
  above.deallocate(on, held, bytes, alignment);
  between->wait_for_releases(std::chrono::seconds(60));
  EXPECT_GT(between->trim(), 0u);
  EXPECT_FALSE(below.seen().allocated.empty());
  EXPECT_EQ(below.seen().freed, below.seen().allocated);
}

TEST(rmm_streams, are_the_same_handles) {
  EXPECT_EQ(to_handle(to_cuda_stream(stream_handle{0x1234})), stream_handle{0x1234});
  EXPECT_EQ(to_handle(cuda::stream_ref{cudaStreamLegacy}), legacy_stream);
  EXPECT_EQ(to_handle(cuda::stream_ref{cudaStreamPerThread}), per_thread_stream);
  EXPECT_EQ(to_handle(cuda::stream_ref{cudaStream_t{nullptr}}), legacy_stream);
}

SAETA_CONFORMANCE_SUITE(rmm_downstream);

} // namespace
} // namespace saeta::conformance
