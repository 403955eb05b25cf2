// The reaper on a simulated device that runs work only when a call waits for it.
#include "saeta/base/error.hpp"
#include "saeta/base/report.hpp"
#include "saeta/order/reaper.hpp"
#include "unit/device/held_device.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

namespace saeta {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using clock = reaper::clock;

class reaper_test : public ::testing::TestWithParam<release_thread> {
protected:
  reaper_test() { reported = 0; }
  ~reaper_test() override { set_report_sink(before_); }

  static inline std::atomic<int> reported{0}; ///< reports that a release will be retried

  /// A release whose work waits for a closed gate.
  struct held_release {
    own_stream stream;
    std::unique_ptr<sim::hold> gate;
    std::shared_ptr<std::atomic<int>> done = std::make_shared<std::atomic<int>>(0);
  };
  held_release submit_held(std::string label = "held", std::uint64_t bytes = 0) {
    held_release made{own_stream(clocks), nullptr};
    made.gate = device->close_gate(made.stream.ref().native_handle());
    pending_release release{.after = {}, .action = {}, .label = std::move(label), .bytes = bytes};
    release.after.points.add(record(made.stream.ref()));
    release.action = [done = made.done] { return ++*done != 0; };
    releases.submit(std::move(release));
    return made;
  }
  /// Opens the gate and runs the work of the device.
  void finish(const held_release& which) {
    which.gate->open();
    device->run();
  }

