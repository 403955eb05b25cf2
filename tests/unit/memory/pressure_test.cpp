// The steps that free memory for a refused request (memory/pressure.hpp), one by one.
// tests/conformance/memory runs them in a context.
#include "saeta/backend/sim/sim.hpp"
#include "saeta/base/report.hpp"
#include "saeta/device/stream.hpp"
#include "saeta/memory/pressure.hpp"
#include "saeta/observe/sinks/log_sinks.hpp"
#include "support/budget_probe.hpp"
#include "support/child_process.hpp"
#include "support/interrupts.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace saeta {
namespace {

using support::interrupts;
using support::stopped_clock;

struct stop {};

class pressure_test : public ::testing::Test {
protected:
  [[nodiscard]] pressure make(const pressure_policy& policy) {
    return {policy, releases_, log_, device_->device(), [](const shortage&) { return std::size_t{0}; }};
  }
  /// A request that the first step, a drain, did not help.
  [[nodiscard]] shortage drained(std::uint64_t bytes, budget* full = nullptr) const {
    shortage need(bytes, full);
    need.attempt = 1;
    need.releases_seen = releases_.done();
    return need;
  }
  /// Submits a release that is pending until the returned gate is opened.
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

TEST_F(pressure_test, calls_hooks_by_priority_then_by_registration) {
  pressure steps = make({});
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
  shortage missing = drained(10);
  EXPECT_FALSE(steps.relieve(missing));
  const std::vector<std::string> expected{"urgent", "urgent too", "first", "second",
                                          "third",  "fourth",     "last",  "last too"};
  EXPECT_EQ(asked, expected);
}

TEST_F(pressure_test, waits_for_pending_releases) {
  pressure steps = make({.release_wait = std::chrono::minutes(5)});
  const auto gate = submit_pending();
  const interrupts hook([&] { gate->open(); }); // called when the wait has begun
  shortage missing = drained(10);
  EXPECT_TRUE(steps.relieve(missing));
  EXPECT_TRUE(released_) << "did not wait";
  EXPECT_EQ(releases_.pending(), 0U);
}

TEST_F(pressure_test, notices_a_release_that_finishes_before_the_wait) {
  pressure steps = make({.release_wait = std::chrono::minutes(5)});
  const auto gate = submit_pending();
  const interrupts hook([&] { // called before the wait begins
    gate->open();
    EXPECT_TRUE(releases_.wait_idle(std::chrono::minutes(5)));
  });
  shortage missing = drained(10);
  EXPECT_TRUE(steps.relieve(missing));
}

TEST_F(pressure_test, retries_once_after_a_release_since_the_last_attempt) {
  pressure steps = make({.release_wait = std::chrono::minutes(5)});
  const auto gate = submit_pending();
  shortage missing(10, nullptr);
  EXPECT_TRUE(steps.relieve(missing)) << "after a drain";
  gate->open();
  EXPECT_TRUE(releases_.wait_idle(std::chrono::minutes(5)));
  ++missing.attempt;
  EXPECT_TRUE(steps.relieve(missing)) << "nothing is pending, but there may be room now";
  missing.attempt = 1;
  EXPECT_FALSE(steps.relieve(missing)) << "once is enough";
}

TEST_F(pressure_test, limits_the_wait_for_pending_releases) {
  const stopped_clock clock;
  pressure steps = make({.release_wait = std::chrono::minutes(5)});
  const auto gate = submit_pending();
  int asked = 0;
  const interrupts hook([&] {
    if (++asked > 1) {
      throw stop{};
    }
    stopped_clock::move_by(std::chrono::minutes(5));
  });
  shortage missing = drained(10);
  EXPECT_NO_THROW(EXPECT_FALSE(steps.relieve(missing)) << "nothing was released");
  EXPECT_EQ(asked, 1);
  EXPECT_FALSE(released_);
  gate->open();
  EXPECT_TRUE(releases_.wait_idle(std::chrono::minutes(5)));
}

TEST_F(pressure_test, a_wait_for_pending_releases_can_be_interrupted) {
  pressure steps = make({.release_wait = std::chrono::minutes(5)});
  const auto gate = submit_pending();
  {
    const interrupts hook([] { throw stop{}; });
    shortage missing = drained(10);
    EXPECT_THROW(steps.relieve(missing), stop);
  }
  EXPECT_FALSE(released_);
  gate->open();
  EXPECT_TRUE(releases_.wait_idle(std::chrono::minutes(5)));
}

TEST_F(pressure_test, calls_the_interrupt_hook_repeatedly_while_it_waits) {
  pressure steps = make({.release_wait = std::chrono::minutes(5)});
  const stopped_clock clock; // so that the deadline is never reached
  const auto gate = submit_pending();
  int asked = 0;
  const interrupts hook([&] {
    if (++asked == 3) {
      gate->open();
    }
  });
  shortage missing = drained(10);
  EXPECT_TRUE(steps.relieve(missing));
  EXPECT_GE(asked, 3);
}

TEST_F(pressure_test, stops_at_its_deadline_even_if_others_free_memory) {
  const stopped_clock clock;
  pressure steps = make({.release_wait = std::chrono::minutes(5)});
  const auto gate = submit_pending();
  const interrupts hook([&] {
    gate->open();
    EXPECT_TRUE(releases_.wait_idle(std::chrono::minutes(5)));
    stopped_clock::move_by(std::chrono::minutes(5));
  });
  shortage missing = drained(10);
  EXPECT_FALSE(steps.relieve(missing));
  EXPECT_TRUE(released_);
}

TEST_F(pressure_test, ignores_releases_before_the_request) {
  submit_pending()->open();
  EXPECT_TRUE(releases_.wait_idle(std::chrono::minutes(5)));
  EXPECT_EQ(releases_.done(), 1U);
  pressure steps = make({.release_wait = std::chrono::minutes(5)});
  shortage missing = drained(10);
  EXPECT_FALSE(steps.relieve(missing));
}

TEST_F(pressure_test, destroys_a_hook_without_holding_a_lock) {
  pressure steps = make({});
  hook_registration other = steps.add_hook("other", 0, [](std::uint64_t) { return std::uint64_t{0}; });
  int ended = 0;
  hook_registration hook = steps.add_hook("owner", 0, [kept = std::shared_ptr<void>(nullptr, [&](void*) {
                                                         other.remove(); // as a cache does that its hook owns
                                                         ++ended;
                                                       })](std::uint64_t) { return std::uint64_t{0}; });
  hook.remove();
  EXPECT_EQ(ended, 1);
}

TEST_F(pressure_test, limits_the_wait_in_line) {
  const stopped_clock clock;
  const auto full = budget::create("full", 10);
  ASSERT_TRUE(full->try_charge(10));
  pressure steps = make({.wait = std::chrono::minutes(5)});
  const auto deadline = stopped_clock::now() + std::chrono::minutes(5);
  int asked = 0;
  const interrupts hook([&] {
    EXPECT_EQ(budget_probe::deadlines(*full), std::vector{deadline});
    if (++asked > 1) {
      throw stop{};
    }
    stopped_clock::move_to(deadline);
  });
  shortage missing = drained(1, full.get());
  EXPECT_NO_THROW(EXPECT_FALSE(steps.relieve(missing)));
  EXPECT_EQ(asked, 1);
  EXPECT_FALSE(missing.charged);
  EXPECT_EQ(full->waiting(), 0U);
}

TEST_F(pressure_test, an_interrupted_request_charges_nothing) {
  const auto full = budget::create("full", 10);
  ASSERT_TRUE(full->try_charge(10));
  pressure steps = make({.wait = std::chrono::minutes(5)});
  const interrupts hook([] { throw stop{}; });
  shortage missing = drained(1, full.get());
  EXPECT_THROW(steps.relieve(missing), stop);
  EXPECT_FALSE(missing.charged);
  EXPECT_EQ(full->waiting(), 0U);
  EXPECT_EQ(full->statistics().current, 10U);
}

TEST_F(pressure_test, tries_all_steps_until_none_helps) {
  std::vector<std::size_t> trimmed{100, 0};
  pressure steps({.release_wait = std::chrono::milliseconds(0)}, releases_, log_, device_->device(),
                 [&](const shortage& need) {
                   EXPECT_EQ(need.bytes, 10U);
                   const std::size_t next = trimmed.front();
                   trimmed.erase(trimmed.begin());
                   return next;
                 });
  std::vector<std::string> asked;
  const auto hook_that_frees = [&](const std::string& name, std::uint64_t freed) {
    return steps.add_hook(name, 0, [&asked, name, freed](std::uint64_t bytes) {
      EXPECT_EQ(bytes, 10U);
      asked.push_back(name);
      return freed;
    });
  };
  const auto first = hook_that_frees("first", 0);
  const auto second = hook_that_frees("second", 5);
  const auto third = hook_that_frees("third", 5);
  const auto fourth = hook_that_frees("fourth", 0);
  shortage missing(10, nullptr);
  EXPECT_TRUE(steps.relieve(missing)) << "what has finished was released";
  ++missing.attempt;
  EXPECT_TRUE(steps.relieve(missing)) << "trimmed";
  EXPECT_EQ(trimmed.size(), 1U);
  EXPECT_TRUE(asked.empty());
  ++missing.attempt;
  EXPECT_TRUE(steps.relieve(missing));
  EXPECT_EQ(asked, (std::vector<std::string>{"first", "second"}));
  ++missing.attempt;
  EXPECT_TRUE(steps.relieve(missing));
  ++missing.attempt;
  EXPECT_FALSE(steps.relieve(missing));
  EXPECT_EQ(asked, (std::vector<std::string>{"first", "second", "third", "fourth"}));
  EXPECT_EQ(trimmed.size(), 1U) << "no step is done twice";
}

TEST_F(pressure_test, logs_the_bytes_that_each_hook_freed) {
  const auto sink = std::make_shared<memory_sink>();
  pressure steps = make({});
  const auto nothing = steps.add_hook("nothing", 1, [](std::uint64_t) { return std::uint64_t{0}; });
  const auto some = steps.add_hook("some", 0, [](std::uint64_t) { return std::uint64_t{7}; });
  shortage missing = drained(10);
  log_.attach(sink);
  EXPECT_TRUE(steps.relieve(missing));
  log_.detach(sink);
  const auto records = sink->records();
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].label, tag("nothing"));
  EXPECT_EQ(records[0].bytes, 0U);
  EXPECT_EQ(records[1].label, tag("some"));
  EXPECT_EQ(records[1].bytes, 7U);
  for (const log_record& each : records) {
    EXPECT_EQ(each.event, memory_event::relief);
    EXPECT_EQ(each.device, device_->device());
    EXPECT_EQ(each.outcome, "ok");
  }
}

