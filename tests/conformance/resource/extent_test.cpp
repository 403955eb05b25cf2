// The extent of a block, that is the driver's allocation that contains it, and exportable pools.
#include "conformance/harness/backends.hpp"
#include "saeta/base/error.hpp"
#include "saeta/memory/buffer.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/resource/driver/driver_resources.hpp"
#include "saeta/resource/stack.hpp"

#include <vector>

namespace saeta::conformance {
namespace {

class extents : public backend_test {
protected:
  [[nodiscard]] resource_stack build(const std::string& text) const {
    stack_options options;
    parse_stack(text, options);
    return build_stack(options, {.device = shared_device(), .limit = limit, .log = {}, .make_room = {}});
  }
  static void expect_inside(const block& made, const extent& found) {
    EXPECT_EQ(static_cast<std::byte*>(found.base) + found.offset, made.pointer);
    EXPECT_LE(found.offset + made.bytes, found.bytes);
  }

  std::shared_ptr<budget> limit = budget::create("test");
  stream work{shared_device()};
};

TEST_P(extents, contain_the_blocks_of_every_stack) {
  for (const char* const text : {"budget, caching", "budget, async", "budget, direct",
                                 "statistics, budget, guard, caching", "budget, guard, direct"}) {
    SCOPED_TRACE(text);
    const resource_stack stack = build(text);
    std::vector<block> made;
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{1000}, std::size_t{3} << 20}) {
      for (const std::size_t alignment : {std::size_t{0}, std::size_t{4096}}) {
        made.push_back(stack.top->allocate(bytes, alignment, work.ref()));
        expect_inside(made.back(), stack.top->extent_of(made.back()));
      }
    }
    const block none = stack.top->allocate(0, 0, work.ref());
    EXPECT_EQ(stack.top->extent_of(none), extent{});
    EXPECT_TRUE(stack.top->deallocate(none, work.ref()));
    for (const block& each : made) {
      EXPECT_TRUE(stack.top->deallocate(each, work.ref()));
    }
  }
}

TEST_P(extents, of_small_blocks_of_the_cache_are_their_slab) {
  const resource_stack stack = build("budget, caching");
  const block one = stack.top->allocate(1000, 0, work.ref());
  const block two = stack.top->allocate(1000, 0, work.ref());
  const extent first = stack.top->extent_of(one);
  const extent second = stack.top->extent_of(two);
  EXPECT_EQ(first.base, second.base);
  EXPECT_EQ(first.bytes, second.bytes);
  EXPECT_EQ(first.bytes, stack.cache->held_bytes());
  EXPECT_NE(first.offset, second.offset);
  EXPECT_TRUE(stack.top->deallocate(one, work.ref()));
  EXPECT_TRUE(stack.top->deallocate(two, work.ref()));
}

TEST_P(extents, of_the_driver_resources_are_the_blocks_themselves) {
  direct_resource direct(shared_device());
  async_resource async(shared_device());
  pinned_resource pinned(shared_device());
  for (resource* const each : std::initializer_list<resource*>{&direct, &async, &pinned}) {
    const block made = each->allocate(5000, 0, work.ref());
    const extent found = each->extent_of(made);
    EXPECT_EQ(found.base, made.pointer);
    EXPECT_EQ(found.offset, 0U);
    EXPECT_EQ(found.bytes, made.base_bytes);
    EXPECT_TRUE(each->deallocate(made, work.ref()));
  }
}

class exportable_pools : public backend_test {
protected:
  [[nodiscard]] bool on_host() const { return device().device().kind == device_kind::cpu; }
};

TEST_P(exportable_pools, are_created_before_the_first_allocation_on_request) {
  EXPECT_FALSE(device().pool_exportable());
  if (on_host()) {
    EXPECT_THROW(device().make_pool_exportable(), error);
    EXPECT_FALSE(device().pool_exportable());
    return;
  }
  device().set_pool_threshold(1 << 20);
  device().make_pool_exportable();
  device().make_pool_exportable();
  EXPECT_TRUE(device().pool_exportable());
  stream work(shared_device());
  void* const taken = device().allocate_async(1000, work.ref().native_handle());
  EXPECT_EQ(device().kind_of(taken), memory_kind::device);
  EXPECT_GT(device().pool_bytes(), 0U);
  device().make_pool_exportable(); // a second call is allowed
  EXPECT_TRUE(device().deallocate_async(taken, 1000, work.ref().native_handle()));
}

TEST_P(exportable_pools, can_not_be_created_after_an_allocation) {
  if (on_host()) {
    GTEST_SKIP() << "the host has no pool";
  }
  stream work(shared_device());
  void* const taken = device().allocate_async(1000, work.ref().native_handle());
  try {
    device().make_pool_exportable();
    ADD_FAILURE() << "accepted";
  } catch (const error& refused) {
    EXPECT_EQ(refused.code(), errc::busy);
  }
  EXPECT_FALSE(device().pool_exportable());
  EXPECT_TRUE(device().deallocate_async(taken, 1000, work.ref().native_handle()));
}

TEST_P(exportable_pools, are_an_option_of_a_stack) {
  context_options options;
  options.memory.exportable_pool = true;
  if (on_host()) {
    EXPECT_THROW(static_cast<void>(new_context(options)), error);
    return;
  }
  const auto ctx = new_context(options);
  EXPECT_TRUE(device().pool_exportable());
  EXPECT_EQ(buffer::allocate(ctx, 1000, ctx->work_stream()).size(), 1000U);
}

SAETA_CONFORMANCE_SUITE(extents);
SAETA_CONFORMANCE_SUITE(exportable_pools);

} // namespace
} // namespace saeta::conformance
