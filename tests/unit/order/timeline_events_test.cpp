// The number and the lifetime of events and timelines (saeta/order/timeline.hpp).
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/base/error.hpp"
#include "saeta/order/captures.hpp"
#include "saeta/order/timeline.hpp"
#include "unit/base/raises.hpp"
#include "unit/device/held_device.hpp"
#include "unit/device/mock_backend.hpp"
#include "unit/observe/counted_new.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace saeta {
namespace {

using ::testing::_;
using ::testing::Exactly;
using ::testing::NiceMock;
using ::testing::Return;
using namespace std::chrono_literals;

constexpr std::size_t many_streams = 64; ///< with more timelines, idle ones are retired

/// A mock of a GPU that counts its events.
class events_of_timelines : public ::testing::Test {
protected:
  events_of_timelines() {
    ON_CALL(*driver, device()).WillByDefault(Return(device_id{device_kind::cuda, 0}));
    ON_CALL(*driver, create_stream()).WillByDefault([this] { return host_->create_stream(); });
    ON_CALL(*driver, stream_id(_)).WillByDefault([](stream_handle s) {
      return static_cast<std::uint64_t>(s);
    });
    ON_CALL(*driver, create_event()).WillByDefault([this] { return host_->create_event(); });
    ON_CALL(*driver, event_complete(_)).WillByDefault([this](event_handle) { return finished; });
  }

  bool finished = false; ///< all work of the device has finished
  std::shared_ptr<NiceMock<unit::mock_backend>> driver = std::make_shared<NiceMock<unit::mock_backend>>();

private:
  std::shared_ptr<backend> host_ = make_host_backend();
};

TEST_F(events_of_timelines, are_at_most_sixteen_for_a_stream) {
  const auto clocks = timelines::of(*driver);
  const stream foreign(driver);
  EXPECT_CALL(*driver, create_event()).Times(Exactly(16));
  for (int i = 0; i < 100; ++i) {
    static_cast<void>(mark(foreign.ref()));
  }
  finished = true;
}

TEST_F(events_of_timelines, are_reused) {
  const auto clocks = timelines::of(*driver);
  const stream foreign(driver);
  EXPECT_CALL(*driver, create_event()).Times(Exactly(1));
  finished = true;
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(has_passed(mark(foreign.ref())));
    synchronize(mark(foreign.ref()));
  }
}

TEST_F(events_of_timelines, are_reused_after_a_driver_error) {
  const auto clocks = timelines::of(*driver);
  ON_CALL(*driver, record_context(_)).WillByDefault(Return(fence_outcome::refused));
  EXPECT_CALL(*driver, create_event()).Times(Exactly(1));
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(clocks->mark_device());
  }
  EXPECT_EQ(clocks->events_recorded(), 0U);
}

TEST_F(events_of_timelines, over_all_work_delay_an_announced_capture) {
  const auto clocks = timelines::of(*driver);
  std::atomic<bool> may_begin = false;
  std::thread capturing;
  EXPECT_CALL(*driver, record_context(_)).WillOnce([&](event_handle) {
    capturing = std::thread([&] {
      const auto announced = clocks->graph_captures().announce();
      may_begin = true;
    });
    std::this_thread::sleep_for(50ms); // long enough for an announcement that does not wait
    EXPECT_FALSE(may_begin) << "the event would end the capture";
    return fence_outcome::recorded;
  });
  EXPECT_TRUE(clocks->mark_device());
  capturing.join();
  EXPECT_TRUE(may_begin);
  finished = true;
}

TEST_F(events_of_timelines, are_not_queried_after_the_host_has_waited_for_them) {
  const auto clocks = timelines::of(*driver);
  const stream foreign(driver);
  const point early = mark(foreign.ref());
  const point late = mark(foreign.ref());
  EXPECT_CALL(*driver, synchronize_event(_)).Times(1);
  synchronize(late);
  EXPECT_CALL(*driver, event_complete(_)).Times(0);
  EXPECT_TRUE(has_passed(late));
  EXPECT_TRUE(has_passed(early));
  synchronize(early);
  EXPECT_TRUE(has_passed(late));
  EXPECT_EQ(clocks->events_recorded(), 2U);
}

