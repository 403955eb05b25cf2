// Memory in values of a type: sizes are checked, and the spans of a token have bounds.
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/memory/use_token.hpp"
#include "support/error_of.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

namespace saeta {
namespace {

using support::error_of;

class typed_memory : public ::testing::Test {
protected:
  template <class T>
  [[nodiscard]] error refusal_of(const buffer& used, bool writing) const {
    const use_token token(ctx_->work_stream(), {writing ? writes(used) : reads(used)});
    return error_of([&] { static_cast<void>(token.span<T>(used)); });
  }

  std::shared_ptr<context> ctx_ = context::create(make_host_backend());
};

TEST_F(typed_memory, has_room_for_the_values) {
  const buffer numbers = ctx_->allocate<double>(5, "numbers");
  EXPECT_EQ(numbers.size(), 40U);
  EXPECT_EQ(numbers.owner()->tag(), "numbers");
  EXPECT_EQ(ctx_->allocate<std::uint8_t>(std::uint64_t{7}, ctx_->work_stream()).size(), 7U);
  EXPECT_EQ(ctx_->allocate<float>(0).size(), 0U);
  struct alignas(512) line {
    std::array<float, 128> values;
  };
  EXPECT_EQ(ctx_->allocate<line>(1).address() % 512, 0U);
}

TEST_F(typed_memory, is_charged_to_the_context_that_allocates_it) {
  const auto part = ctx_->with_budget("part", 64);
  const buffer numbers = part->allocate<float>(8);
  EXPECT_EQ(part->memory_budget()->statistics().current, 32U);
  EXPECT_EQ(error_of([&] { static_cast<void>(part->allocate<float>(9)); }).code(), errc::budget_exceeded);
  const auto promised = ctx_->with_reservation(16);
  EXPECT_EQ(error_of([&] { static_cast<void>(promised->allocate<float>(5)); }).code(), errc::budget_exceeded);
}

TEST_F(typed_memory, refuses_sizes_that_no_memory_has) {
  constexpr std::size_t wraps = (std::numeric_limits<std::size_t>::max() / sizeof(double)) + 3; // 16 bytes
  const error wrapped = error_of([&] { static_cast<void>(ctx_->allocate<double>(wraps)); });
  EXPECT_EQ(wrapped.code(), errc::overflow);
  EXPECT_NE(wrapped.message().find("2305843009213693954 x 8"), std::string::npos) << wrapped.message();
  const error negative = error_of([&] { static_cast<void>(ctx_->allocate<double>(-1)); });
  EXPECT_EQ(negative.code(), errc::invalid_argument);
  EXPECT_EQ(negative.message(), "the number of values is -1");
  EXPECT_EQ(error_of([&] { static_cast<void>(ctx_->allocate<char>(static_cast<signed char>(-128))); }).code(),
            errc::invalid_argument);
}

TEST_F(typed_memory, spans_have_as_many_values_as_fit) {
  const buffer bytes = buffer::allocate(ctx_, 20, ctx_->work_stream());
  {
    const use_token token(ctx_->work_stream(), {writes(bytes)});
    const std::span<double> whole = token.span<double>(bytes);
    EXPECT_EQ(whole.size(), 2U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(whole.data()), bytes.address());
    EXPECT_EQ(token.span<float>(bytes.slice(4, 12)).size(), 3U);
    EXPECT_EQ(token.span<double>(bytes.slice(8, 0)).size(), 0U);
    EXPECT_EQ(token.span<double>(buffer()).data(), nullptr);
    static_assert(std::is_same_v<decltype(token.span<const float>(bytes)), std::span<const float>>);
  }
  for (const bool writing : {false, true}) {
    const error small = refusal_of<const double>(bytes.slice(0, 4), writing);
    EXPECT_EQ(small.code(), errc::out_of_range);
    EXPECT_NE(small.message().find("has 4 bytes, and one value takes 8"), std::string::npos)
        << small.message();
  }
  EXPECT_EQ(refusal_of<float>(bytes, false).code(), errc::invalid_argument) << "named for reading only";
  EXPECT_EQ(refusal_of<const float>(bytes.slice(1, 8), false).code(), errc::invalid_argument) << "misaligned";
}

TEST_F(typed_memory, leaves_nothing_in_a_buffer_that_was_moved_from) {
  buffer first = ctx_->allocate<float>(4).slice(4, 8);
  buffer second = std::move(first);
  EXPECT_EQ(second.size(), 8U);
  EXPECT_FALSE(first.present()); // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(first.size(), 0U);
  EXPECT_EQ(first.offset(), 0U);
  EXPECT_EQ(error_of([&] { static_cast<void>(first.slice(0, 1)); }).code(), errc::out_of_range);
  first = std::move(second);
  EXPECT_EQ(first.offset(), 4U);
  EXPECT_EQ(second.size(), 0U); // NOLINT(bugprone-use-after-move)
}

} // namespace
} // namespace saeta
