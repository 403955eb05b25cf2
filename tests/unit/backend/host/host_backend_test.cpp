// The host backend: its device properties, and that all work has finished when a call returns.
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/backend/sim/sim.hpp"
#include "unit/base/raises.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <sys/sysinfo.h>
#include <sys/utsname.h>

namespace saeta {
namespace {

constexpr std::size_t most_bytes = std::numeric_limits<std::size_t>::max();

/// Returns the value of a key in a file of /proc, from the first line that begins with it.
std::string value_of(const char* file, const std::string& key) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(key)) {
      std::istringstream rest(line.substr(line.find(':') + 1));
      std::string value;
      std::getline(rest >> std::ws, value);
      return value;
    }
  }
  return {};
}

TEST(host_backend, describes_the_machine) {
  const auto host = make_host_backend();
  const device_properties found = host->properties();
  struct utsname system {};
  ASSERT_EQ(::uname(&system), 0);
  EXPECT_EQ(found.architecture, system.machine);
  const std::string model = value_of("/proc/cpuinfo", "model name");
  EXPECT_EQ(found.name, model.empty() ? found.architecture : model);
  struct sysinfo memory {};
  ASSERT_EQ(::sysinfo(&memory), 0);
  EXPECT_EQ(found.total_bytes, std::uint64_t{memory.totalram} * memory.mem_unit);
  EXPECT_EQ(found.multiprocessors, static_cast<std::int32_t>(std::thread::hardware_concurrency()));
}

TEST(host_backend, reports_the_available_memory_of_the_kernel_as_free) {
  const auto host = make_host_backend();
  const auto available = [] { return std::stoull(value_of("/proc/meminfo", "MemAvailable")) * 1024; };
  // The number changes all the time, so one of many readings must be between two readings of the kernel's.
  bool between = false;
  for (int i = 0; i < 10'000 && !between; ++i) {
    const std::uint64_t before = available();
    const std::uint64_t free = host->properties().free_bytes.value();
    const std::uint64_t after = available();
    EXPECT_EQ(free % 1024, 0U) << "the kernel counts in KiB";
    between = std::min(before, after) <= free && free <= std::max(before, after);
  }
  EXPECT_TRUE(between);
}

TEST(host_backend, has_no_pool_and_no_captures) {
  const auto host = make_host_backend();
  const stream_handle stream = host->create_stream();
  EXPECT_EQ(host->device(), (device_id{device_kind::cpu, 0}));
  EXPECT_EQ(host->pool_bytes(), 0U);
  EXPECT_EQ(host->trim_pool(0), 0U);
  host->set_pool_threshold(0);
  EXPECT_FALSE(host->capturing(stream));
  EXPECT_TRUE(host->stream_idle(stream));
  const event_handle event = host->create_event();
  EXPECT_EQ(host->record_context(event), fence_outcome::recorded);
  EXPECT_TRUE(host->event_complete(event));
  host->destroy_event(event);
  host->destroy_stream(stream);
}

TEST(host_backend, gives_streams_and_events_unique_handles) {
  const auto host = make_host_backend();
  const auto another = make_host_backend();
  std::set<std::uint64_t> names{static_cast<std::uint64_t>(legacy_stream),
                                static_cast<std::uint64_t>(per_thread_stream)};
  std::size_t made = names.size();
  for (int i = 0; i < 100; ++i) {
    for (const auto& each : {host, another}) {
      const stream_handle stream = each->create_stream();
      EXPECT_EQ(each->stream_id(stream), static_cast<std::uint64_t>(stream));
      names.insert(each->stream_id(stream));
      names.insert(static_cast<std::uint64_t>(each->create_event()));
      made += 2;
    }
  }
  EXPECT_EQ(names.size(), made);
}