TEST_F(pressure_test, a_hook_that_throws_or_was_removed_frees_nothing) {
  const report_sink before = set_report_sink([](std::string_view, std::string_view) noexcept {});
  pressure steps = make({});
  int asked = 0;
  const auto broken = steps.add_hook("broken", 2, [&](std::uint64_t) -> std::uint64_t {
    ++asked;
    throw stop{};
  });
  auto removed = steps.add_hook("removed", 1, [&](std::uint64_t) { return std::uint64_t{1}; });
  const auto last = steps.add_hook("last", 0, [&](std::uint64_t) {
    ++asked;
    return std::uint64_t{0};
  });
  removed.remove();
  removed.remove();
  shortage missing = drained(10);
  EXPECT_FALSE(steps.relieve(missing));
  EXPECT_EQ(asked, 2);
  set_report_sink(before);
}

TEST_F(pressure_test, a_request_inside_a_hook_calls_no_hooks) {
  pressure steps = make({});
  int asked = 0;
  const auto hook = steps.add_hook("asks for more", 0, [&](std::uint64_t) {
    ++asked;
    shortage own = drained(1);
    EXPECT_FALSE(steps.relieve(own));
    return std::uint64_t{0};
  });
  for (int i = 1; i <= 2; ++i) { // twice, to check that no state remains
    shortage missing = drained(10);
    EXPECT_FALSE(steps.relieve(missing));
    EXPECT_EQ(asked, i);
  }
}

