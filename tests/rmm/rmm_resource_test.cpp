// RMM resources as the base of Saeta's resources: exact sizes, conversion of errors, ordering of frees.
#include "conformance/harness/context_test.hpp"
#include "rmm/stand_in.hpp"
#include "saeta/base/error.hpp"
#include "saeta/rmm/rmm_resource.hpp"
#include "unit/base/raises.hpp"

#include <gmock/gmock.h>

#include <rmm/error.hpp>
#include <stdexcept>

namespace saeta::conformance {
namespace {

using ::testing::HasSubstr;
using unit::code_raised_by;

class rmm_upstream : public backend_test {
protected:
  void SetUp() override {
    before_ = set_report_sink([](std::string_view, std::string_view) noexcept {}); // failures are expected
  }
  void TearDown() override {
    set_report_sink(before_);
    backend_test::TearDown();
  }
  [[nodiscard]] stand_in::state& seen() const { return below.seen(); }
  /// Returns the code of the error that a request of 1000 bytes throws when RMM's allocation calls `instead`.
  std::optional<errc> code_when(std::function<void*(std::size_t)> instead) {
    seen().instead = std::move(instead);
    return code_raised_by([this] { static_cast<void>(made.allocate(1000, 0, work.ref())); }, &message);
  }

  stand_in below{shared_device()};
  rmm_resource<stand_in> made{shared_device(), below};
  stream work{shared_device()};
  std::string message;

private:
  report_sink before_ = nullptr;
};

TEST_P(rmm_upstream, gets_the_exact_sizes_and_frees_with_the_same_arguments) {
  const block b = made.allocate(1000, 0, work.ref());
  EXPECT_EQ(b.pointer, b.base);
  EXPECT_EQ(b.bytes, 1000u);
  EXPECT_EQ(b.device, device().device());
  EXPECT_EQ(made.held_bytes(), 1000u);
  EXPECT_TRUE(made.deallocate(b, work.ref()));
  EXPECT_EQ(made.held_bytes(), 0u);
  EXPECT_EQ(seen().allocated, (std::vector<asked>{{1000, 256}}));
  EXPECT_EQ(seen().freed, seen().allocated);
  ASSERT_EQ(seen().freed_on.size(), 1u);
  EXPECT_NE(seen().freed_on.front(), work.ref().native_handle())
      << "nothing of the caller's waits for the free";
  EXPECT_EQ(b.order, release_order::in_stream_order);
  EXPECT_EQ(made.trim(), 0u) << "a stand-in has nothing to trim, as RMM's own pools";
}

TEST_P(rmm_upstream, aligns_inside_a_larger_block) {
  const block b = made.allocate(1000, 4096, work.ref());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.pointer) % 4096, 0u);
  EXPECT_LE(static_cast<std::byte*>(b.pointer) + b.bytes, static_cast<std::byte*>(b.base) + b.base_bytes);
  EXPECT_TRUE(made.deallocate(b, work.ref()));
  EXPECT_EQ(seen().allocated, (std::vector<asked>{{1000 + 4096 - 256, 256}}));
  EXPECT_EQ(seen().freed, seen().allocated);
}

TEST_P(rmm_upstream, is_not_called_for_zero_bytes_or_invalid_requests) {
  const block none = made.allocate(0, 0, work.ref());
  EXPECT_EQ(none.pointer, nullptr);
  EXPECT_NE(none.generation, 0u);
  EXPECT_TRUE(made.deallocate(none, work.ref()));
  EXPECT_EQ(code_raised_by([&] { static_cast<void>(made.allocate(8, 384, work.ref())); }),
            errc::invalid_argument);
  EXPECT_EQ(code_raised_by([&] { static_cast<void>(made.allocate(~std::size_t{0}, 4096, work.ref())); }),
            errc::overflow);
  EXPECT_TRUE(seen().allocated.empty());
}

TEST_P(rmm_upstream, fails_with_errors_of_saeta) {
  EXPECT_EQ(code_when([](std::size_t) -> void* { throw rmm::out_of_memory("pool exhausted"); }),
            errc::out_of_memory);
  EXPECT_THAT(message, HasSubstr("1000 bytes"));
  EXPECT_THAT(message, HasSubstr("pool exhausted"));
  EXPECT_EQ(code_when([](std::size_t) -> void* { throw rmm::bad_alloc("no pool"); }), errc::out_of_memory);
  EXPECT_EQ(code_when([](std::size_t) -> void* { throw std::bad_alloc(); }), errc::out_of_memory);
  EXPECT_EQ(code_when([](std::size_t) -> void* { return nullptr; }), errc::out_of_memory);
  EXPECT_EQ(code_when([](std::size_t) -> void* { throw rmm::cuda_error("no device"); }), errc::device);
  EXPECT_THAT(message, HasSubstr("no device"));
  EXPECT_EQ(code_when([](std::size_t) -> void* { throw 7; }), errc::device);
  EXPECT_EQ(code_when([](std::size_t) -> void* { throw error(errc::closed, "Saeta below RMM"); }),
            errc::closed);
  EXPECT_EQ(made.held_bytes(), 0u);
}