  std::shared_ptr<sim::device> device = unit::make_held_device();
  std::shared_ptr<timelines> clocks = timelines::of(*device);
  std::atomic<bool> captured = false;
  reaper releases{
      [this]() -> std::optional<point_set> { return captured ? std::nullopt : std::optional(point_set()); },
      GetParam()};

private:
  report_sink before_ = set_report_sink(+[](std::string_view label, std::string_view) noexcept {
    reported += label == "reaper: a release is tried again" ? 1 : 0;
  });
};

TEST_P(reaper_test, runs_a_release_without_dependencies_immediately) {
  int done = 0;
  releases.submit({.after = {}, .action = [&] { return ++done != 0; }, .label = {}, .bytes = 0});
  EXPECT_EQ(done, 1);
  EXPECT_EQ(releases.pending(), 0U);
  EXPECT_TRUE(releases.wait_idle(milliseconds(0)));
}

TEST_P(reaper_test, runs_each_release_independently_of_others) {
  const held_release slow = submit_held();
  const held_release fast = submit_held();
  finish(fast);
  EXPECT_TRUE(releases.wait_for_one(0, clock::now() + seconds(20)));
  EXPECT_EQ(*fast.done, 1) << "it waited for the one before it";
  EXPECT_EQ(*slow.done, 0);
  finish(slow);
  EXPECT_TRUE(releases.wait_idle(seconds(20)));
  EXPECT_EQ(*slow.done, 1);
}

TEST_P(reaper_test, does_not_wait_for_a_release_that_is_already_done) {
  const std::uint64_t before = releases.done();
  const held_release slow = submit_held();
  const held_release fast = submit_held();
  finish(fast);
  while (releases.done() == before) {
    releases.drain();
  }
  EXPECT_TRUE(releases.wait_for_one(
      before, clock::time_point::max())); // would never return if it waited for another release
  finish(slow);
  EXPECT_TRUE(releases.wait_idle(seconds(20)));
  EXPECT_EQ(releases.done(), before + 2);
}

TEST_P(reaper_test, ends_a_wait_at_its_deadline) {
  const held_release held = submit_held();
  EXPECT_FALSE(releases.wait_idle(milliseconds(1))); // would never return if it waited for the work
  EXPECT_FALSE(releases.wait_for_one(releases.done(), clock::now()));
  EXPECT_EQ(releases.pending(), 1U);
  finish(held);
  EXPECT_TRUE(releases.wait_idle(seconds(20)));
}

TEST_P(reaper_test, does_not_wait_for_the_end_of_a_capture) {
  captured = true;
  bool done = false;
  releases.submit({.after = {.points = {}, .unknown = true},
                   .action = [&] { return done = true; },
                   .label = {},
                   .bytes = 0});
  EXPECT_FALSE(
      releases.wait_for_one(releases.done(), clock::time_point::max())); // would never return if it waited
  EXPECT_FALSE(releases.wait_idle(milliseconds(1'000'000)));
  EXPECT_FALSE(done);
  captured = false;
  if (GetParam() == release_thread::none) {
    releases.drain();
  }
  EXPECT_TRUE(releases.wait_idle(seconds(20)));
  EXPECT_TRUE(done);
}

TEST_P(reaper_test, keeps_releases_pending_while_the_device_fails) {
  const held_release held = submit_held();
  device->set_fail_percent(100);
  for (int i = 0; i < 20; ++i) {
    releases.drain();
  }
  EXPECT_EQ(*held.done, 0) << "memory in use was given back";
  EXPECT_EQ(reported, 1);
  EXPECT_EQ(releases.pending(), 1U);
  device->set_fail_percent(0);
  finish(held);
  EXPECT_TRUE(releases.wait_idle(seconds(20)));
  EXPECT_EQ(*held.done, 1);
}

TEST_P(reaper_test, runs_pending_releases_of_a_lost_device) {
  const held_release held = submit_held();
  device->mark_lost();
  EXPECT_TRUE(releases.wait_idle(seconds(20)));
  EXPECT_EQ(*held.done, 1);
}

TEST_P(reaper_test, runs_and_destroys_actions_without_holding_a_lock) {
  struct asking { // queries the reaper in its destructor
    asking(reaper& asked, std::atomic<std::size_t>& answer) : of(asked), pending(answer) {}
    asking(const asking&) = delete;
    asking& operator=(const asking&) = delete;
    ~asking() { pending = of.pending(); }
    reaper& of;
    std::atomic<std::size_t>& pending;
  };
  const own_stream stream(clocks);
  const auto gate = device->close_gate(stream.ref().native_handle());
  std::atomic<std::size_t> within{0};
  std::atomic<std::size_t> dropped{0};
  pending_release release{.after = {}, .action = {}, .label = {}, .bytes = 0};
  release.after.points.add(record(stream.ref()));
  release.action = [&, last = std::make_shared<asking>(releases, dropped)] {
    within = releases.pending();
    return true;
  };
  releases.submit(std::move(release));
  EXPECT_TRUE(releases.can_wait());
  gate->open();
  device->run();
  EXPECT_TRUE(releases.wait_idle(seconds(20)));
  EXPECT_EQ(within, 1U);
  EXPECT_EQ(dropped, 1U) << "for ever, if the lock were held";
  EXPECT_FALSE(releases.can_wait()) << "for nothing";
}

TEST_P(reaper_test, does_not_wait_for_releases_blocked_by_a_capture) {
  captured = true;
  releases.submit(
      {.after = {.points = {}, .unknown = true}, .action = [] { return true; }, .label = {}, .bytes = 0});
  EXPECT_FALSE(releases.can_wait());
  const held_release held = submit_held();
  EXPECT_TRUE(releases.can_wait());
  finish(held);
  while (*held.done == 0) {
    releases.drain();
  }
  captured = false;
  while (releases.pending() != 0) {
    releases.drain();
  }
}

TEST(reaper_that_asks, retries_after_any_exception_and_reports_it_once) {
  static int reported = 0;
  const report_sink before =
      set_report_sink(+[](std::string_view, std::string_view) noexcept { ++reported; });
  reported = 0;
  bool fails = true;
  reaper releases(
      [&]() -> std::optional<point_set> {
        if (fails) {
          throw std::runtime_error("broken");
        }
        return point_set();
      },
      release_thread::none);
  releases.submit(
      {.after = {.points = {}, .unknown = true}, .action = [] { return true; }, .label = {}, .bytes = 0});
  for (int times = 0; times < 3; ++times) {
    EXPECT_EQ(releases.drain(), 0U);
  }
  EXPECT_EQ(releases.pending(), 1U);
  EXPECT_EQ(reported, 1);
  fails = false;
  EXPECT_EQ(releases.drain(), 1U);
  set_report_sink(before);
}

TEST_P(reaper_test, retries_failed_actions) {
  std::atomic<int> tries{0};
  releases.submit({.after = {}, .action = [&] { return ++tries == 3; }, .label = {}, .bytes = 0});
  EXPECT_TRUE(releases.wait_idle(seconds(20)));
  EXPECT_EQ(tries, 3);
}

TEST_P(reaper_test, leaves_releases_to_its_background_thread) {
  const own_stream stream(clocks);
  const auto gate = device->close_gate(stream.ref().native_handle());
  std::atomic<std::thread::id> released_by{};
  pending_release release{.after = {}, .action = {}, .label = {}, .bytes = 0};
  release.after.points.add(record(stream.ref()));
  release.action = [&] {
    released_by = std::this_thread::get_id();
    return true;
  };
  releases.submit(std::move(release));
  gate->open();
  device->run();
  while (releases.pending() != 0) {
    static_cast<void>(releases.wait_for_one(releases.done(), clock::now() + seconds(20)));
  }
  EXPECT_EQ(released_by.load() == std::this_thread::get_id(), GetParam() == release_thread::none);
}

TEST_P(reaper_test, lists_pending_releases) {
  const held_release one = submit_held("orders", 100);
  const held_release two = submit_held("trips", 20);
  auto found = releases.pending_bytes();
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, (decltype(found){{"orders", 100}, {"trips", 20}}));
  finish(one);
  finish(two);
  EXPECT_TRUE(releases.wait_idle(seconds(20)));
  EXPECT_TRUE(releases.pending_bytes().empty());
}

