// The contract of backends (saeta/device/backend.hpp): streams, events, ordering, copies and fills.

#include "conformance/harness/backends.hpp"
#include "conformance/harness/device_memory.hpp"
#include "saeta/device/stream.hpp"

#include <atomic>
#include <cstring>
#include <memory>
#include <numeric>
#include <set>
#include <thread>

namespace saeta::conformance {
namespace {

using bytes = std::vector<std::uint8_t>;

class device_contract : public backend_test {
protected:
  [[nodiscard]] stream_ref work() const { return work_.ref(); }
  [[nodiscard]] stream_handle handle() const { return work_.ref().native_handle(); }

  /// Returns the bytes 0, 1, 2, ..., in which shifts and gaps can be detected.
  static bytes counting(std::size_t count, std::uint8_t first = 0) {
    bytes content(count);
    std::iota(content.begin(), content.end(), first);
    return content;
  }

private:
  stream work_{shared_device()};
};

TEST_P(device_contract, properties_describe_the_device) {
  const device_properties found = device().properties();

  EXPECT_FALSE(found.name.empty());
  EXPECT_FALSE(found.architecture.empty());
  EXPECT_GT(found.total_bytes, 0u);
  EXPECT_GT(found.free_bytes, 0u);
  EXPECT_LE(found.free_bytes, found.total_bytes);
  EXPECT_GT(found.multiprocessors, 0);
}

TEST_P(device_contract, stream_ids_are_unique_and_never_reused) {
  std::set<std::uint64_t> seen{device().stream_id(legacy_stream), device().stream_id(per_thread_stream),
                               device().stream_id(handle())};
  ASSERT_EQ(seen.size(), 3u);
  for (int round = 0; round < 8; ++round) {
    std::vector<stream> alive; // destroyed after each round, so that handles may be reused
    for (int i = 0; i < 16; ++i) {
      alive.emplace_back(shared_device());
      const std::uint64_t id = alive.back().ref().id();
      EXPECT_TRUE(seen.insert(id).second) << "id " << id << " came back in round " << round;
      EXPECT_EQ(device().stream_id(alive.back().ref().native_handle()), id);
    }
  }
  EXPECT_FALSE(seen.contains(0)) << "0 says 'no stream' in a fence";
}

TEST_P(device_contract, per_thread_stream_has_an_id_for_each_thread) {
  const std::uint64_t here = device().stream_id(per_thread_stream);
  std::uint64_t there = here;
  std::uint64_t there_again = 0;
  std::thread([&] {
    there = device().stream_id(per_thread_stream);
    there_again = device().stream_id(per_thread_stream);
  }).join();

  EXPECT_NE(there, here);
  EXPECT_EQ(there_again, there);
  EXPECT_EQ(device().stream_id(per_thread_stream), here);
}

TEST_P(device_contract, default_streams_run_work) {
  for (const stream_handle stream : {legacy_stream, per_thread_stream}) {
    const device_memory target(work(), bytes(1000, 1));
    device().fill(target.data(), 7, target.size(), stream);
    device().synchronize_stream(stream);
    EXPECT_TRUE(device().stream_idle(stream));
    EXPECT_EQ(target.download(), bytes(1000, 7));
  }
}

TEST_P(device_contract, new_streams_and_events_are_complete) {
  const stream fresh(shared_device());
  const event never_recorded(shared_device());

  EXPECT_TRUE(fresh.ref().idle());
  EXPECT_TRUE(never_recorded.ref().complete());
  never_recorded.ref().synchronize();
  work().wait(never_recorded.ref());
  device().synchronize_stream(handle());
  EXPECT_TRUE(work().idle());
}

TEST_P(device_contract, an_event_is_complete_when_the_work_before_it_has_finished) {
  const device_memory target(work(), bytes(4096, 1));
  const event done(shared_device());
  const auto held = close_gate(handle());
  device().fill(target.data(), 2, target.size(), handle());
  done.ref().record(work());

  if (held) {
    EXPECT_FALSE(done.ref().complete());
    EXPECT_FALSE(work().idle());
    held->open();
  }
  done.ref().synchronize();
  EXPECT_TRUE(done.ref().complete());
  EXPECT_EQ(target.download(), bytes(4096, 2));
}

TEST_P(device_contract, a_word_is_written_when_the_work_before_it_has_finished) {
  constexpr std::size_t size = 1 << 20;
  const auto pinned = [&](std::size_t count) {
    return std::shared_ptr<void>(device().allocate_pinned(count), [this, count](void* memory) {
      EXPECT_TRUE(device().deallocate_pinned(memory, count));
    });
  };
  const auto words = pinned(64);
  const auto landing = pinned(size);
  auto& word = *static_cast<std::uint32_t*>(words.get());
  word = 0;
  std::memset(landing.get(), 0, size);
  const device_memory source(work(), bytes(size, 5));
  const auto held = close_gate(handle());
  device().copy(landing.get(), source.data(), size,
                device().device().kind == device_kind::cpu ? copy_kind::host_to_host
                                                           : copy_kind::device_to_host,
                handle());
  device().write_word(&word, 77, handle());
  if (held) {
    EXPECT_EQ(std::atomic_ref(word).load(), 0U);
    held->open();
  }
  while (std::atomic_ref(word).load(std::memory_order_acquire) != 77) { // polls without calling the driver
    std::this_thread::yield();
  }
  EXPECT_EQ(std::memcmp(landing.get(), bytes(size, 5).data(), size), 0);
  device().synchronize_stream(handle());
}

TEST_P(device_contract, batched_copies_are_stream_ordered) {
  const copy_kind kind =
      device().device().kind == device_kind::cpu ? copy_kind::host_to_host : copy_kind::host_to_device;
  constexpr std::size_t size = 1 << 16;
  const std::shared_ptr<void> source(device().allocate_pinned(size), [this](void* memory) {
    EXPECT_TRUE(device().deallocate_pinned(memory, size));
  });
  const bytes content = counting(size);
  std::memcpy(source.get(), content.data(), size);
  for (const std::size_t count : {0U, 1U, 2U, 100U}) {
    device_memory target(work(), bytes(size, 0));
    bytes expected(size, 9);
    const auto held = close_gate(handle());
    device().fill(target.data(), 9, size, handle());
    std::vector<copy_range> ranges;
    for (std::size_t i = 0; i < count; ++i) { // all sizes and alignments, in descending order of addresses
      const std::size_t some = 1 + i * 5;
      const std::size_t from = i * 501;
      const std::size_t to = size - 1 - i * 601 - some;
      ranges.push_back({static_cast<std::uint8_t*>(target.data()) + to,
                        static_cast<const std::uint8_t*>(source.get()) + from, some});
      std::memcpy(expected.data() + to, content.data() + from, some);
    }
    device().copy_all(ranges, kind, handle());
    device().fill(static_cast<std::uint8_t*>(target.data()) + size - 1, 3, 1, handle());
    expected.back() = 3;
    if (held) {
      held->open();
    }
    device().synchronize_stream(handle());
    EXPECT_EQ(target.download(), expected) << count << " copies";
  }
}

TEST_P(device_contract, threads_can_wait_for_events_concurrently) {
  constexpr std::size_t waiting = 4;
  const stream free(shared_device());
  const event unhindered(shared_device());
  std::vector<event> events;
  const auto held = close_gate(handle());
  for (std::size_t i = 0; i < waiting; ++i) {
    events.emplace_back(shared_device());
    events.back().ref().record(work());
  }
  std::vector<std::thread> threads;
  for (const event& awaited : events) {
    threads.emplace_back([&awaited] { awaited.ref().synchronize(); });
  }
  unhindered.ref().record(free.ref());
  unhindered.ref().synchronize(); // would hang if it waited for the other threads
  if (held) {
    EXPECT_FALSE(events[0].ref().complete());
    held->open();
  }
  for (auto& thread : threads) {
    thread.join();
  }
  for (const event& awaited : events) {
    EXPECT_TRUE(awaited.ref().complete());
  }
}

TEST_P(device_contract, a_stream_that_waits_for_an_event_runs_after_it) {
  const stream writer(shared_device());
  const device_memory source(work(), bytes(1 << 20, 1));
  const device_memory target(work(), bytes(1 << 20, 2));
  const event written(shared_device());
  const auto held = close_gate(writer.ref().native_handle());
  device().fill(source.data(), 9, source.size(), writer.ref().native_handle());
  written.ref().record(writer.ref());
  work().wait(written.ref());
  device().copy(target.data(), source.data(), source.size(), copy_kind::device_to_device, handle());

  if (held) {
    EXPECT_FALSE(work().idle());
    held->open();
  }
  EXPECT_EQ(target.download(), bytes(1 << 20, 9));
}

TEST_P(device_contract, a_stream_that_does_not_wait_runs_before_it) {
  const stream writer(shared_device());
  const device_memory source(work(), bytes(4096, 1));
  const device_memory target(work(), bytes(4096, 2));
  const auto held = close_gate(writer.ref().native_handle());
  if (!held) {
    GTEST_SKIP() << nothing_pends;
  }
  expect_races();
  device().fill(source.data(), 9, source.size(), writer.ref().native_handle());
  device().copy(target.data(), source.data(), source.size(), copy_kind::device_to_device, handle());

  EXPECT_EQ(target.download(), bytes(4096, 1)) << "what the tests of waits prove would hold without a wait";
  held->open();
  device().synchronize_stream(writer.ref().native_handle());
}

TEST_P(device_contract, a_wait_covers_the_event_as_recorded_at_that_time) {
  const stream first(shared_device());
  const stream second(shared_device());
  const event recorded(shared_device());
  recorded.ref().record(first.ref());
  work().wait(recorded.ref());
  const auto held = close_gate(second.ref().native_handle());
  recorded.ref().record(second.ref());

  device().synchronize_stream(handle()); // would hang if the wait were for the later record
  if (!held) {
    GTEST_SKIP() << nothing_pends;
  }
  EXPECT_FALSE(recorded.ref().complete());
  held->open();
  recorded.ref().synchronize();
  EXPECT_TRUE(recorded.ref().complete());
}

TEST_P(device_contract, destroying_an_event_does_not_undo_the_waits_for_it) {
  const stream writer(shared_device());
  const device_memory source(work(), bytes(4096, 1));
  const device_memory target(work(), bytes(4096, 2));
  const auto held = close_gate(writer.ref().native_handle());
  device().fill(source.data(), 9, source.size(), writer.ref().native_handle());
  {
    const event written(shared_device());
    written.ref().record(writer.ref());
    work().wait(written.ref());
  }
  device().copy(target.data(), source.data(), source.size(), copy_kind::device_to_device, handle());
  if (held) {
    held->open();
  }
  EXPECT_EQ(target.download(), bytes(4096, 9));
}

TEST_P(device_contract, destroying_a_stream_lets_its_work_finish) {
  const device_memory target(work(), bytes(4096, 1));
  const event written(shared_device());
  {
    const stream writer(shared_device());
    const auto held = close_gate(writer.ref().native_handle());
    device().fill(target.data(), 9, target.size(), writer.ref().native_handle());
    written.ref().record(writer.ref());
  }
  written.ref().synchronize();
  EXPECT_EQ(target.download(), bytes(4096, 9));
}

TEST_P(device_contract, a_context_wide_event_covers_unknown_streams) {
  const auto other_library = GetParam().make();
  const stream foreign(other_library);
  const device_memory source(work(), bytes(1 << 20, 1));
  const device_memory target(work(), bytes(1 << 20, 2));
  const event everything(shared_device());
  const auto held = close_gate(foreign.ref().native_handle());
  other_library->fill(source.data(), 9, source.size(), foreign.ref().native_handle());

  ASSERT_EQ(device().record_context(everything.ref().native_handle()), fence_outcome::recorded);
  work().wait(everything.ref());
  device().copy(target.data(), source.data(), source.size(), copy_kind::device_to_device, handle());
  if (held) {
    EXPECT_FALSE(everything.ref().complete());
    EXPECT_FALSE(work().idle());
    held->open();
  }
  everything.ref().synchronize();
  EXPECT_EQ(target.download(), bytes(1 << 20, 9));
}

TEST_P(device_contract, a_context_wide_event_does_not_cover_later_work) {
  const event everything(shared_device());
  ASSERT_EQ(device().record_context(everything.ref().native_handle()), fence_outcome::recorded);
  const auto held = close_gate(handle());

  everything.ref().synchronize(); // would hang if it waited for the gate
  EXPECT_TRUE(everything.ref().complete());
}

TEST_P(device_contract, copies_of_every_kind_keep_every_byte) {
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{7}, std::size_t{4096}, std::size_t{(1 << 20) + 3}}) {
    SCOPED_TRACE(size);
    const bytes content = counting(size, 3);
    const device_memory first(work(), bytes(size + 1, 0));
    const device_memory second(work(), bytes(size, 0));
    bytes came_back(size);
    bytes on_host(size);

    device().copy(first.data() + 1, content.data(), size, copy_kind::host_to_device, handle());
    device().copy(second.data(), first.data() + 1, size, copy_kind::device_to_device, handle());
    device().copy(came_back.data(), second.data(), size, copy_kind::device_to_host, handle());
    device().copy(on_host.data(), content.data(), size, copy_kind::host_to_host, handle());
    device().synchronize_stream(handle());

    EXPECT_EQ(came_back, content);
    EXPECT_EQ(on_host, content);
    EXPECT_EQ(first.download().front(), 0);
  }
}

