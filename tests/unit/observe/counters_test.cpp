#include "saeta/observe/counters.hpp"

#include <gtest/gtest.h>

#include <array>

namespace saeta {
namespace {

constexpr std::array movements{&counters::host_to_device,   &counters::device_to_host,
                               &counters::device_to_device, &counters::host_to_host,
                               &counters::peer_to_device,   &counters::scalars};
constexpr std::array values{&counter_values::host_to_device,   &counter_values::device_to_host,
                            &counter_values::device_to_device, &counter_values::host_to_host,
                            &counter_values::peer_to_device,   &counter_values::scalars};

TEST(counters, count_each_kind_of_copy_separately) {
  for (std::size_t i = 0; i < movements.size(); ++i) {
    counters counted;
    traffic_counter& one = counted.*movements[i];
    one.add_transfer();
    one.add_call(100);
    one.add_call(20);
    counter_values expected;
    expected.*values[i] = {.transfers = 1, .calls = 2, .bytes = 120};
    EXPECT_EQ(counted.read(), expected) << i;
    counted.reset();
    EXPECT_EQ(counted.read(), counter_values{}) << i;
    one.add_call(7);
    expected.*values[i] = {.transfers = 0, .calls = 1, .bytes = 7};
    EXPECT_EQ(counted.read(), expected) << "it goes on from 0";
  }
}

TEST(counters, count_exports_and_waits) {
  counters counted;
  counted.exports = 3;
  counted.synchronizations = 5;
  counted.staged = 2;
  counter_values expected;
  expected.exports = 3;
  expected.synchronizations = 5;
  expected.staged = 2;
  EXPECT_EQ(counted.read(), expected);
  counted.reset();
  EXPECT_EQ(counted.read(), counter_values{});
}

} // namespace
} // namespace saeta