TEST_F(events_of_timelines, are_not_reused_while_a_thread_is_about_to_wait_for_them) {
  const auto clocks = timelines::of(*driver);
  const stream one(driver);
  const stream two(driver);
  const stream three(driver);
  const point done = mark(one.ref());
  event_handle awaited{};
  EXPECT_CALL(*driver, wait_event(two.native_handle(), _)).WillOnce([&](stream_handle, event_handle of) {
    awaited = of;
    finished = true;
    EXPECT_TRUE(has_passed(done)); // releases the event
    static_cast<void>(mark(three.ref()));
  });
  EXPECT_CALL(*driver, record_event(_, three.native_handle())).WillOnce([&](event_handle of, stream_handle) {
    EXPECT_NE(of, awaited);
  });
  wait(two.ref(), done);
  EXPECT_NE(awaited, event_handle{});
}

TEST(timelines_of_streams, keep_at_most_256_unused_events) {
  const auto device = unit::make_held_device();
  const auto clocks = timelines::of(*device);
  std::vector<stream> streams;
  std::vector<std::unique_ptr<sim::hold>> gates;
  std::vector<point> points;
  for (int i = 0; i < 300; ++i) {
    gates.push_back(device->close_gate(streams.emplace_back(device).native_handle()));
    points.push_back(mark(streams.back().ref()));
  }
  EXPECT_EQ(device->live().events, 300U);
  gates.clear();
  device->run();
  for (const point& each : points) {
    EXPECT_TRUE(has_passed(each));
  }
  EXPECT_EQ(device->live().events, 256U);
}

TEST(timelines_of_streams, are_retired_when_their_number_has_doubled) {
  const auto device = unit::make_held_device();
  const auto clocks = timelines::of(*device);
  std::vector<stream> streams;
  std::vector<std::unique_ptr<sim::hold>> gates;
  const auto mark_one = [&] { static_cast<void>(mark(streams.emplace_back(device).ref())); };
  for (std::size_t i = 0; i < many_streams; ++i) {
    if (i < 40) {
      gates.push_back(device->close_gate(streams.emplace_back(device).native_handle()));
      static_cast<void>(mark(streams.back().ref()));
    } else {
      mark_one();
    }
    EXPECT_EQ(clocks->size(), i + 1);
  }
  device->run();
  mark_one();
  EXPECT_EQ(clocks->size(), 40U + 1) << "the busy ones stay";
  while (clocks->size() < 80) {
    mark_one();
  }
  device->run();
  mark_one();
  EXPECT_EQ(clocks->size(), 40U + 1);
  gates.clear();
  device->run();
  while (clocks->size() < 80) {
    mark_one();
  }
  device->run();
  mark_one();
  EXPECT_EQ(clocks->size(), 1U);
  for (std::size_t i = 1; i < many_streams; ++i) {
    mark_one();
  }
  EXPECT_EQ(clocks->size(), many_streams);
  device->run();
  mark_one();
  EXPECT_EQ(clocks->size(), 1U);
}

TEST(timelines_of_streams, of_an_idle_own_stream_need_no_event_at_its_end) {
  const auto device = unit::make_held_device();
  const auto clocks = timelines::of(*device);
  point last;
  {
    const own_stream brief(clocks);
    last = mark(brief.ref());
  }
  EXPECT_EQ(clocks->events_recorded(), 0U);
  EXPECT_TRUE(has_passed(last));
  EXPECT_EQ(clocks->events_recorded(), 0U);
}

TEST(timelines_of_streams, distinguish_own_and_foreign_streams) {
  const auto device = unit::make_held_device();
  const auto clocks = timelines::of(*device);
  const stream foreign(device);
  const own_stream ours(clocks);
  EXPECT_FALSE(is_ours(foreign.ref()));
  EXPECT_TRUE(is_ours(ours.ref()));
  device->begin_capture(foreign.native_handle());
  const stream_ref capturing = foreign.ref();
  EXPECT_FALSE(is_ours(capturing));
  EXPECT_NO_THROW(wait(capturing, point{})) << "which is over always";
  std::string message;
  EXPECT_EQ(unit::code_raised_by([&] { static_cast<void>(timeline_of(capturing)); }, &message),
            errc::invalid_argument);
  EXPECT_EQ(message, "a stream that captures a graph has no timeline: its work does not run");
  EXPECT_TRUE(device->end_capture(foreign.native_handle()));
}

