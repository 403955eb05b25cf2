// The simulated device reports unordered accesses of every kind, and accepts ordered ones.
#include "saeta/backend/sim/sim.hpp"
#include "saeta/base/error.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace saeta::sim {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::size_t block_bytes = 4096;

class simulated : public ::testing::Test {
protected:
  static options seeded(std::uint64_t seed) {
    options chosen;
    chosen.seed = seed;
    chosen.total_bytes = std::uint64_t{1} << 20;
    return chosen;
  }
  void order(stream_handle earlier, stream_handle later) {
    const event_handle event = on->create_event();
    on->record_event(event, earlier);
    on->wait_event(later, event);
    on->destroy_event(event);
  }
  void expect_a_context_event_to_cover_a_free() {
    const event_handle event = on->create_event();
    ASSERT_EQ(on->record_context(event), fence_outcome::recorded);
    on->synchronize_event(event);
    on->destroy_event(event);
    EXPECT_TRUE(on->deallocate(memory, block_bytes, 0));
    EXPECT_THAT(on->races(), IsEmpty());
  }
  void expect_one_race(const std::string& first, const std::string& second) {
    const std::vector<race> found = on->races();
    ASSERT_THAT(found, SizeIs(1)) << on->report();
    EXPECT_THAT(found[0].first, HasSubstr(first)) << found[0].text;
    EXPECT_THAT(found[0].second, HasSubstr(second)) << found[0].text;
  }

  std::shared_ptr<device> on = device::create(seeded(7));
  stream_handle a = on->create_stream();
  stream_handle b = on->create_stream();
  void* memory = on->allocate(block_bytes, 0);
  std::vector<std::uint8_t> target = std::vector<std::uint8_t>(block_bytes);
};

TEST_F(simulated, device_reports_two_unordered_writes) {
  on->fill(memory, 1, block_bytes, a);
  on->fill(memory, 2, block_bytes, b);
  expect_one_race("fill", "fill");
  EXPECT_EQ(on->races()[0].pointer, memory);
  EXPECT_EQ(on->races()[0].bytes, block_bytes);
}

TEST_F(simulated, device_accepts_two_ordered_writes) {
  on->fill(memory, 1, block_bytes, a);
  order(a, b);
  on->fill(memory, 2, block_bytes, b);
  on->copy(target.data(), memory, block_bytes, copy_kind::device_to_host, b);
  on->synchronize_stream(b);
  EXPECT_THAT(on->races(), IsEmpty());
  EXPECT_THAT(target, ::testing::Each(2));
}

TEST_F(simulated, device_accepts_writes_of_different_bytes) {
  on->fill(memory, 1, block_bytes / 2, a);
  on->fill(static_cast<std::uint8_t*>(memory) + block_bytes / 2, 2, block_bytes / 2, b);
  EXPECT_THAT(on->races(), IsEmpty());
}

TEST_F(simulated, device_reports_a_read_that_does_not_wait_for_the_write) {
  on->fill(memory, 1, block_bytes, a);
  on->copy(target.data(), memory, block_bytes, copy_kind::device_to_host, b);
  expect_one_race("fill", "copy");
  on->run();
}

TEST_F(simulated, device_reports_a_write_that_does_not_wait_for_a_read) {
  void* const landing = on->allocate_pinned(block_bytes);
  on->fill(memory, 1, block_bytes, a);
  order(a, b);
  on->copy(landing, memory, block_bytes, copy_kind::device_to_host, b);
  on->fill(memory, 2, block_bytes, a);
  expect_one_race("(reads)", "fill");
  on->synchronize_stream(b);
  EXPECT_TRUE(on->deallocate_pinned(landing, block_bytes));
}

TEST_F(simulated, copy_to_pageable_memory_is_synchronous) {
  options lazy = seeded(1);
  lazy.run_percent = 0; // work runs only when a call waits for it
  on = device::create(lazy);
  a = on->create_stream();
  memory = on->allocate(block_bytes, 0);
  auto* const landing = static_cast<std::uint8_t*>(on->allocate_pinned(block_bytes));
  landing[0] = 0;
  on->fill(memory, 2, block_bytes, a);
  on->copy(landing, memory, block_bytes, copy_kind::device_to_host, a);
  EXPECT_EQ(landing[0], 0) << "page-locked memory is not waited for";
  on->copy(target.data(), memory, block_bytes, copy_kind::device_to_host, a);
  EXPECT_THAT(target, ::testing::Each(2));
  on->synchronize_stream(a);
  EXPECT_TRUE(on->deallocate_pinned(landing, block_bytes));
}

