// Captures by other libraries on the simulated device, and which calls invalidate them.
#include "support/foreign_capture.hpp"

#include <gtest/gtest.h>

namespace saeta::testing {
namespace {

TEST(foreign_capture, begins_after_a_number_of_backend_calls) {
  const auto on = sim::device::create();
  const event_handle event = on->create_event();
  const foreign_capture graph(on, 2);
  EXPECT_FALSE(graph.begun());
  EXPECT_EQ(on->record_context(event), fence_outcome::recorded);
  EXPECT_FALSE(graph.begun());
  EXPECT_TRUE(on->event_complete(event));
  EXPECT_FALSE(graph.begun());
  EXPECT_EQ(on->record_context(event), fence_outcome::refused);
  EXPECT_TRUE(graph.begun());
  on->destroy_event(event);
}

TEST(foreign_capture, is_invalidated_by_a_context_wide_event) {
  const auto on = sim::device::create();
  const event_handle event = on->create_event();
  foreign_capture graph(on);
  EXPECT_TRUE(graph.begun());
  EXPECT_FALSE(graph.was_ended());
  EXPECT_EQ(on->record_context(event), fence_outcome::refused);
  EXPECT_TRUE(graph.was_ended());
  EXPECT_FALSE(graph.end());
  EXPECT_EQ(on->record_context(event), fence_outcome::recorded) << "the graph is gone";
  on->destroy_event(event);
}

TEST(foreign_capture, is_not_invalidated_by_work_on_other_streams) {
  const auto on = sim::device::create();
  foreign_capture graph(on);
  const stream_handle ours = on->create_stream();
  void* const memory = on->allocate_async(64, ours);
  on->fill(memory, 1, 64, ours);
  EXPECT_TRUE(on->deallocate_async(memory, 64, ours));
  on->synchronize_stream(ours);
  on->trim_pool(0);
  EXPECT_TRUE(graph.end());
}

TEST(foreign_capture, is_not_invalidated_before_it_has_begun) {
  const auto on = sim::device::create();
  {
    foreign_capture graph(on, 100);
    EXPECT_TRUE(graph.end());
  }
  for (int i = 0; i < 200; ++i) {
    on->trim_pool(0);
  }
  EXPECT_EQ(on->live().streams, 0U);
}

} // namespace
} // namespace saeta::testing
