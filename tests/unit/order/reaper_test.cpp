#include "saeta/backend/host/host_backend.hpp"
#include "saeta/order/reaper.hpp"

#include <gtest/gtest.h>

#include <atomic>

namespace saeta {
namespace {

TEST(reaper, does_at_once_what_waits_for_nothing) {
  const auto device = make_host_backend();
  reaper r(std::make_shared<event_pool>(device));
  int done = 0;
  pending_release release;
  release.action = [&] { ++done; };
  r.submit(std::move(release));
  EXPECT_EQ(done, 1);
  EXPECT_EQ(r.pending(), 0U);
  EXPECT_TRUE(r.wait_idle(std::chrono::milliseconds(0)));
}

} // namespace
} // namespace saeta
