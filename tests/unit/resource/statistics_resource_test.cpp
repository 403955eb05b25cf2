#include "saeta/backend/host/host_backend.hpp"
#include "saeta/base/error.hpp"
#include "saeta/base/report.hpp"
#include "saeta/resource/decorators/fault_resource.hpp"
#include "saeta/resource/decorators/statistics_resource.hpp"
#include "saeta/resource/driver/driver_resources.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace saeta {
namespace {

class statistics_resource_test : public ::testing::Test {
protected:
  std::shared_ptr<backend> device = make_host_backend();
  stream work{device};
  std::shared_ptr<fault_resource> faulty =
      std::make_shared<fault_resource>(std::make_shared<direct_resource>(device));
  statistics_resource counted{faulty};
};

TEST_F(statistics_resource_test, counts_allocations_and_frees) {
  EXPECT_EQ(counted.read(), resource_statistics{});
  const block small = counted.allocate(100, 0, work.ref());
  const block large = counted.allocate(5000, 0, work.ref());
  const block none = counted.allocate(0, 0, work.ref());
  EXPECT_TRUE(counted.deallocate(small, work.ref()));

  EXPECT_EQ(counted.read(),
            (resource_statistics{
                .allocations = 3, .frees = 1, .allocated_bytes = 5100, .freed_bytes = 100, .largest = 5000}));
  EXPECT_EQ(counted.read().live(), 2u);
  EXPECT_EQ(counted.read().live_bytes(), 5000u);
  EXPECT_TRUE(counted.deallocate(large, work.ref()));
  EXPECT_TRUE(counted.deallocate(none, work.ref()));
  EXPECT_EQ(counted.read().live(), 0u);
}

TEST_F(statistics_resource_test, counts_failures_separately) {
  faulty->fail_allocation(1);
  EXPECT_THROW(static_cast<void>(counted.allocate(100, 0, work.ref())), error);
  const block kept = counted.allocate(200, 0, work.ref());
  faulty->fail_free(1);
  const report_sink before = set_report_sink([](std::string_view, std::string_view) noexcept {});
  EXPECT_FALSE(counted.deallocate(kept, work.ref()));
  set_report_sink(before);

  EXPECT_EQ(counted.read(), (resource_statistics{.allocations = 1,
                                                 .failed_allocations = 1,
                                                 .failed_frees = 1,
                                                 .allocated_bytes = 200,
                                                 .largest = 200}));
  EXPECT_TRUE(counted.deallocate(kept, work.ref()));
  EXPECT_EQ(counted.read().live_bytes(), 0u);
}

TEST_F(statistics_resource_test, is_exact_and_never_negative_with_many_threads) {
  constexpr std::uint64_t rounds = 500;
  std::atomic<int> running{4};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (std::uint64_t round = 0; round < rounds; ++round) {
        const block one = counted.allocate(64 + round, 0, work.ref());
        EXPECT_TRUE(counted.deallocate(one, work.ref()));
      }
      --running;
    });
  }
  while (running != 0) {
    const resource_statistics seen = counted.read();
    EXPECT_GE(seen.allocations, seen.frees);
    EXPECT_GE(seen.allocated_bytes, seen.freed_bytes);
  }
  for (auto& thread : threads) {
    thread.join();
  }
  constexpr std::uint64_t bytes = 4 * (64 * rounds + rounds * (rounds - 1) / 2);
  EXPECT_EQ(counted.read(), (resource_statistics{.allocations = 4 * rounds,
                                                 .frees = 4 * rounds,
                                                 .allocated_bytes = bytes,
                                                 .freed_bytes = bytes,
                                                 .largest = 64 + rounds - 1}));
}

} // namespace
} // namespace saeta
