#include "saeta/ipc/detail/plan_memory.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace saeta::ipc::detail {
namespace {

TEST(plan_memory, has_the_room_that_was_put_back_once) {
  plan_memory memory;
  std::vector<piece_span> spans(100);
  const void* const first = spans.data();
  memory.put_back(std::move(spans));
  memory.put_back(std::vector<scatter_step>(7));
  EXPECT_EQ(memory.host_bytes(), 100 * sizeof(piece_span) + 7 * sizeof(scatter_step));
  const std::vector<piece_span> again = memory.take_spans();
  EXPECT_EQ(again.data(), first);
  EXPECT_TRUE(again.empty());
  EXPECT_EQ(memory.take_spans().capacity(), 0U) << "two reads have the same memory";
  EXPECT_EQ(memory.take_steps().capacity(), 7U);
  EXPECT_EQ(memory.host_bytes(), 0U);
}

TEST(plan_memory, keeps_the_larger_and_nothing_too_large) {
  constexpr std::size_t most = plan_memory::most_bytes / sizeof(scatter_step);
  plan_memory memory;
  memory.put_back(std::vector<scatter_step>(20));
  memory.put_back(std::vector<scatter_step>(10));
  memory.put_back(std::vector<scatter_step>(most + 1));
  EXPECT_EQ(memory.take_steps().capacity(), 20U);
  memory.put_back(std::vector<scatter_step>(most));
  EXPECT_EQ(memory.take_steps().capacity(), most);
}

TEST(plan_memory, is_given_back_when_memory_is_trimmed) {
  plan_memory memory;
  memory.put_back(std::vector<piece_span>(3));
  memory.put_back(std::vector<scatter_step>(5));
  EXPECT_EQ(memory.trim(), 3 * sizeof(piece_span) + 5 * sizeof(scatter_step));
  EXPECT_EQ(memory.host_bytes(), 0U);
  EXPECT_EQ(memory.take_spans().capacity(), 0U);
}

} // namespace
} // namespace saeta::ipc::detail
