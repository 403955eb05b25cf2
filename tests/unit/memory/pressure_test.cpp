// The steps of memory/pressure.hpp one by one; tests/conformance/memory has them under a context.
#include "saeta/backend/sim/sim.hpp"
#include "saeta/budget/detail/probe.hpp"
#include "saeta/device/stream.hpp"
#include "saeta/memory/pressure.hpp"
#include "support/interrupts.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace saeta {
namespace {

using support::interrupts;
using support::stopped_clock;

struct stop {};

class pressure_test : public testing::Test {
protected:
  [[nodiscard]] pressure make(const pressure_policy& policy) {
    return {policy, releases_, log_, device_->device(), [](const shortage&) { return std::size_t{0}; }};
  }
  /// A release that is pending until the gate is opened.
  [[nodiscard]] std::unique_ptr<sim::hold> submit_pending() {
    auto gate = device_->close_gate(stream_.ref().native_handle());
    pending_release pending;
    pending.after.points.add(record(stream_.ref()));
    pending.action = [this] { return released_ = true; };
    releases_.submit(std::move(pending));
    return gate;
  }

  std::shared_ptr<sim::device> device_ = sim::device::create({.seed = 1, .how = sim::pace::automatic});
  std::shared_ptr<timelines> clocks_ = timelines::of(*device_);
  stream stream_{device_};
  std::atomic<bool> released_{false};
  reaper releases_{[] { return std::optional(point_set()); }};
  event_log log_;
};

TEST_F(pressure_test, asks_hooks_by_priority_and_those_of_one_priority_in_the_order_of_their_registration) {
  pressure steps = make({.drain = false, .trim = false});
  std::vector<std::string> asked;
  std::vector<hook_registration> hooks;
  const std::vector<std::pair<std::string, int>> registered{{"first", 0},  {"second", 0},   {"urgent", 5},
                                                            {"third", 0},  {"last", -5},    {"urgent too", 5},
                                                            {"fourth", 0}, {"last too", -5}};
  for (const auto& [name, priority] : registered) {
    hooks.push_back(steps.add_hook(name, priority, [&asked, name = name](std::uint64_t) {
      asked.push_back(name);
      return std::uint64_t{0};
    }));
  }
  shortage missing(10, nullptr);
  EXPECT_FALSE(steps.relieve(missing));
  const std::vector<std::string> expected{"urgent", "urgent too", "first", "second",
                                          "third",  "fourth",     "last",  "last too"};
  EXPECT_EQ(asked, expected);
}

TEST_F(pressure_test, waits_for_pending_releases) {
  pressure steps = make({.drain = false, .release_wait = std::chrono::minutes(5)});
  const auto gate = submit_pending();
  const interrupts hook([&] { gate->open(); }); // asked once it waits
  shortage missing(10, nullptr);
  EXPECT_TRUE(steps.relieve(missing));
  EXPECT_TRUE(released_) << "did not wait";
  EXPECT_EQ(releases_.pending(), 0U);
}

TEST_F(pressure_test, waits_for_pending_releases_no_longer_than_its_policy_says) {
  const stopped_clock clock;
  pressure steps = make({.drain = false, .release_wait = std::chrono::minutes(5), .trim = false});
  const auto gate = submit_pending();
  int asked = 0;
  const interrupts hook([&] {
    if (++asked > 1) {
      throw stop{};
    }
    stopped_clock::move_by(std::chrono::minutes(5));
  });
  shortage missing(10, nullptr);
  EXPECT_NO_THROW(EXPECT_FALSE(steps.relieve(missing)) << "nothing was released");
  EXPECT_EQ(asked, 1);
  EXPECT_FALSE(released_);
  gate->open();
  EXPECT_TRUE(releases_.wait_idle(std::chrono::minutes(5)));
}

TEST_F(pressure_test, a_wait_for_pending_releases_can_be_interrupted) {
  pressure steps = make({.drain = false, .release_wait = std::chrono::minutes(5)});
  const auto gate = submit_pending();
  {
    const interrupts hook([] { throw stop{}; });
    shortage missing(10, nullptr);
    EXPECT_THROW(steps.relieve(missing), stop);
  }
  EXPECT_FALSE(released_);
  gate->open();
  EXPECT_TRUE(releases_.wait_idle(std::chrono::minutes(5)));
}

TEST_F(pressure_test, waits_in_line_no_longer_than_its_policy_says) {
  const stopped_clock clock;
  const auto full = budget::create("full", 10);
  ASSERT_TRUE(full->try_charge(10));
  pressure steps = make({.drain = false, .trim = false, .wait = std::chrono::minutes(5)});
  const auto deadline = stopped_clock::now() + std::chrono::minutes(5);
  int asked = 0;
  const interrupts hook([&] {
    EXPECT_EQ(budget_probe::deadlines(*full), std::vector{deadline});
    if (++asked > 1) {
      throw stop{};
    }
    stopped_clock::move_to(deadline);
  });
  shortage missing(1, full.get());
  EXPECT_NO_THROW(EXPECT_FALSE(steps.relieve(missing)));
  EXPECT_EQ(asked, 1);
  EXPECT_FALSE(missing.charged);
  EXPECT_EQ(full->waiting(), 0U);
}

TEST_F(pressure_test, a_request_that_is_interrupted_takes_nothing_with_it) {
  const auto full = budget::create("full", 10);
  ASSERT_TRUE(full->try_charge(10));
  pressure steps = make({.drain = false, .trim = false, .wait = std::chrono::minutes(5)});
  const interrupts hook([] { throw stop{}; });
  shortage missing(1, full.get());
  EXPECT_THROW(steps.relieve(missing), stop);
  EXPECT_FALSE(missing.charged);
  EXPECT_EQ(full->waiting(), 0U);
  EXPECT_EQ(full->statistics().current, 10U);
}

} // namespace
} // namespace saeta
