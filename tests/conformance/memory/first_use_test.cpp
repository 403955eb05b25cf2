// The context of the process (saeta/runtime/runtime.hpp), on the devices that the runtime knows.

#include "conformance/harness/backends.hpp"
#include "saeta/base/error.hpp"
#include "saeta/memory/buffer.hpp"
#include "saeta/runtime/runtime.hpp"

#include <algorithm>
#include <array>
#include <latch>
#include <thread>

namespace saeta::conformance {
namespace {

class first_use : public backend_test {
protected:
  void SetUp() override {
    if (id().kind == device_kind::sim) {
      GTEST_SKIP() << "the runtime opens no simulated device";
    }
    close();
  }
  void TearDown() override {
    close();
    backend_test::TearDown();
  }

  [[nodiscard]] device_id id() const { return device().device(); }
  void close() const {
    if (const auto open = find_context(id())) {
      EXPECT_TRUE(open->close().empty()) << "an earlier test left memory behind";
    }
  }
};

TEST_P(first_use, eight_racing_first_users_get_one_context) {
  constexpr std::size_t racers = 8;
  for (int round = 0; round < 20; ++round) {
    close();
    std::array<std::shared_ptr<context>, racers> got;
    std::latch start(racers);
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < racers; ++i) {
      threads.emplace_back([&, i] {
        start.arrive_and_wait();
        got[i] = open_context(id());
        static_cast<void>(buffer::allocate(got[i], 1000, got[i]->work_stream()));
      });
    }
    threads.clear();
    ASSERT_NE(got[0], nullptr);
    EXPECT_TRUE(std::all_of(got.begin(), got.end(), [&](const auto& each) { return each == got[0]; }));
    EXPECT_EQ(got[0]->reports().statistics().budget.requests, racers);
    EXPECT_EQ(got[0]->reports().statistics().budget.current, 0U);
  }
}

TEST_P(first_use, a_failed_creation_can_be_tried_again) {
  open_options odd;
  odd.stack = "guard, guard";
  EXPECT_THROW(static_cast<void>(open_context(id(), odd)), error);
  EXPECT_EQ(find_context(id()), nullptr);
  const auto opened = open_context(id());
  EXPECT_EQ(find_context(id()), opened);
}

SAETA_CONFORMANCE_SUITE(first_use);

} // namespace
} // namespace saeta::conformance
