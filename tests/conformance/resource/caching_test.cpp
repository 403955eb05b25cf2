// Stream ordering of the cache (saeta/resource/cache/caching_resource.hpp), tested with work that is
// certainly pending.

#include "conformance/harness/backends.hpp"
#include "conformance/harness/device_memory.hpp"
#include "conformance/harness/graph_capture.hpp"
#include "saeta/base/error.hpp"
#include "saeta/order/timeline.hpp"
#include "saeta/resource/cache/caching_resource.hpp"
#include "saeta/resource/decorators/fault_resource.hpp"
#include "saeta/resource/driver/driver_resources.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <thread>

namespace saeta::conformance {
namespace {

class caching : public backend_test {
protected:
  static constexpr std::size_t size = 3 << 20; // a block of this size has its own slab

  static constexpr std::size_t most = 8 << 20; // anything larger is not cached

  void make(std::uint64_t wait_above = 0) {
    upstream_ = std::make_shared<fault_resource>(std::make_shared<async_resource>(shared_device()));
    caching_options options;
    options.largest_cached = most;
    options.wait_above = wait_above;
    cache_.emplace(upstream_, shared_device(), options);
  }
  void TearDown() override {
    for (const stream_ref each : {first(), second()}) {
      device().synchronize_stream(each.native_handle());
    }
    cache_->trim();
    EXPECT_EQ(cache_->statistics().in_use, 0U);
    EXPECT_EQ(cache_->held_bytes(), 0U);
    EXPECT_EQ(upstream_->held_bytes(), 0U);
    backend_test::TearDown();
  }
  [[nodiscard]] stream_ref first() const { return first_.ref(); }
  [[nodiscard]] stream_ref second() const { return second_.ref(); }
  void fill(const block& freed, std::uint8_t value, stream_ref on) {
    device().fill(freed.pointer, value, freed.bytes, on.native_handle());
  }
  [[nodiscard]] bool on_host() const { return device().device().kind == device_kind::cpu; }

  [[nodiscard]] block get(std::size_t bytes, stream_ref on) { return cache_->allocate(bytes, 0, on); }
  void put(const block& freed, stream_ref on) { EXPECT_TRUE(cache_->deallocate(freed, on)); }
  [[nodiscard]] copy_kind within() const {
    return on_host() ? copy_kind::host_to_host : copy_kind::device_to_device;
  }
  /// Queues a copy of the block to `target`.
  void copy(const block& freed, const device_memory& target, stream_ref on) {
    device().copy(target.data(), freed.pointer, freed.bytes, within(), on.native_handle());
  }

  /// Queues a blocked read of a block, frees the block, allocates it again on `next` and writes it. Returns
  /// the bytes that the read has seen.
  std::vector<std::uint8_t> reuse(stream_ref next) { return reuse(first(), next, ordered::yes); }
  enum class ordered { yes, no };
  std::vector<std::uint8_t> reuse(stream_ref last, stream_ref next, ordered how) {
    const device_memory seen(last, size);
    const block before = cache_->allocate(size, 0, last);
    fill(before, 1, last);
    device().synchronize_stream(last.native_handle());
    const auto held = close_gate(last.native_handle());
    copy(before, seen, last);
    block unordered = before;
    unordered.ready = {};
    const bool freed = how == ordered::yes ? cache_->deallocate(before, last)
                                           : cache_->deallocate(unordered, std::span<const point>());
    EXPECT_TRUE(freed);
    const block after = cache_->allocate(size, 0, next);
    EXPECT_EQ(after.pointer, before.pointer);
    EXPECT_NE(after.generation, before.generation);
    fill(after, 2, next);
    if (how == ordered::no) {
      device().synchronize_stream(next.native_handle());
    } else if (held) {
      EXPECT_FALSE(next.idle());
    }
    if (held) {
      held->open();
    }
    const auto content = seen.download();
    EXPECT_TRUE(cache_->deallocate(after, next));
    return content;
  }

