// Known captures of a simulated device (saeta/order/captures.hpp).
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/base/error.hpp"
#include "saeta/device/stream.hpp"
#include "saeta/order/captures.hpp"
#include "saeta/order/timeline.hpp"
#include "unit/base/raises.hpp"
#include "unit/device/held_device.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace saeta {
namespace {

class captures_test : public ::testing::Test {
protected:
  [[nodiscard]] std::size_t streams() const { return device->live().streams; }
  void begin(const stream& on) const { device->begin_capture(on.native_handle()); }
  void end(const stream& on) const { EXPECT_TRUE(device->end_capture(on.native_handle())); }

  std::shared_ptr<sim::device> device = unit::make_held_device();
  std::shared_ptr<captures> known = std::make_shared<captures>(device);
  stream one{device};
  stream two{device};
};

TEST_F(captures_test, are_active_while_they_are_announced) {
  EXPECT_FALSE(known->active());
  auto first = known->announce();
  auto second = known->announce();
  EXPECT_TRUE(known->active());
  first.reset();
  EXPECT_TRUE(known->active());
  second.reset();
  EXPECT_FALSE(known->active());
}

TEST_F(captures_test, are_active_from_when_they_are_noted_until_they_end) {
  const std::size_t before = streams();
  EXPECT_FALSE(known->note(one.ref()));
  EXPECT_FALSE(known->active());
  begin(one);
  EXPECT_FALSE(known->active()) << "not noted yet";
  EXPECT_TRUE(known->note(one.ref()));
  EXPECT_TRUE(known->note(one.ref()));
  EXPECT_TRUE(known->active());
  EXPECT_EQ(streams(), before + 1) << "a companion stream follows it";
  begin(two);
  EXPECT_TRUE(known->note(two.ref()));
  EXPECT_EQ(streams(), before + 2);
  end(one);
  EXPECT_TRUE(known->active());
  end(two);
  EXPECT_FALSE(known->active());
  EXPECT_FALSE(known->note(two.ref()));
  for (int times = 0; times < 3; ++times) {
    begin(one);
    EXPECT_TRUE(known->note(one.ref()));
    EXPECT_TRUE(known->active());
    begin(two);
    EXPECT_TRUE(known->note(two.ref()));
    end(two);
    EXPECT_TRUE(known->active());
    end(one);
    EXPECT_FALSE(known->active());
  }
  EXPECT_EQ(streams(), before + 2) << "which are used again";
  EXPECT_EQ(device->live().events, 0U);
}

TEST_F(captures_test, of_a_default_stream_are_not_noted) {
  device->begin_capture(per_thread_stream);
  const std::size_t before = streams();
  EXPECT_TRUE(known->note(stream_ref(*device, per_thread_stream)));
  EXPECT_EQ(streams(), before);
  EXPECT_FALSE(known->active());
  EXPECT_TRUE(device->end_capture(per_thread_stream));
}

TEST_F(captures_test, do_not_exist_on_the_host) {
  const auto host = make_host_backend();
  EXPECT_FALSE(std::make_shared<captures>(host)->note(stream_ref(*host, legacy_stream)));
}

TEST_F(captures_test, that_the_driver_fails_to_query_change_nothing) {
  begin(one);
  const stream_ref named = one.ref();
  device->set_fail_percent(100);
  EXPECT_EQ(unit::code_raised_by([&] { known->note(named); }), errc::device);
  device->set_fail_percent(0);
  EXPECT_FALSE(known->active());
  EXPECT_TRUE(known->note(named));
  EXPECT_TRUE(known->active());
  end(one);
}

} // namespace
} // namespace saeta
