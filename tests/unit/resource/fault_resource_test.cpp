#include "saeta/backend/host/host_backend.hpp"
#include "saeta/base/error.hpp"
#include "saeta/base/report.hpp"
#include "saeta/resource/decorators/fault_resource.hpp"
#include "saeta/resource/driver/driver_resources.hpp"

#include <gtest/gtest.h>

#include <latch>
#include <thread>
#include <vector>

namespace saeta {
namespace {

class fault_resource_test : public ::testing::Test {
protected:
  void SetUp() override {
    before_ = set_report_sink([](std::string_view, std::string_view) noexcept {});
  }
  void TearDown() override {
    set_report_sink(before_);
    EXPECT_EQ(below->held_bytes(), 0u);
  }
  /// Allocates and frees a block. Returns whether the allocation failed.
  bool fails(std::size_t bytes) {
    try {
      const block made = faulty.allocate(bytes, 0, work.ref());
      EXPECT_TRUE(faulty.deallocate(made, work.ref()));
      return false;
    } catch (const error& failure) {
      EXPECT_EQ(failure.code(), errc::out_of_memory) << failure.what();
      return true;
    }
  }

  std::shared_ptr<backend> device = make_host_backend();
  stream work{device};
  std::shared_ptr<direct_resource> below = std::make_shared<direct_resource>(device);
  fault_resource faulty{below};

private:
  report_sink before_ = nullptr;
};

TEST_F(fault_resource_test, fails_the_chosen_allocation_and_no_other) {
  for (std::uint64_t position = 1; position <= 4; ++position) {
    faulty.fail_allocation(position);
    for (std::uint64_t i = 1; i <= 5; ++i) {
      EXPECT_EQ(fails(100), i == position) << "allocation " << i << " of position " << position;
    }
    EXPECT_EQ(faulty.failures(), position);
  }
}

TEST_F(fault_resource_test, fails_as_many_allocations_as_it_was_told_to) {
  faulty.fail_allocation(2, 3);
  for (std::uint64_t i = 1; i <= 6; ++i) {
    EXPECT_EQ(fails(100), i >= 2 && i < 5) << "allocation " << i;
  }
}

TEST_F(fault_resource_test, fails_nothing_by_default_and_after_zero) {
  EXPECT_FALSE(fails(100));
  faulty.fail_allocation(1);
  faulty.fail_allocation(0);
  EXPECT_FALSE(fails(100));
  EXPECT_EQ(faulty.failures(), 0u);
}

TEST_F(fault_resource_test, does_not_count_requests_of_zero_bytes) {
  faulty.fail_allocation(1);
  faulty.fail_free(1);
  const block none = faulty.allocate(0, 0, work.ref());
  EXPECT_TRUE(faulty.deallocate(none, work.ref()));
  EXPECT_EQ(faulty.failures(), 0u);
  faulty.fail_free(0);
  EXPECT_TRUE(fails(1));
}

TEST_F(fault_resource_test, a_free_that_fails_leaves_the_block_with_its_caller) {
  const block first = faulty.allocate(100, 0, work.ref());
  const block second = faulty.allocate(100, 0, work.ref());
  faulty.fail_free(2);
  EXPECT_TRUE(faulty.deallocate(first, work.ref()));
  const std::uint64_t held = below->held_bytes();
  EXPECT_FALSE(faulty.deallocate(second, work.ref()));
  EXPECT_EQ(below->held_bytes(), held);
  EXPECT_TRUE(faulty.deallocate(second, work.ref()));
}

/// A resource without any cost, so that threads mostly run the counter of the fault_resource.
class free_resource final : public resource {
public:
  std::size_t trim() override { return 0; }
  [[nodiscard]] std::uint64_t held_bytes() const override { return 0; }

private:
  block do_allocate(const allocation_request& request, const stream_ref&) override {
    block made;
    made.bytes = request.bytes;
    return made;
  }
  bool do_deallocate(const block&, std::span<const point>) noexcept override { return true; }
};

TEST_F(fault_resource_test, of_racing_threads_exactly_one_gets_the_failure) {
  constexpr std::uint64_t threads = 4;
  constexpr std::uint64_t each = 2'000'000; // long enough to run concurrently on a busy machine
  fault_resource raced(std::make_shared<free_resource>());
  raced.fail_allocation(threads * each); // not reached if a call is not counted
  raced.fail_free(threads * each - 1);
  std::atomic<std::uint64_t> no_memory{0};
  std::atomic<std::uint64_t> kept{0};
  std::latch start(threads);
  std::vector<std::jthread> running;
  for (std::uint64_t t = 0; t < threads; ++t) {
    running.emplace_back([&] {
      start.arrive_and_wait();
      for (std::uint64_t round = 0; round < each; ++round) {
        try {
          kept += raced.deallocate(raced.allocate(64, 0, work.ref()), work.ref()) ? 0 : 1;
        } catch (const error&) {
          ++no_memory;
        }
      }
    });
  }
  running.clear();
  EXPECT_EQ(no_memory, 1u);
  EXPECT_EQ(kept, 1u);
  EXPECT_EQ(raced.failures(), 2u);
}

} // namespace
} // namespace saeta