TEST_P(device_contract, a_pageable_source_may_be_overwritten_when_the_copy_returns) {
  bytes source = counting(8 << 20);
  const bytes content = source;
  const device_memory target(work(), source.size());

  device().copy(target.data(), source.data(), source.size(), copy_kind::host_to_device, handle());
  std::fill(source.begin(), source.end(), std::uint8_t{0xee});

  EXPECT_EQ(target.download(), content);
}

TEST_P(device_contract, copies_and_fills_of_zero_bytes_do_nothing) {
  const device_memory untouched(work(), bytes(64, 3));
  EXPECT_NO_THROW(device().copy(nullptr, nullptr, 0, copy_kind::host_to_device, handle()));
  EXPECT_NO_THROW(device().copy(nullptr, nullptr, 0, copy_kind::device_to_device, handle()));
  EXPECT_NO_THROW(device().copy(untouched.data(), nullptr, 0, copy_kind::host_to_device, handle()));
  EXPECT_NO_THROW(device().fill(nullptr, 1, 0, handle()));
  EXPECT_NO_THROW(device().fill(untouched.data(), 1, 0, handle()));
  EXPECT_EQ(untouched.download(), bytes(64, 3));
}

TEST_P(device_contract, fills_write_only_their_bytes) {
  for (const std::size_t size : {std::size_t{1}, std::size_t{3}, std::size_t{4095}, std::size_t{100'001}}) {
    const device_memory target(work(), bytes(size + 10, 0x11));
    device().fill(target.data() + 5, 0xfe, size, handle());

    bytes expected(size + 10, 0x11);
    std::fill_n(expected.begin() + 5, size, std::uint8_t{0xfe});
    EXPECT_EQ(target.download(), expected) << size;
  }
}

SAETA_CONFORMANCE_SUITE(device_contract);

} // namespace
} // namespace saeta::conformance