TEST_F(simulated, device_accepts_concurrent_reads) {
  on->fill(memory, 1, block_bytes, a);
  order(a, b);
  std::vector<std::uint8_t> other(block_bytes);
  on->copy(target.data(), memory, block_bytes, copy_kind::device_to_host, a);
  on->copy(other.data(), memory, block_bytes, copy_kind::device_to_host, b);
  on->run();
  EXPECT_THAT(on->races(), IsEmpty());
  EXPECT_EQ(target, other);
}

TEST_F(simulated, device_reports_a_free_with_work_in_flight) {
  on->fill(memory, 1, block_bytes, a);
  EXPECT_TRUE(on->deallocate(memory, block_bytes, 0));
  expect_one_race("fill", "free by the host");
}

TEST_F(simulated, device_accepts_a_free_after_the_host_has_waited) {
  on->fill(memory, 1, block_bytes, a);
  on->synchronize_stream(a);
  EXPECT_TRUE(on->deallocate(memory, block_bytes, 0));
  EXPECT_THAT(on->races(), IsEmpty());
}

TEST_F(simulated, device_reports_the_use_of_freed_memory) {
  EXPECT_TRUE(on->deallocate(memory, block_bytes, 0));
  on->fill(memory, 1, block_bytes, a);
  expect_one_race("free", "fill");
}

TEST_F(simulated, device_reports_a_kernel_past_the_end) {
  on->fill(memory, 1, block_bytes + 8, a);
  expect_one_race("the end", "fill");
}

TEST_F(simulated, device_reports_a_stream_ordered_free_that_does_not_wait) {
  void* const pooled = on->allocate_async(block_bytes, a);
  on->fill(pooled, 1, block_bytes, a);
  EXPECT_TRUE(on->deallocate_async(pooled, block_bytes, b));
  ASSERT_FALSE(on->races().empty());
  EXPECT_THAT(on->report(), HasSubstr("free on stream"));
}

TEST_F(simulated, device_reports_the_use_of_a_new_allocation_on_a_stream_that_does_not_wait) {
  void* const pooled = on->allocate_async(block_bytes, a);
  on->fill(pooled, 1, block_bytes, b);
  expect_one_race("allocate on stream", "fill");
}

TEST_F(simulated, pool_orders_the_reuse_of_memory_on_another_stream) {
  bool reused = false;
  for (int i = 0; i < 32; ++i) {
    void* const first = on->allocate_async(block_bytes, a);
    on->fill(first, 1, block_bytes, a);
    EXPECT_TRUE(on->deallocate_async(first, block_bytes, a));
    void* const second = on->allocate_async(block_bytes, b);
    reused = reused || first == second;
    on->fill(second, 2, block_bytes, b);
    on->copy(target.data(), second, block_bytes, copy_kind::device_to_host, b);
    EXPECT_TRUE(on->deallocate_async(second, block_bytes, b));
    on->run();
    EXPECT_THAT(target, ::testing::Each(2));
  }
  EXPECT_TRUE(reused);
  EXPECT_THAT(on->races(), IsEmpty());
}

TEST_F(simulated, device_reports_an_unordered_consumer_on_an_unknown_stream) {
  on->fill(memory, 1, block_bytes, a);
  order(a, b);
  on->launch(b, "consumer", {{memory, block_bytes}}, {}, [] {});
  on->synchronize_stream(a);
  EXPECT_TRUE(on->deallocate(memory, block_bytes, 0));
  expect_one_race("consumer", "free");
}

TEST_F(simulated, context_event_covers_unknown_streams) {
  on->launch(b, "consumer", {{memory, block_bytes}}, {}, [] {});
  expect_a_context_event_to_cover_a_free();
}

TEST_F(simulated, context_event_covers_destroyed_streams) {
  on->fill(memory, 1, block_bytes, b);
  on->destroy_stream(b);
  expect_a_context_event_to_cover_a_free();
}

TEST_F(simulated, device_reports_a_free_of_page_locked_memory_in_use) {
  void* const pinned = on->allocate_pinned(block_bytes);
  on->copy(pinned, memory, block_bytes, copy_kind::device_to_host, a);
  on->host_access({pinned, block_bytes}, false, "look");
  expect_one_race("copy", "look by the host");
  EXPECT_TRUE(on->deallocate_pinned(pinned, block_bytes));
  EXPECT_THAT(on->races(), SizeIs(2)) << on->report();
  on->run(); // the pending work may still use memory that was freed too early
}