TEST_F(pressure_test, a_forked_child_removes_no_hook_of_its_parent) {
  pressure steps = make({});
  int asked = 0;
  hook_registration hook = steps.add_hook("parent's", 0, [&](std::uint64_t) {
    ++asked;
    return std::uint64_t{0};
  });
  const auto relieve = [&] {
    shortage missing = drained(10);
    EXPECT_FALSE(steps.relieve(missing));
    return std::exchange(asked, 0);
  };
  support::expect_in_a_child([&] {
    hook_registration moved;
    moved = std::move(hook);
    moved.remove();
    EXPECT_EQ(relieve(), 1) << "it may be in use by a thread of the parent that is not here";
    hook_registration own = steps.add_hook("child's", 0, [&](std::uint64_t) {
      ++asked;
      return std::uint64_t{0};
    });
    EXPECT_EQ(relieve(), 2);
    std::swap(own, moved);
    moved.remove();
    EXPECT_EQ(relieve(), 1);
  });
  EXPECT_EQ(relieve(), 1);
  hook_registration moved(std::move(hook));
  hook.remove(); // NOLINT(bugprone-use-after-move): must do nothing
  EXPECT_EQ(relieve(), 1);
  moved.remove();
  EXPECT_EQ(relieve(), 0);
}

TEST_F(pressure_test, takes_no_step_for_requests_above_the_limit) {
  const auto gate = submit_pending();
  const auto root = budget::create("root", 10);
  const auto child = root->make_child("child");
  pressure steps = make({.wait = std::chrono::minutes(5)});
  const auto hook = steps.add_hook("asked", 0, [](std::uint64_t) -> std::uint64_t {
    ADD_FAILURE() << "no cache is trimmed for it";
    return 1;
  });
  shortage missing(11, child.get());
  EXPECT_FALSE(steps.relieve(missing));
  child->close();
  shortage of_closed(1, child.get());
  EXPECT_FALSE(steps.relieve(of_closed));
}