TEST(reaper_that_asks, holds_no_lock_while_it_queries_the_device) {
  std::size_t seen = 0;
  std::vector<std::pair<std::string, std::uint64_t>> bytes;
  bool asked = false; // set before the second thread is started
  reaper slow(
      [&]() -> std::optional<point_set> {
        if (asked) {
          const std::jthread other([&] { // would never end if the lock were held
            slow.submit({.after = {}, .action = [] { return true; }, .label = {}, .bytes = 0});
            seen = slow.pending();
            bytes = slow.pending_bytes();
          });
        }
        return asked ? std::optional(point_set()) : std::nullopt;
      },
      release_thread::none);
  slow.submit({.after = {.points = {}, .unknown = true},
               .action = [] { return true; },
               .label = "asked for",
               .bytes = 7});
  asked = true;
  EXPECT_EQ(slow.drain(), 1U);
  EXPECT_EQ(seen, 1U);
  EXPECT_EQ(bytes, (decltype(bytes){{"asked for", 7}}));
  EXPECT_EQ(slow.pending(), 0U);
}

TEST(reaper_of_a_context, may_be_destroyed_by_an_action_on_its_own_thread) {
  sim::options chosen;
  chosen.run_percent = 0;
  const auto device = sim::device::create(chosen);
  const own_stream stream(timelines::of(*device));
  const auto gate = device->close_gate(stream.ref().native_handle());
  auto ending = std::make_unique<reaper>([]() -> std::optional<point_set> { return point_set(); });
  std::promise<void> ended;
  pending_release release{.after = {}, .action = {}, .label = {}, .bytes = 0};
  release.after.points.add(record(stream.ref()));
  release.action = [&] {
    ending.reset(); // as the release of a context's last memory does
    ended.set_value();
    return true;
  };
  ending->submit(std::move(release));
  gate->open();
  device->run();
  ended.get_future().wait();
  EXPECT_EQ(ending, nullptr);
}

INSTANTIATE_TEST_SUITE_P(both, reaper_test,
                         ::testing::Values(release_thread::background, release_thread::none),
                         [](const auto& of) {
                           return of.param == release_thread::background ? "background" : "none";
                         });

} // namespace
} // namespace saeta
