// Timelines on a simulated device that runs work only when a call waits for it.
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/base/error.hpp"
#include "saeta/order/captures.hpp"
#include "saeta/order/timeline.hpp"
#include "unit/device/held_device.hpp"

#include <gtest/gtest.h>

#include <set>
#include <thread>

namespace saeta {
namespace {

class timelines_test : public ::testing::Test {
protected:
  [[nodiscard]] stream_ref foreign() const { return foreign_.ref(); }
  [[nodiscard]] stream_ref ours() const { return ours_.ref(); }
  [[nodiscard]] stream_ref other() const { return other_.ref(); }
  [[nodiscard]] std::uint64_t events() const { return clocks->events_recorded(); }
  /// Closes a gate on the stream, behind which work stays pending.
  [[nodiscard]] std::unique_ptr<sim::hold> hold(stream_ref stream) const {
    return device->close_gate(stream.native_handle());
  }

  std::shared_ptr<sim::device> device = unit::make_held_device();
  std::shared_ptr<timelines> clocks = timelines::of(*device);

private:
  stream foreign_{device};
  own_stream ours_{clocks};
  own_stream other_{clocks};
};

TEST_F(timelines_test, are_shared_by_all_users_of_a_backend) {
  EXPECT_EQ(timelines::of(*device), clocks);
  const auto beside = unit::make_held_device();
  EXPECT_NE(timelines::of(*beside), clocks);
}

TEST_F(timelines_test, have_unique_ids_across_backends) {
  const auto second = unit::make_held_device();
  const auto clocks_there = timelines::of(*second);
  const auto host = make_host_backend();
  const auto clocks_of_host = timelines::of(*host);
  const stream_ref here(*device, legacy_stream);
  const stream_ref there(*second, legacy_stream);
  const stream_ref on_host(*host, legacy_stream);
  ASSERT_EQ(here.id(), there.id());
  ASSERT_EQ(here.id(), on_host.id());
  EXPECT_EQ((std::set{timeline_of(here), timeline_of(there), timeline_of(on_host)}).size(), 3U);
  EXPECT_EQ(timeline_of(here), timeline_of(stream_ref(*device, legacy_stream)));
}

TEST_F(timelines_test, record_an_event_on_an_own_stream_only_when_another_needs_it) {
  point last;
  for (int i = 0; i < 10; ++i) {
    last = mark(ours());
    wait(ours(), last); // work on the same stream needs no event
  }
  EXPECT_EQ(events(), 0U);
  wait(other(), last);
  EXPECT_EQ(events(), 1U);
  wait(foreign(), last);
  EXPECT_EQ(events(), 1U) << "the same epoch was needed before";
  const point later = mark(ours());
  EXPECT_GT(later.epoch, last.epoch) << "what comes after an event is not covered by it";
  wait(other(), later);
  EXPECT_EQ(events(), 2U);
}

TEST_F(timelines_test, record_an_event_immediately_on_a_foreign_stream) {
  point done;
  std::unique_ptr<sim::hold> gate;
  {
    const stream brief(device);
    gate = hold(brief.ref());
    done = mark(brief.ref());
    EXPECT_EQ(events(), 1U);
  }
  EXPECT_FALSE(has_passed(done));
  wait(ours(), done);
  EXPECT_FALSE(ours().idle()) << "the work of a destroyed stream was not waited for";
  gate->open();
  synchronize(done);
  EXPECT_TRUE(has_passed(done));
}

TEST_F(timelines_test, report_finished_points) {
  const auto gate = hold(ours());
  const point before = mark(ours());
  EXPECT_FALSE(has_passed(before));
  gate->open();
  synchronize(before);
  EXPECT_TRUE(has_passed(before));
  EXPECT_TRUE(has_passed({})) << "a point of no timeline";
}

TEST_F(timelines_test, do_not_wait_for_work_after_a_recorded_event) {
  const point early = record(ours());
  const auto gate = hold(ours());
  const point late = record(ours());
  EXPECT_TRUE(has_passed(early));
  EXPECT_FALSE(has_passed(late));
  wait(other(), early);
  EXPECT_TRUE(other().idle());
  wait(other(), late);
  EXPECT_FALSE(other().idle());
  gate->open();
}

TEST_F(timelines_test, keep_few_events_and_all_ordering) {
  const auto gate = hold(foreign());
  const point first = mark(foreign());
  for (int i = 0; i < 1000; ++i) {
    static_cast<void>(mark(foreign()));
  }
  EXPECT_LE(device->live().events, 64U);
  EXPECT_FALSE(has_passed(first));
  wait(ours(), first);
  EXPECT_FALSE(ours().idle());
  gate->open();
  synchronize(first);
  EXPECT_TRUE(has_passed(first));
}

TEST_F(timelines_test, of_destroyed_streams_are_retired) {
  std::vector<point> points;
  for (int i = 0; i < 4096; ++i) {
    const stream brief(device);
    points.push_back(mark(brief.ref()));
  }
  EXPECT_LE(clocks->size(), 256U);
  EXPECT_LE(device->live().events, 1024U);
  for (const point& each : points) {
    EXPECT_TRUE(has_passed(each));
  }
}

TEST_F(timelines_test, of_busy_streams_are_not_retired) {
  const stream busy(device);
  const auto gate = hold(busy.ref());
  const point pending = mark(busy.ref());
  for (int i = 0; i < 4096; ++i) {
    const stream brief(device);
    static_cast<void>(mark(brief.ref()));
  }
  EXPECT_FALSE(has_passed(pending));
  wait(ours(), pending);
  EXPECT_FALSE(ours().idle());
  gate->open();
}

TEST_F(timelines_test, cover_pending_work_of_a_destroyed_own_stream) {
  point last;
  std::unique_ptr<sim::hold> gate;
  {
    const own_stream brief(clocks);
    gate = hold(brief.ref());
    last = mark(brief.ref());
  }
  EXPECT_FALSE(has_passed(last));
  wait(ours(), last);
  EXPECT_FALSE(ours().idle());
  gate->open();
  synchronize(last);
  EXPECT_TRUE(has_passed(last));
}

TEST_F(timelines_test, of_a_destroyed_stream_keep_their_ordering_if_the_driver_fails) {
  const std::size_t streams = device->live().streams;
  point last;
  std::unique_ptr<sim::hold> gate;
  {
    const own_stream brief(clocks);
    gate = hold(brief.ref());
    last = mark(brief.ref());
    device->set_fail_percent(100);
  }
  device->set_fail_percent(0);
  EXPECT_FALSE(has_passed(last)) << "memory in use would be given on";
  wait(ours(), last);
  EXPECT_FALSE(ours().idle());
  gate->open();
  synchronize(last);
  EXPECT_TRUE(has_passed(last));
  for (int i = 0; i < 1024; ++i) { // enough timelines that idle ones are retired
    const own_stream brief(clocks);
  }
  EXPECT_EQ(device->live().streams, streams) << "the stream that stayed is never destroyed";
}

TEST_F(timelines_test, of_a_destroyed_stream_are_finished_once_the_device_is_lost) {
  point last;
  std::unique_ptr<sim::hold> gate;
  {
    const own_stream brief(clocks);
    gate = hold(brief.ref());
    last = mark(brief.ref());
    device->mark_lost();
  }
  EXPECT_TRUE(has_passed(last)) << "nothing runs on it any more";
}

TEST_F(timelines_test, of_destroyed_own_streams_are_retired) {
  for (int i = 0; i < 4096; ++i) {
    const own_stream brief(clocks);
    static_cast<void>(mark(brief.ref()));
  }
  EXPECT_LE(clocks->size(), 256U);
}

TEST_F(timelines_test, outlive_their_last_owner_while_points_are_pending) {
  auto second = unit::make_held_device();
  std::unique_ptr<sim::hold> gate;
  point pending;
  {
    const auto brief = timelines::of(*second);
    gate = second->close_gate(legacy_stream);
    pending = mark(stream_ref(*second, legacy_stream));
  }
  EXPECT_FALSE(has_passed(pending)) << "memory that another device used would be given on";
  gate->open();
  synchronize(pending);
  EXPECT_TRUE(has_passed(pending));
}

TEST_F(timelines_test, refuse_to_mark_the_per_thread_default_stream_of_another_thread) {
  const stream_ref mine(*device, per_thread_stream);
  EXPECT_FALSE(mark(mine).empty());
  std::thread([&] {
    EXPECT_FALSE(mine.usable_here());
    EXPECT_THROW(static_cast<void>(mark(mine)), error);
  }).join();
}

TEST_F(timelines_test, of_the_whole_device_cover_unknown_streams) {
  const stream unnamed(device);
  const auto gate = hold(unnamed.ref());
  const auto everything = clocks->mark_device();
  ASSERT_TRUE(everything.has_value());
  EXPECT_FALSE(has_passed(*everything));
  const auto later = clocks->mark_device();
  EXPECT_EQ(later->timeline, everything->timeline);
  EXPECT_GT(later->epoch, everything->epoch);
  gate->open();
  synchronize(*later);
  EXPECT_TRUE(has_passed(*everything));
}

TEST_F(timelines_test, of_the_whole_device_are_not_marked_during_a_known_capture) {
  const auto announced = clocks->graph_captures().announce();
  EXPECT_FALSE(clocks->mark_device().has_value());
}

TEST_F(timelines_test, know_their_stream) {
  EXPECT_EQ(stream_id_of(timeline_of(foreign())), foreign().id());
  EXPECT_EQ(stream_id_of(timeline_of(ours())), ours().id());
  EXPECT_EQ(stream_id_of(timeline_id::none), 0U);
  const auto everything = clocks->mark_device();
  ASSERT_TRUE(everything.has_value());
  EXPECT_EQ(stream_id_of(everything->timeline), 0U) << "of no single stream";
}

TEST_F(timelines_test, need_no_points_on_the_host) {
  const auto host = make_host_backend();
  const auto clocks_of_host = timelines::of(*host);
  const stream inline_stream(host);
  EXPECT_TRUE(mark(inline_stream.ref()).empty());
  EXPECT_EQ(clocks_of_host->events_recorded(), 0U);
}

TEST_F(timelines_test, may_be_used_by_many_threads_at_once) {
  const stream shared(device);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        const stream brief(device);
        const point written = mark(i % 2 == 0 ? shared.ref() : brief.ref());
        wait(ours(), written);
        wait(brief.ref(), mark(ours()));
        static_cast<void>(has_passed(written));
      }
    });
  }
  threads.clear();
  device->run();
  EXPECT_TRUE(has_passed(mark(ours())));
}

} // namespace
} // namespace saeta