TEST(timelines_of_streams, ignore_the_end_of_an_unknown_stream) {
  const auto device = unit::make_held_device();
  const auto clocks = timelines::of(*device);
  const std::size_t before = device->live().streams;
  stream unknown(device);
  const stream_ref ref = unknown.ref();
  clocks->forget(std::move(unknown), ref);
  EXPECT_EQ(device->live().streams, before);
}

TEST(timelines_of_streams, can_be_made_after_a_failed_allocation) {
  const auto device = unit::make_held_device();
  const auto clocks = timelines::of(*device);
  std::vector<std::pair<stream, stream_ref>> adopted;
  std::size_t failed = 0;
  for (int i = 0; i < 200; ++i) {
    stream own(device);
    const stream_ref ref = own.ref();
    try {
      const unit::failing_new no_memory(1);
      clocks->adopt(ref);
    } catch (const std::bad_alloc&) {
      ++failed;
      clocks->adopt(ref);
    }
    EXPECT_TRUE(is_ours(ref));
    adopted.emplace_back(std::move(own), ref);
  }
  EXPECT_GE(failed, 200U / 64) << "of each chunk of them";
  for (auto& [own, ref] : adopted) {
    clocks->forget(std::move(own), ref);
  }
}

TEST(timelines_of_devices, belong_to_no_stream_even_in_a_reused_slot) {
  for (int i = 0; i < 3; ++i) {
    const auto device = unit::make_held_device();
    const auto clocks = timelines::of(*device);
    static_cast<void>(mark(stream_ref(*device, legacy_stream)));
    device->run();
  }
  std::vector<std::shared_ptr<timelines>> all;
  for (int i = 0; i < 10; ++i) {
    const auto& clocks = all.emplace_back(timelines::of(*unit::make_held_device()));
    const auto everything = clocks->mark_device();
    ASSERT_TRUE(everything);
    EXPECT_EQ(stream_id_of(everything->timeline), 0U);
  }
}

TEST(timelines_of_devices, that_have_ended_leave_their_slot_to_others) {
  for (const std::size_t at_once : {2U, 1U, 1U}) { // so that the first slot belonged to a stream
    std::vector<std::shared_ptr<sim::device>> devices;
    std::vector<std::shared_ptr<timelines>> clocks;
    for (std::size_t i = 0; i < at_once; ++i) {
      clocks.push_back(timelines::of(*devices.emplace_back(unit::make_held_device())));
      static_cast<void>(timeline_of(stream_ref(*devices.back(), legacy_stream)));
    }
  }
  EXPECT_EQ(stream_id_of(timeline_id::none), 0U);
  std::set<std::uint64_t> places;
  for (int i = 0; i < 10; ++i) {
    const auto device = unit::make_held_device();
    const auto everything = timelines::of(*device)->mark_device();
    ASSERT_TRUE(everything);
    device->run();
    places.insert(static_cast<std::uint64_t>(everything->timeline) % (1U << 24));
  }
  EXPECT_LE(places.size(), 2U);
}

TEST(timelines_of_devices, that_are_lost_leak_nothing) {
  const std::size_t before = timelines::collect_orphans(); // number left by other tests
  const auto device = unit::make_held_device();
  {
    auto clocks = timelines::of(*device);
    std::unique_ptr<sim::hold> gate;
    const own_stream brief(clocks);
    gate = device->close_gate(brief.ref().native_handle());
    static_cast<void>(mark(brief.ref()));
    device->mark_lost();
  }
  EXPECT_EQ(timelines::collect_orphans(), before);
}

TEST(timelines_of_devices, without_owners_are_destroyed_after_their_work) {
  const std::size_t before = timelines::collect_orphans(); // number left by other tests
  auto device = unit::make_held_device();
  const std::weak_ptr<sim::device> left = device;
  auto gate = device->close_gate(legacy_stream);
  const point pending = mark(stream_ref(*device, legacy_stream));
  EXPECT_EQ(timelines::collect_orphans(), before + 1);
  gate->open();
  device->run();
  device.reset();
  gate.reset();
  EXPECT_FALSE(left.expired());
  const auto other = unit::make_held_device();
  const auto clocks = timelines::of(*other); // also collects orphans
  EXPECT_TRUE(left.expired());
  EXPECT_TRUE(has_passed(pending));
  EXPECT_EQ(timelines::collect_orphans(), before);
}

} // namespace
} // namespace saeta
