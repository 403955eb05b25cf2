// Tokens on a simulated device whose driver fails.
#include "saeta/backend/sim/sim.hpp"
#include "saeta/base/report.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/memory/use_token.hpp"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <thread>

namespace saeta {
namespace {

/// Work of a token on this thread's default stream, whose end by another thread meets failures; then a use elsewhere.
std::vector<sim::race> races_after_an_end_elsewhere(std::uint64_t seed) {
  sim::options chosen;
  chosen.seed = seed;
  chosen.run_percent = 0; // nothing runs unless somebody waits
  const auto device = sim::device::create(chosen);
  const auto home = context::create(device);
  const buffer used = buffer::allocate(home, 64, home->work_stream());
  const stream_ref mine(*device, per_thread_stream);
  std::optional<use_token> token(std::in_place, mine, std::array{writes(used)});
  home->fill(token->mutable_data<std::uint8_t>(used), 1, used.size(), mine);
  device->set_fail_percent(50);
  std::thread([&] { token.reset(); }).join();
  device->set_fail_percent(0);
  use_token next(home->work_stream(), {writes(used)});
  home->fill(next.mutable_data<std::uint8_t>(used), 2, used.size(), home->work_stream());
  return device->races();
}

TEST(use_token_of_the_per_thread_default_stream,
     ended_by_another_thread_keeps_its_work_ordered_when_the_driver_fails) {
  const report_sink before = set_report_sink([](std::string_view, std::string_view) noexcept {});
  for (std::uint64_t seed = 0; seed < 32; ++seed) {
    EXPECT_TRUE(races_after_an_end_elsewhere(seed).empty()) << "seed " << seed;
  }
  set_report_sink(before);
}

} // namespace
} // namespace saeta