TEST(host_backend, gives_each_per_thread_default_stream_its_own_identity) {
  const auto host = make_host_backend();
  const std::uint64_t mine = host->stream_id(per_thread_stream);
  EXPECT_EQ(host->stream_id(per_thread_stream), mine);
  EXPECT_NE(mine, static_cast<std::uint64_t>(per_thread_stream));
  std::uint64_t theirs = 0;
  std::thread([&] { theirs = host->stream_id(per_thread_stream); }).join();
  EXPECT_NE(theirs, mine);
}

TEST(host_backend, aligns_allocations) {
  const auto host = make_host_backend();
  const stream_handle stream = host->create_stream();
  const auto remainder = [](const void* pointer, std::size_t by) {
    return reinterpret_cast<std::uintptr_t>(pointer) % by;
  };
  for (int i = 0; i < 50; ++i) {
    const std::size_t bytes = 1 + static_cast<std::size_t>(i) * 7;
    for (const std::size_t alignment : {1U, 64U, 512U}) {
      void* const plain = host->allocate(bytes, alignment);
      EXPECT_EQ(remainder(plain, std::max<std::size_t>(alignment, 64)), 0U);
      EXPECT_TRUE(host->deallocate(plain, bytes, alignment));
    }
    void* const queued = host->allocate_async(bytes, stream);
    EXPECT_EQ(remainder(queued, 64), 0U);
    EXPECT_TRUE(host->deallocate_async(queued, bytes, stream));
    void* const pinned = host->allocate_pinned(bytes);
    EXPECT_EQ(remainder(pinned, 256), 0U);
    EXPECT_TRUE(host->deallocate_pinned(pinned, bytes));
  }
}

TEST(host_backend, refuses_sizes_near_the_largest_size_t) {
  const auto host = make_host_backend();
  for (const std::size_t bytes : {most_bytes, most_bytes / 2 + 1, most_bytes - 63}) {
    EXPECT_EQ(unit::code_raised_by([&] { static_cast<void>(host->allocate(bytes, 64)); }),
              errc::out_of_memory);
    EXPECT_EQ(unit::code_raised_by([&] { static_cast<void>(host->allocate_pinned(bytes)); }),
              errc::out_of_memory);
  }
}

TEST(host_backend, copies_and_fills_immediately) {
  const auto host = make_host_backend();
  const stream_handle stream = host->create_stream();
  std::vector<std::uint8_t> bytes(100, 1);
  host->fill(bytes.data() + 10, 7, 80, stream);
  std::vector<std::uint8_t> expected(100, 1);
  std::memset(expected.data() + 10, 7, 80);
  EXPECT_EQ(bytes, expected);
  std::vector<std::uint8_t> copied(100);
  host->copy(copied.data(), bytes.data(), 95, copy_kind::host_to_host, stream);
  std::memset(expected.data() + 95, 0, 5);
  EXPECT_EQ(copied, expected);
}

TEST(host_backend, is_a_peer_of_other_host_backends_only) {
  const auto host = make_host_backend();
  const auto another = make_host_backend();
  EXPECT_TRUE(host->can_access_peer(*host));
  EXPECT_TRUE(host->can_access_peer(*another));
  EXPECT_NO_THROW(host->enable_peer_access(*another));
  const auto gpu = sim::device::create();
  EXPECT_FALSE(host->can_access_peer(*gpu));
  EXPECT_EQ(unit::code_raised_by([&] { host->enable_peer_access(*gpu); }), errc::unsupported);
}

TEST(host_backend, ignores_copies_and_fills_of_zero_bytes) {
  const auto host = make_host_backend();
  const stream_handle stream = host->create_stream();
  std::uint8_t byte = 7;
  host->fill(&byte, 1, 0, stream);
  host->copy(&byte, nullptr, 0, copy_kind::host_to_host, stream);
  host->copy(nullptr, &byte, 0, copy_kind::host_to_host, stream);
  EXPECT_EQ(byte, 7);
  const std::uint8_t other = 9;
  host->copy(&byte, &other, 1, copy_kind::host_to_host, stream);
  EXPECT_EQ(byte, 9);
  host->fill(&byte, 1, 1, stream);
  EXPECT_EQ(byte, 1);
}

} // namespace
} // namespace saeta