TEST_F(simulated, device_accepts_a_free_of_page_locked_memory_after_an_event_query) {
  void* const pinned = on->allocate_pinned(block_bytes);
  on->copy(pinned, memory, block_bytes, copy_kind::device_to_host, a);
  on->run();
  ASSERT_TRUE(on->stream_idle(a));
  on->host_access({pinned, block_bytes}, false, "look");
  EXPECT_TRUE(on->deallocate_pinned(pinned, block_bytes));
  EXPECT_THAT(on->races(), IsEmpty());
}

TEST_F(simulated, legacy_stream_orders_blocking_streams_both_ways) {
  const stream_handle blocking = on->create_blocking_stream();
  on->fill(memory, 1, block_bytes, blocking);
  on->fill(memory, 2, block_bytes, legacy_stream);
  on->fill(memory, 3, block_bytes, blocking);
  EXPECT_THAT(on->races(), IsEmpty());
}

TEST_F(simulated, legacy_stream_does_not_order_other_streams) {
  on->fill(memory, 1, block_bytes, a);
  on->fill(memory, 2, block_bytes, legacy_stream);
  expect_one_race("fill", "fill");
}

TEST_F(simulated, new_memory_is_poisoned) {
  on->copy(target.data(), memory, block_bytes, copy_kind::device_to_host, a);
  on->synchronize_stream(a);
  EXPECT_THAT(target, ::testing::Each(poison));
}

TEST_F(simulated, gate_blocks_only_its_stream) {
  int on_a = 0;
  int on_b = 0;
  const auto gate = on->close_gate(a);
  on->host_callback(a, [&] { ++on_a; });
  on->host_callback(b, [&] { ++on_b; });
  on->run();
  EXPECT_EQ(on_a, 0);
  EXPECT_EQ(on_b, 1);
  gate->open();
  on->run();
  EXPECT_EQ(on_a, 1);
  EXPECT_TRUE(on->idle());
}

TEST_F(simulated, capture_records_work_and_refuses_context_events) {
  const event_handle event = on->create_event();
  on->begin_capture(a);
  bool ran = false;
  on->host_callback(a, [&] { ran = true; });
  EXPECT_EQ(on->record_context(event), fence_outcome::refused);
  EXPECT_THROW(on->synchronize_stream(a), error);
  EXPECT_THROW(static_cast<void>(on->stream_idle(a)), error);
  on->end_capture(a);
  on->run();
  EXPECT_FALSE(ran);
  EXPECT_EQ(on->record_context(event), fence_outcome::recorded);
  on->destroy_event(event);
}

TEST_F(simulated, capture_on_a_nonblocking_stream_is_invalidated_by_a_context_event) {
  const event_handle event = on->create_event();
  const stream_handle blocking = on->create_blocking_stream();
  for (const stream_handle stream : {a, blocking}) {
    on->begin_capture(stream);
    EXPECT_EQ(on->record_context(event), fence_outcome::refused);
    EXPECT_EQ(on->end_capture(stream), stream == blocking);
  }
  on->begin_capture(a);
  EXPECT_TRUE(on->end_capture(a)) << "the next one is whole";
  on->destroy_event(event);
}

TEST_F(simulated, capture_is_reported_for_its_stream_and_the_legacy_stream) {
  EXPECT_FALSE(on->capturing(a));
  on->begin_capture(a);
  EXPECT_TRUE(on->capturing(a));
  EXPECT_TRUE(on->capturing(legacy_stream));
  EXPECT_FALSE(on->capturing(b));
  EXPECT_TRUE(on->end_capture(a)) << "ended by the question";
  EXPECT_FALSE(on->capturing(a));
}

TEST_F(simulated, device_throws_out_of_memory_beyond_its_size) {
  try {
    on->allocate(std::size_t{2} << 20, 0);
    FAIL() << "nothing was thrown";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::out_of_memory);
    EXPECT_THAT(e.what(), HasSubstr("2097152"));
  }
}

TEST_F(simulated, created_for_another_library_share_streams_and_memory) {
  options second = seeded(7);
  second.beside = on;
  const auto library = device::create(second);
  const stream_handle theirs = library->create_stream();
  on->fill(memory, 1, block_bytes, a);
  library->fill(memory, 2, block_bytes, theirs);
  expect_one_race("fill", "fill");
}

/// Makes a second device on the machine of `on`.
std::shared_ptr<device> neighbour_of(const std::shared_ptr<device>& on) {
  options second;
  second.ordinal = 1;
  second.total_bytes = std::uint64_t{1} << 20;
  second.beside = on;
  return device::create(second);
}