  std::shared_ptr<timelines> clocks_ = timelines::of(device());
  std::shared_ptr<fault_resource> upstream_;
  std::optional<caching_resource> cache_;

private:
  own_stream first_{clocks_};
  own_stream second_{clocks_};
};

TEST_P(caching, a_block_of_the_same_stream_is_reused_after_its_earlier_use) {
  make();
  EXPECT_EQ(reuse(first()), std::vector<std::uint8_t>(size, 1));
  EXPECT_EQ(cache_->statistics().steals, 0U);
}

TEST_P(caching, a_block_of_another_stream_is_reused_after_its_earlier_use) {
  make();
  EXPECT_EQ(reuse(second()), std::vector<std::uint8_t>(size, 1));
  EXPECT_EQ(cache_->statistics().steals, 1U);
}

TEST_P(caching, without_its_points_reuse_on_another_stream_corrupts_the_block) {
  if (!GetParam().close_gate) {
    make();
    GTEST_SKIP() << nothing_pends;
  }
  expect_races();
  make();
  EXPECT_EQ(reuse(first(), second(), ordered::no), std::vector<std::uint8_t>(size, 2))
      << "the test above can't fail";
}

TEST_P(caching, an_address_alternates_between_two_streams_without_corruption) {
  make();
  for (std::uint64_t round = 0; round < 64; ++round) {
    const bool forth = round % 2 == 0;
    ASSERT_EQ(reuse(forth ? first() : second(), forth ? second() : first(), ordered::yes),
              std::vector<std::uint8_t>(size, 1))
        << "round " << round;
    ASSERT_EQ(cache_->statistics().steals, round + 1) << "each round takes the block from the other stream";
  }
  EXPECT_EQ(cache_->statistics().upstream_allocations, 1U) << "one address";
}

TEST_P(caching, without_its_points_alternating_streams_corrupt_every_round) {
  if (!GetParam().close_gate) {
    make();
    GTEST_SKIP() << nothing_pends;
  }
  expect_races();
  make();
  for (std::uint64_t round = 0; round < 64; ++round) {
    const bool forth = round % 2 == 0;
    ASSERT_EQ(reuse(forth ? first() : second(), forth ? second() : first(), ordered::no),
              std::vector<std::uint8_t>(size, 2))
        << "round " << round << ": the test above can't fail";
  }
}

TEST_P(caching, a_steal_a_trim_and_a_large_free_do_not_invalidate_captures) {
  make();
  const stream others(shared_device());
  put(get(size, first()), first());
  const block beyond = get(most + 1, first());
  graph_capture capture(device(), others.ref().native_handle()); // not announced to Saeta
  const block stolen = get(size, second());
  EXPECT_EQ(cache_->statistics().steals, 1U);
  put(stolen, second());
  put(beyond, first());
  EXPECT_GE(cache_->trim(), size);
  EXPECT_TRUE(capture.end()) << "an event over all work was recorded and has ended the capture";
}

TEST_P(caching, a_block_of_an_idle_stream_needs_no_wait) {
  make();
  const block idle = get(size, first());
  fill(idle, 1, first());
  device().synchronize_stream(first().native_handle());
  put(idle, first());
  const stream busy(shared_device());
  const auto held = close_gate(busy.ref().native_handle());
  const device_memory target(busy.ref(), size);
  device().fill(target.data(), 3, size, busy.ref().native_handle());
  const block stolen = get(size, second());
  EXPECT_EQ(stolen.pointer, idle.pointer);
  fill(stolen, 2, second());
  device().synchronize_stream(second().native_handle()); // would hang if the allocation had waited
  if (held) {
    held->open();
  }
  put(stolen, second());
}

TEST_P(caching, a_cache_that_may_grow_makes_no_stream_wait_for_another) {
  make(2 * size);
  const device_memory target(first(), size);
  const block pending = get(size, first());
  const auto held = close_gate(first().native_handle());
  copy(pending, target, first());
  put(pending, first());
  const block added = get(size, second());
  fill(added, 2, second());
  device().synchronize_stream(second().native_handle()); // would hang if the allocation had waited
  if (held) {
    EXPECT_NE(added.pointer, pending.pointer);
    held->open();
  }
  put(added, second());
}

TEST_P(caching, a_slab_whose_free_failed_is_reused_after_all_its_users) {
  make();
  const device_memory seen_first(first(), size);
  const device_memory seen_second(second(), size);
  const block used = get(size, first());
  fill(used, 1, first());
  device().synchronize_stream(first().native_handle());
  const auto first_held = close_gate(first().native_handle());
  const auto second_held = close_gate(second().native_handle());
  copy(used, seen_first, first());
  copy(used, seen_second, second());
  EXPECT_TRUE(cache_->deallocate(used, std::array{record(first()), record(second())}));
  upstream_->fail_free(1);
  cache_->trim();
  ASSERT_EQ(cache_->statistics().slabs, 1U);
  const own_stream third(timelines::of(device()));
  const block again = get(size, third.ref());
  EXPECT_EQ(again.pointer, used.pointer);
  fill(again, 2, third.ref());
  for (const auto* held : {&first_held, &second_held}) {
    if (*held) {
      (*held)->open();
    }
  }
  EXPECT_EQ(seen_first.download(), std::vector<std::uint8_t>(size, 1));
  EXPECT_EQ(seen_second.download(), std::vector<std::uint8_t>(size, 1));
  device().synchronize_stream(third.ref().native_handle());
  put(again, third.ref());
}

TEST_P(caching, trim_frees_only_unused_memory) {
  make();
  const device_memory seen(first(), size);
  const block used = get(size, first());
  fill(used, 5, first());
  put(get(2 * size, first()), first());
  EXPECT_GE(cache_->trim(), 2 * size);
  EXPECT_EQ(cache_->statistics().slabs, 1U);
  EXPECT_EQ(cache_->held_bytes(), upstream_->held_bytes());
  copy(used, seen, first());
  EXPECT_EQ(seen.download(), std::vector<std::uint8_t>(size, 5));
  put(used, first());
}

TEST_P(caching, zero_bytes_take_no_slab) {
  make();
  const block one = get(0, first());
  const block two = get(0, second());
  EXPECT_EQ(one.pointer, nullptr);
  EXPECT_NE(one.generation, two.generation);
  put(one, second());
  put(two, first());
  EXPECT_EQ(cache_->statistics().upstream_allocations, 0U);
  EXPECT_EQ(cache_->held_bytes(), 0U);
}

TEST_P(caching, an_upstream_failure_changes_nothing) {
  make();
  for (const std::size_t bytes : {std::size_t{100}, size, most + 1}) {
    upstream_->fail_allocation(1);
    try {
      static_cast<void>(get(bytes, first()));
      ADD_FAILURE() << bytes << " bytes were allocated";
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::out_of_memory) << e.what();
    }
    EXPECT_EQ(cache_->held_bytes(), 0U);
    EXPECT_EQ(cache_->statistics().in_use, 0U);
    EXPECT_EQ(cache_->statistics().slabs, 0U);
    put(get(bytes, first()), first());
    cache_->trim();
    // Waits until the pool has the memory back. Otherwise a retry after the next failure might succeed.
    const std::optional<point> freed = clocks_->mark_device();
    ASSERT_TRUE(freed.has_value());
    synchronize(*freed);
    upstream_->trim();
  }
}

TEST_P(caching, frees_unused_memory_before_a_request_fails) {
  make();
  put(get(size, first()), first());
  upstream_->fail_allocation(1);
  const block other = get(2 * size, first());
  EXPECT_EQ(cache_->statistics().slabs, 1U) << "the unused one went back";
  put(other, first());
}

TEST_P(caching, blocks_freed_by_another_thread_are_reused_on_their_stream) {
  make();
  std::vector<block> passed;
  std::set<void*> addresses;
  for (int i = 0; i < 8; ++i) {
    passed.push_back(get(size, first()));
    addresses.insert(passed.back().pointer);
  }
  std::jthread([&] { // when the thread ends, its freed blocks are shared
    for (const block& each : passed) {
      put(each, first());
    }
  })
      .join();
  for (block& each : passed) {
    each = get(size, first());
    EXPECT_EQ(addresses.erase(each.pointer), 1U);
  }
  EXPECT_EQ(cache_->statistics().upstream_allocations, 8U);
  EXPECT_EQ(cache_->statistics().steals, 0U) << "one stream";
  for (const block& each : passed) {
    put(each, first());
  }
}

TEST_P(caching, blocks_passed_between_threads_and_streams_keep_their_bytes) {
  struct parcel {
    block held;
    point written;
    std::uint8_t value;
  };
  constexpr std::uint8_t threads = 4;
  make();
  std::mutex mutex;
  std::deque<parcel> shared;
  std::atomic<int> corrupted{0};
  std::vector<std::jthread> running;
  for (std::uint8_t t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      std::mt19937 random(t);
      const stream own(shared_device());
      const device_memory seen(own.ref(), 16384);
      for (int round = 0; round < 50; ++round) {
        parcel mine{get(1 + random() % 16384, own.ref()), {}, static_cast<std::uint8_t>(1 + t * 50 + round)};
        fill(mine.held, mine.value, own.ref());
        mine.written = mark(own.ref());
        {
          const std::lock_guard lock(mutex);
          shared.push_back(std::move(mine));
          mine = std::move(shared.front());
          shared.pop_front();
        }
        wait(own.ref(), mine.written);
        copy(mine.held, seen, own.ref());
        put(mine.held, own.ref());
        const auto content = seen.download();
        corrupted += static_cast<int>(
            std::count_if(content.begin(), content.begin() + static_cast<std::ptrdiff_t>(mine.held.bytes),
                          [&](std::uint8_t byte) { return byte != mine.value; }));
        if (round % 20 == 0) {
          cache_->trim();
        }
      }
    });
  }
  running.clear();
  EXPECT_EQ(corrupted, 0);
  EXPECT_TRUE(shared.empty());
}

SAETA_CONFORMANCE_SUITE(caching);

} // namespace
} // namespace saeta::conformance