TEST_F(pressure_test, stops_waiting_for_releases_if_the_limit_becomes_too_small) {
  const auto gate = submit_pending();
  for (const bool closing : {true, false}) {
    const auto full = budget::create("full", 10);
    ASSERT_TRUE(full->try_charge(5));
    pressure steps = make({.release_wait = std::chrono::hours(1), .wait = std::chrono::hours(1)});
    shortage missing(8, full.get());
    ASSERT_TRUE(steps.relieve(missing)) << "the first step";
    ++missing.attempt;
    const interrupts hook([&] {
      if (closing) {
        full->close();
      } else {
        full->set_limit(7);
      }
    });
    EXPECT_FALSE(steps.relieve(missing));
    full->refund(5);
  }
}

TEST_F(pressure_test, waits_in_line_only_once) {
  const auto half_full = budget::create("half full", 10);
  ASSERT_TRUE(half_full->try_charge(5));
  pressure steps = make({.wait = std::chrono::minutes(5)});
  shortage missing = drained(5, half_full.get());
  EXPECT_TRUE(steps.relieve(missing));
  EXPECT_TRUE(missing.charged);
  EXPECT_EQ(half_full->statistics().current, 10U);
  ++missing.attempt;
  EXPECT_FALSE(steps.relieve(missing));
  EXPECT_EQ(half_full->statistics().current, 10U);
}

} // namespace
} // namespace saeta