TEST_P(rmm_upstream, that_returns_a_misaligned_block_gets_it_back) {
  std::byte* given = nullptr;
  bool returned = false;
  seen().before_free = [&] {
    returned = true;
    throw std::runtime_error("not memory of the backend");
  };
  alignas(256) std::array<std::byte, 512> memory{};
  given = memory.data() + 64;
  EXPECT_EQ(code_when([&](std::size_t) -> void* { return given; }), errc::device);
  EXPECT_TRUE(returned);
  EXPECT_EQ(made.held_bytes(), 0u);
}

TEST_P(rmm_upstream, that_fails_to_free_keeps_the_block_and_its_charge) {
  stack_options options;
  options.custom_base = rmm_source(below);
  const auto limit = budget::create("root", 1 << 20);
  const resource_stack stack = build_stack(
      options,
      {.device = shared_device(), .limit = limit, .log = std::make_shared<event_log>(), .make_room = {}});
  const block b = stack.top->allocate(1000, 0, work.ref());
  seen().before_free = [] { throw std::runtime_error("refused"); };
  EXPECT_FALSE(stack.top->deallocate(b, work.ref()));
  EXPECT_EQ(limit->statistics().current, 1000u);
  EXPECT_EQ(stack.top->held_bytes(), 1000u);
  seen().before_free = nullptr;
  EXPECT_TRUE(stack.top->deallocate(b, work.ref()));
  EXPECT_EQ(limit->statistics().current, 0u);
}

TEST_P(rmm_upstream, may_be_type_erased) {
  rmm_resource erased(shared_device(), cuda::mr::any_resource<cuda::mr::device_accessible>(below));
  const block b = erased.allocate(1000, 0, work.ref());
  EXPECT_TRUE(erased.deallocate(b, work.ref()));
  EXPECT_EQ(seen().freed, seen().allocated);
  EXPECT_EQ(erased.trim(), 0u);
}

class rmm_base : public rmm_upstream {
protected:
  [[nodiscard]] std::shared_ptr<context> open(resource_source stack_options::*place) {
    context_options options;
    options.budget = 64 << 20;
    options.memory.*place = rmm_source(below);
    return new_context(std::move(options));
  }
};

TEST_P(rmm_base, can_be_the_base_of_a_context) {
  const auto ctx = open(&stack_options::custom_base);
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4096}, std::size_t{5} << 20}) {
    const buffer b = buffer::allocate(ctx, bytes, ctx->work_stream(), "over rmm");
    use_token token(ctx->work_stream(), {writes(b)});
    ctx->copies().fill(token.span<std::uint8_t>(b).data(), 1, bytes, token.stream());
    EXPECT_EQ(ctx->memory_budget()->statistics().current, bytes);
    EXPECT_EQ(ctx->reports().statistics().held, bytes);
  }
  ctx->wait_for_releases(std::chrono::seconds(60));
  EXPECT_EQ(seen().allocated, (std::vector<asked>{{1, 256}, {4096, 256}, {5 << 20, 256}}));
  EXPECT_EQ(seen().freed, seen().allocated);
}

TEST_P(rmm_base, is_rarely_called_by_the_cache) {
  const auto ctx = open(&stack_options::custom_slabs);
  for (int round = 0; round < 100; ++round) {
    const buffer b = buffer::allocate(ctx, 4096, ctx->work_stream(), "over rmm");
  }
  EXPECT_EQ(seen().allocated.size(), 1u);
  ctx->wait_for_releases(std::chrono::seconds(60));
  EXPECT_EQ(ctx->trim(), seen().allocated.front().bytes);
  EXPECT_EQ(seen().freed, seen().allocated);
}

TEST_P(rmm_base, frees_after_the_work_of_every_stream) {
  const auto ctx = open(&stack_options::custom_base);
  const stream_lease first = ctx->borrow_stream();
  const stream_lease second = ctx->borrow_stream();
  constexpr std::size_t bytes = 1 << 20;
  buffer used = buffer::allocate(ctx, bytes, first.ref(), "used");
  const auto held = close_gate(first.ref().native_handle());
  {
    use_token token(first.ref(), {writes(used)});
    ctx->copies().fill(token.span<std::uint8_t>(used).data(), 1, bytes, first.ref());
  }
  {
    use_token token(second.ref(), {writes(used)});
    ctx->copies().fill(token.span<std::uint8_t>(used).data(), 2, bytes, second.ref());
  }
  used = {};
  ASSERT_EQ(seen().freed_on.size(), 1u) << "the free is queued without a wait";
  if (held) {
    EXPECT_FALSE(device().stream_idle(seen().freed_on.front())) << "the free did not wait for the held work";
    held->open();
  }
  const buffer next = buffer::allocate(ctx, bytes, second.ref(), "next");
  use_token token(second.ref(), {writes(next)});
  ctx->copies().fill(token.span<std::uint8_t>(next).data(), 3, bytes, second.ref());
}

SAETA_CONFORMANCE_SUITE(rmm_upstream);
SAETA_CONFORMANCE_SUITE(rmm_base);

} // namespace
} // namespace saeta::conformance