TEST_F(simulated, work_on_memory_of_a_peer_is_reported_until_peer_access_is_enabled) {
  const auto peer = neighbour_of(on);
  void* const theirs = peer->allocate(block_bytes, 0);
  on->fill(theirs, 1, block_bytes, a);
  ASSERT_EQ(on->races().size(), 1U);
  EXPECT_THAT(on->races()[0].text, HasSubstr("peer access was not enabled: fill on stream"));
  EXPECT_THAT(on->races()[0].text, HasSubstr("of sim:0 uses 4096 bytes of sim:1"));

  on->enable_peer_access(*peer);
  on->fill(theirs, 2, block_bytes, a);
  on->launch(a, "kernel", {{theirs, block_bytes}}, {{memory, block_bytes}}, [] {});
  EXPECT_EQ(on->races().size(), 1U) << on->report();
  on->synchronize_stream(a);
  EXPECT_TRUE(peer->deallocate(theirs, block_bytes, 0));
}

TEST_F(simulated, peer_access_is_enabled_in_one_direction) {
  const auto peer = neighbour_of(on);
  const stream_handle theirs = peer->create_stream();
  on->enable_peer_access(*peer);
  peer->fill(memory, 1, block_bytes, theirs);
  ASSERT_EQ(on->races().size(), 1U);
  EXPECT_THAT(on->races()[0].text, HasSubstr("of sim:1 uses 4096 bytes of sim:0"));
}

TEST_F(simulated, copies_between_devices_need_no_peer_access) {
  const auto peer = neighbour_of(on);
  void* const theirs = peer->allocate(block_bytes, 0);
  on->copy(theirs, memory, block_bytes, copy_kind::device_to_device, a);
  on->synchronize_stream(a);
  EXPECT_TRUE(on->races().empty()) << on->report();
  EXPECT_TRUE(peer->deallocate(theirs, block_bytes, 0));
}

TEST_F(simulated, devices_of_two_machines_have_no_peer_access) {
  const auto stranger = device::create(seeded(8));
  EXPECT_FALSE(on->can_access_peer(*stranger));
  EXPECT_THROW(on->enable_peer_access(*stranger), error);
}

TEST_F(simulated, a_device_without_peers_has_no_peer_access_in_either_direction) {
  options apart;
  apart.ordinal = 1;
  apart.beside = on;
  apart.peers = false;
  const auto alone = device::create(apart);
  EXPECT_FALSE(on->can_access_peer(*alone));
  EXPECT_FALSE(alone->can_access_peer(*on));
  EXPECT_TRUE(alone->can_access_peer(*alone));
  EXPECT_THROW(on->enable_peer_access(*alone), error);
}

TEST_F(simulated, live_counts_all_objects) {
  const usage before = on->live();
  void* const pooled = on->allocate_async(block_bytes, a);
  void* const pinned = on->allocate_pinned(block_bytes);
  EXPECT_EQ(on->live().allocations, before.allocations + 1);
  EXPECT_EQ(on->live().bytes, before.bytes + block_bytes);
  EXPECT_EQ(on->live().pinned, 1U);
  EXPECT_TRUE(on->deallocate_async(pooled, block_bytes, a));
  EXPECT_TRUE(on->deallocate_pinned(pinned, block_bytes));
  EXPECT_EQ(on->live(), before);
}

/// Runs work with a race on four streams and returns the report.
std::string report_of(std::uint64_t seed) {
  options chosen;
  chosen.seed = seed;
  const auto on = device::create(chosen);
  std::array<stream_handle, 4> streams{};
  std::generate(streams.begin(), streams.end(), [&] { return on->create_stream(); });
  void* const memory = on->allocate(block_bytes, 0);
  for (int round = 0; round < 8; ++round) {
    for (std::size_t i = 0; i < streams.size(); ++i) {
      on->fill(static_cast<std::uint8_t*>(memory) + i * block_bytes / 8, 1, block_bytes / 8, streams.at(i));
    }
  }
  on->fill(memory, 2, block_bytes, streams[0]);
  on->run();
  return on->report();
}

TEST(simulated_replay, same_seed_gives_the_same_report) {
  const std::string once = report_of(42);
  EXPECT_EQ(report_of(42), once);
  EXPECT_THAT(once, HasSubstr("3 races"));
}

TEST(simulated_replay, another_seed_gives_another_order) { EXPECT_NE(report_of(42), report_of(43)); }

} // namespace
} // namespace saeta::sim
