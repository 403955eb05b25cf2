// The ranks of ranks.hpp can communicate, which needs no GPU.
#include "rapidsmpf/ranks.hpp"

#include <gtest/gtest.h>

namespace saeta::conformance {
namespace {

TEST(ranks_of_rapidsmpf, reach_each_other) {
  constexpr std::uint8_t value = 7;
  std::vector<std::uint8_t> received;
  run_ranks(2, [&](const std::shared_ptr<rapidsmpf::Communicator>& ranks) {
    const rapidsmpf::Tag tag(1, 1);
    if (ranks->rank() == 0) {
      auto sent = ranks->send(std::make_unique<std::vector<std::uint8_t>>(10, value), 1, tag);
      while (!ranks->test(sent)) {
        std::this_thread::yield();
      }
      return;
    }
    while (received.empty()) {
      if (const auto message = ranks->recv_any(tag).first) {
        received = *message;
      }
      std::this_thread::yield();
    }
  });
  EXPECT_EQ(received, std::vector<std::uint8_t>(10, value));
}

} // namespace
} // namespace saeta::conformance
