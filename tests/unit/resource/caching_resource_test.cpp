// The cache over a mocked driver, whose events and waits are counted, and over host memory with many threads.

#include "saeta/backend/host/host_backend.hpp"
#include "saeta/base/error.hpp"
#include "saeta/base/report.hpp"
#include "saeta/resource/cache/caching_resource.hpp"
#include "saeta/resource/cache/classes.hpp"
#include "saeta/resource/cache/shard.hpp"
#include "saeta/resource/driver/driver_resources.hpp"
#include "unit/base/raises.hpp"
#include "unit/resource/cache_over_driver.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace saeta {
namespace {

using ::testing::_;
using ::testing::Return;

using unit::address;
using unit::large;

class cache : public unit::cache_over_driver {};

TEST_F(cache, reuses_a_block_on_the_same_stream_without_a_driver_call) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{5000}, large}) {
    const block before = get(bytes, first());
    put(before, first());
    ::testing::Mock::VerifyAndClearExpectations(driver_.get());
    EXPECT_CALL(*driver_, record_event(_, _)).Times(0);
    EXPECT_CALL(*driver_, record_context(_)).Times(0);
    EXPECT_CALL(*driver_, wait_event(_, _)).Times(0);
    EXPECT_CALL(*driver_, allocate_async(_, _)).Times(0);
    const block after = get(bytes, first());
    EXPECT_EQ(after.pointer, before.pointer);
    EXPECT_NE(after.generation, before.generation);
    put(after, first());
    ::testing::Mock::VerifyAndClearExpectations(driver_.get());
  }
  expect_nothing_held();
}

TEST_F(cache, makes_another_stream_wait_once_for_all_stolen_blocks) {
  const block before = get(large, first());
  const block another = get(large, first());
  put(before, first());
  put(another, first());
  ON_CALL(*driver_, event_complete(_)).WillByDefault(Return(false));
  EXPECT_CALL(*driver_, record_context(_)).Times(0);
  EXPECT_CALL(*driver_, record_event(_, first().native_handle())).Times(1);
  EXPECT_CALL(*driver_, wait_event(second().native_handle(), _)).Times(1);
  EXPECT_CALL(*driver_, synchronize_event(_)).Times(0);
  EXPECT_CALL(*driver_, synchronize_stream(_)).Times(0);
  const block a = get(large, second());
  const block b = get(large, second());
  EXPECT_EQ(std::minmax(address(a), address(b)), std::minmax(address(before), address(another)));
  EXPECT_EQ(made_->statistics().steals, 1U);
  put(a, second());
  put(b, second());
  ::testing::Mock::VerifyAndClearExpectations(driver_.get());
  ON_CALL(*driver_, event_complete(_)).WillByDefault(Return(true)); // else timelines outlive the test
}

TEST_F(cache, makes_the_first_use_wait_for_a_pending_slab_allocation) {
  ON_CALL(*driver_, event_complete(_)).WillByDefault(Return(false));
  EXPECT_CALL(*driver_, wait_event(first().native_handle(), _)).Times(1);
  put(get(100, first()), first());
  ::testing::Mock::VerifyAndClearExpectations(driver_.get());
  ON_CALL(*driver_, event_complete(_)).WillByDefault(Return(true)); // else timelines outlive the test
}

TEST_F(cache, rounds_every_size_up_and_wastes_little) {
  const cache_classes classes(caching_options{}.largest_small, caching_options{}.largest_cached);
  for (std::size_t c = 0; c < classes.count(); ++c) {
    const std::size_t size = classes.bytes(c);
    EXPECT_EQ(size % 256, 0U);
    EXPECT_EQ(classes.of(size), c);
    if (c != 0) {
      const std::size_t below = classes.bytes(c - 1);
      EXPECT_LT(below, size);
      EXPECT_EQ(classes.of(below + 1), c);
      EXPECT_TRUE(size - below == 256 || (size - below) * 5 <= size) << size;
    }
  }
  EXPECT_EQ(classes.largest(), std::size_t{256} << 20);
  for (const std::size_t small : {4096U, 5000U, 70000U, 1U << 20}) {
    for (const std::size_t most : {70000U, 1U << 20, 3000001U}) {
      const cache_classes odd(std::min(small, most), most);
      EXPECT_GE(odd.largest(), most);
      EXPECT_LE(odd.count(), cache_classes::most);
      for (std::size_t c = 0; c < odd.count(); ++c) {
        EXPECT_EQ(odd.of(odd.bytes(c)), c) << small << ' ' << most;
      }
    }
  }
}

TEST_F(cache, blocks_around_every_class_bound_are_aligned_and_disjoint) {
  const cache_classes classes(1 << 20, 256 << 20);
  std::vector<block> live;
  for (std::size_t c = 0; classes.bytes(c) <= 2 << 20; ++c) {
    for (const std::size_t bytes : {classes.bytes(c) - 1, classes.bytes(c), classes.bytes(c) + 1}) {
      live.push_back(get(bytes, first()));
      EXPECT_EQ(address(live.back()) % device_alignment, 0U);
      EXPECT_EQ(live.back().bytes, bytes);
      EXPECT_EQ(live.back().stream_id, first().id());
    }
  }
  std::sort(live.begin(), live.end(), [](const block& a, const block& b) { return address(a) < address(b); });
  for (std::size_t i = 1; i < live.size(); ++i) {
    EXPECT_LE(address(live[i - 1]) + live[i - 1].bytes, address(live[i]));
  }
  for (const block& each : live) {
    put(each, first());
  }
  expect_nothing_held();
}

TEST_F(cache, honours_larger_alignments_and_refuses_invalid_ones) {
  const block aligned = made_->allocate(100, 1 << 16, first());
  EXPECT_EQ(address(aligned) % (1 << 16), 0U);
  put(aligned, first());
  EXPECT_THROW(static_cast<void>(made_->allocate(100, 3, first())), error);
  EXPECT_THROW(static_cast<void>(made_->allocate(0, 3, first())), error);
  expect_nothing_held();
}

TEST_F(cache, zero_bytes_give_a_unique_null_block) {
  EXPECT_CALL(*driver_, allocate_async(_, _)).Times(0);
  const block one = get(0, first());
  const block two = get(0, first());
  EXPECT_EQ(one.pointer, nullptr);
  EXPECT_NE(one.generation, two.generation);
  put(one, first());
  put(two, first());
  EXPECT_EQ(made_->statistics().upstream_allocations, 0U);
  ::testing::Mock::VerifyAndClearExpectations(driver_.get());
}

TEST_F(cache, passes_large_blocks_to_upstream_and_frees_them_in_stream_order) {
  constexpr std::size_t bytes = (256 << 20) + 1;
  const block passed = get(bytes, first());
  EXPECT_EQ(made_->statistics().in_use, passed.base_bytes);
  ON_CALL(*driver_, event_complete(_)).WillByDefault(Return(false));
  EXPECT_CALL(*driver_, wait_event(_, _)).Times(1);
  EXPECT_CALL(*driver_, deallocate_async(passed.base, _, _)).Times(1);
  put(passed, first());
  EXPECT_EQ(made_->statistics().held, 0U);
  ::testing::Mock::VerifyAndClearExpectations(driver_.get());
  ON_CALL(*driver_, event_complete(_)).WillByDefault(Return(true)); // else timelines outlive the test
}

TEST_F(cache, an_upstream_failure_changes_nothing) {
  for (const std::size_t bytes : {std::size_t{100}, large, std::size_t{(256 << 20) + 1}}) {
    upstream_->fail_allocation(1);
    EXPECT_THROW(static_cast<void>(get(bytes, first())), error);
    EXPECT_EQ(made_->statistics().held, 0U);
    EXPECT_EQ(made_->statistics().in_use, 0U);
    EXPECT_EQ(made_->statistics().slabs, 0U);
    put(get(bytes, first()), first());
    expect_nothing_held();
  }
}

TEST_F(cache, frees_unused_slabs_before_it_fails) {
  put(get(large, first()), first());
  upstream_->fail_allocation(1);
  const block other = get(2 * large, first());
  EXPECT_EQ(made_->statistics().slabs, 1U) << "the unused one went back";
  put(other, first());
}

TEST_F(cache, a_slab_whose_free_fails_stays_usable) {
  const report_sink shown = set_report_sink([](std::string_view, std::string_view) noexcept {});
  const block before = get(large, first());
  put(before, first());
  upstream_->fail_free(1);
  made_->trim();
  EXPECT_EQ(made_->statistics().slabs, 1U);
  EXPECT_EQ(made_->statistics().held, upstream_->held_bytes());
  const block after = get(large, first());
  EXPECT_EQ(after.pointer, before.pointer);
  put(after, first());
  expect_nothing_held();
  set_report_sink(shown);
}

TEST_F(cache, trims_only_unused_slabs) {
  const block used = get(large, first());
  put(get(2 * large, first()), first());
  EXPECT_GE(made_->trim(), 2 * large);
  EXPECT_EQ(made_->statistics().slabs, 1U);
  put(used, first());
  expect_nothing_held();
}

TEST_F(cache, a_slab_being_freed_keeps_its_users_during_a_concurrent_trim) {
  const auto recorded =
      std::make_shared<std::map<event_handle, stream_handle>>(); // used by calls after the end of the test
  const auto awaited = std::make_shared<std::vector<stream_handle>>();
  ON_CALL(*driver_, record_event(_, _)).WillByDefault([=](event_handle event, stream_handle stream) {
    (*recorded)[event] = stream;
  });
  ON_CALL(*driver_, event_complete(_)).WillByDefault(Return(false));
  const block one = get(large, first());
  const block other = get(large, second());
  put(one, first());
  put(other, second());
  ON_CALL(*driver_, wait_event(_, _)).WillByDefault([=](stream_handle, event_handle event) {
    awaited->push_back((*recorded)[event]);
  });
  ON_CALL(*driver_, deallocate_async(_, _, _))
      .WillByDefault([this](void* pointer, std::size_t bytes, stream_handle) {
        EXPECT_EQ(made_->trim(), 0U) << "both are on their way";
        return memory_->deallocate(pointer, bytes, device_alignment);
      });
  EXPECT_GT(made_->trim(), 0U);
  EXPECT_THAT(*awaited, ::testing::UnorderedElementsAre(first().native_handle(), second().native_handle()));
  ON_CALL(*driver_, event_complete(_)).WillByDefault(Return(true)); // else timelines outlive the test
}

TEST_F(cache, frees_unused_slabs_above_the_soft_limit) {
  caching_options options;
  options.soft_limit = 4 * large;
  make(options);
  for (std::size_t times = 1; times <= 5; ++times) {
    put(get(times * large / 2, first()), first());
    EXPECT_LE(made_->statistics().held, options.soft_limit);
  }
  expect_nothing_held();
}

TEST_F(cache, begins_with_small_slabs_and_doubles_them) {
  std::vector<block> live;
  std::vector<std::uint64_t> grown; // bytes that each new slab adds
  for (std::uint64_t before = 0; grown.size() < 7;) {
    live.push_back(get(4096, first()));
    if (const std::uint64_t now = made_->statistics().held; now != before) {
      grown.push_back((now - std::exchange(before, now)) >> 10);
    }
  }
  EXPECT_EQ(grown, (std::vector<std::uint64_t>{64, 128, 256, 512, 1024, 2048, 2048})) << "KiB";
  for (const block& each : live) {
    put(each, first());
  }
  expect_nothing_held();
}

TEST_F(cache, alternating_streams_share_blocks_if_no_slab_can_be_added) {
  caching_options options;
  options.soft_limit = (4 << 20) + 8192 + 4096;
  options.slab = 8192;
  make(options);
  std::vector<block> live;
  for (int i = 0; i < 4; ++i) {
    live.push_back(get(1 << 20, first()));
  }
  live.push_back(get(4096, first())); // one block of its slab stays free
  const std::uint64_t before = made_->statistics().upstream_allocations;
  for (int round = 0; round < 40; ++round) { // enough misses that a stream tries to add a slab
    put(get(4096, first()), first());
    put(get(4096, second()), second());
  }
  EXPECT_EQ(made_->statistics().upstream_allocations, before);
  for (const block& each : live) {
    put(each, first());
  }
  expect_nothing_held();
}

TEST_F(cache, refuses_options_that_leave_no_classes) {
  constexpr std::size_t least = 4096;
  constexpr std::size_t most = std::size_t{64} << 30;
  struct {
    std::size_t largest_small;
    std::size_t largest_cached;
    bool refused;
  } const cases[] = {{least, least, false}, {least - 1, least, true},      {least + 1, least, true},
                     {least, most, false},  {least + 1, least + 1, false}, {least, most + 1, true}};
  for (const auto& each : cases) {
    caching_options options;
    options.largest_small = each.largest_small;
    options.largest_cached = each.largest_cached;
    std::string message;
    const auto refused = unit::code_raised_by([&] { make(options); }, &message);
    EXPECT_EQ(refused == errc::invalid_argument, each.refused)
        << each.largest_small << ' ' << each.largest_cached;
    if (each.refused) {
      EXPECT_EQ(message,
                "caching_options: expected 4096 <= largest_small <= largest_cached <= 68719476736, not " +
                    std::to_string(each.largest_small) + " and " + std::to_string(each.largest_cached));
    }
  }
}

TEST_F(cache, caches_blocks_up_to_a_size_and_alignment) {
  caching_options options;
  options.largest_cached = 8 << 20;
  make(options);
  struct {
    std::size_t bytes;
    std::size_t alignment;
    bool cached;
  } const cases[] = {{1, 0, true},   {8 << 20, 0, true}, {(8 << 20) + 1, 0, false},
                     {100, 1, true}, {100, 256, true},   {100, 512, false},
                     {0, 0, false},  {0, 1024, false}};
  for (const auto& each : cases) {
    const block made = made_->allocate(each.bytes, each.alignment, first());
    EXPECT_EQ(made.cached, each.cached) << each.bytes << ' ' << each.alignment;
    EXPECT_EQ(made.alignment, std::max(each.alignment, device_alignment));
    put(made, first());
  }
  EXPECT_EQ(made_->statistics().beyond_bound, 0U);
  expect_nothing_held();
}

TEST_F(cache, returns_an_unused_block_to_the_stream_of_its_allocation) {
  put(get(large, first()), first());
  const block unused = get(large, second());
  EXPECT_EQ(made_->statistics().steals, 1U);
  EXPECT_TRUE(made_->deallocate(unused, std::span<const point>()));
  const block again = get(large, second());
  EXPECT_EQ(again.pointer, unused.pointer);
  EXPECT_EQ(made_->statistics().steals, 1U);
  put(again, first()); // last used on first()
  put(get(large, first()), first());
  EXPECT_EQ(made_->statistics().steals, 1U);
  EXPECT_EQ(made_->statistics().upstream_allocations, 1U);
}

TEST_F(cache, returns_a_block_of_several_users_to_the_first_one) {
  ON_CALL(*driver_, event_complete(_)).WillByDefault(Return(false));
  const block passed = get(large, first());
  EXPECT_TRUE(made_->deallocate(passed, std::array{mark(first()), mark(second())}));
  put(get(large, first()), first());
  EXPECT_EQ(made_->statistics().steals, 0U);
  const block stolen = get(large, second());
  EXPECT_EQ(made_->statistics().steals, 1U);
  const own_stream third(clocks_);
  EXPECT_TRUE(made_->deallocate(stolen, std::array{stolen.ready, mark(third.ref())}));
  put(get(large, first()), first());
  EXPECT_EQ(made_->statistics().steals, 1U) << "it was used";
  ON_CALL(*driver_, event_complete(_)).WillByDefault(Return(true)); // else timelines outlive the test
}

TEST_F(cache, makes_another_stream_wait_for_every_user_of_a_block) {
  ON_CALL(*driver_, event_complete(_)).WillByDefault(Return(false));
  const own_stream third(clocks_);
  const block shared = get(large, first());
  const std::array users{mark(first()), mark(second())};
  EXPECT_TRUE(made_->deallocate(shared, users));
  EXPECT_CALL(*driver_, wait_event(third.ref().native_handle(), _)).Times(2);
  const block taken = get(large, third.ref());
  EXPECT_EQ(taken.ready.timeline, timeline_of(third.ref())) << "it stands behind both";
  ::testing::Mock::VerifyAndClearExpectations(driver_.get());
  put(taken, third.ref());
  const block stolen = get(large, first());
  EXPECT_EQ(stolen.ready.timeline, timeline_of(third.ref())) << "its only user";
  put(stolen, first());
  ON_CALL(*driver_, event_complete(_)).WillByDefault(Return(true)); // else timelines outlive the test
}

TEST_F(cache, remembers_what_a_stream_has_already_waited_for) {
  const std::array blocks{get(large, first()), get(large, first())};
  for (const block& each : blocks) {
    put(each, first());
  }
  put(get(2 * large, second()), second());
  ON_CALL(*driver_, event_complete(_)).WillByDefault(Return(false));
  EXPECT_CALL(*driver_, wait_event(second().native_handle(), _)).Times(1);
  const std::array taken{get(large, second()), get(2 * large, second()), get(large, second())};
  ::testing::Mock::VerifyAndClearExpectations(driver_.get());
  for (const block& each : taken) {
    put(each, second());
  }
  ON_CALL(*driver_, event_complete(_)).WillByDefault(Return(true));
}

TEST_F(cache, counts_a_large_block_whose_free_fails) {
  const report_sink shown = set_report_sink([](std::string_view, std::string_view) noexcept {});
  const block kept = get((256 << 20) + 1, first());
  upstream_->fail_free(1);
  EXPECT_FALSE(made_->deallocate(kept, first()));
  EXPECT_EQ(made_->statistics().held, kept.base_bytes);
  EXPECT_EQ(made_->statistics().in_use, kept.base_bytes);
  put(kept, first());
  expect_nothing_held();
  set_report_sink(shown);
}

TEST_F(cache, reports_blocks_that_are_in_use_at_its_end) {
  static std::string reported;
  const report_sink shown =
      set_report_sink([](std::string_view, std::string_view text) noexcept { reported = text; });
  reported.clear();
  put(get(large, first()), first());
  made_.reset();
  EXPECT_EQ(reported, "");
  make({});
  const block leaked = get(large, first());
  made_.reset();
  EXPECT_EQ(reported, "destroyed with 3145728 bytes that are in use or could not be freed");
  EXPECT_TRUE(memory_->deallocate(leaked.base, leaked.base_bytes, device_alignment));
  set_report_sink(shown);
}

TEST_F(cache, has_at_most_as_many_nodes_as_blocks) {
  const void* node = nullptr;
  for (int times = 0; times < 300; ++times) { // more nodes than are allocated at a time
    const block made = get(large, first());
    const void* const before = std::exchange(node, made.record);
    EXPECT_TRUE(before == nullptr || before == node);
    put(made, first());
    EXPECT_EQ(made_->trim(), large);
  }
}

TEST_F(cache, does_not_trim_slabs_whose_free_would_synchronise) {
  caching_resource made(std::make_shared<direct_resource>(driver_), driver_);
  ON_CALL(*driver_, allocate(_, _)).WillByDefault([this](std::size_t bytes, std::size_t alignment) {
    return memory_->allocate(bytes, alignment);
  });
  ON_CALL(*driver_, deallocate(_, _, _))
      .WillByDefault([this](void* pointer, std::size_t bytes, std::size_t alignment) {
        return memory_->deallocate(pointer, bytes, alignment);
      });
  const block used = made.allocate(large, 0, first());
  EXPECT_TRUE(made.deallocate(used, first()));
  ON_CALL(*driver_, event_complete(_)).WillByDefault(Return(false));
  EXPECT_CALL(*driver_, synchronize_event(_)).Times(0);
  EXPECT_EQ(made.trim(), 0U);
  EXPECT_EQ(made.statistics().slabs, 1U);
  ON_CALL(*driver_, event_complete(_)).WillByDefault(Return(true));
  EXPECT_EQ(made.trim(), large);
  EXPECT_EQ(made.statistics().slabs, 0U);
}

TEST_F(cache, a_slab_whose_free_failed_is_freed_in_order_later) {
  const report_sink shown = set_report_sink([](std::string_view, std::string_view) noexcept {});
  const block used = get(large, first());
  ON_CALL(*driver_, event_complete(_)).WillByDefault(Return(false));
  put(used, first());
  upstream_->fail_free(1);
  EXPECT_EQ(made_->trim(), 0U);
  EXPECT_CALL(*driver_, wait_event(_, _)).Times(1);
  EXPECT_EQ(made_->trim(), large);
  ::testing::Mock::VerifyAndClearExpectations(driver_.get());
  ON_CALL(*driver_, event_complete(_)).WillByDefault(Return(true)); // else timelines outlive the test
  set_report_sink(shown);
}

TEST_F(cache, recounts_the_free_blocks_of_a_slab_in_each_trim) {
  std::vector<block> live{get(4096, first()), get(4096, first())}; // both blocks of one slab
  for (const block& each : live) {
    EXPECT_EQ(made_->trim(), 0U);
    put(each, first());
  }
  EXPECT_EQ(made_->trim(), 64U << 10);
  expect_nothing_held();
}

TEST_F(cache, blocks_freed_at_the_end_of_a_thread_are_shared) {
  struct at_the_end { // runs at the end of the thread, after its shards are destroyed
    std::function<void()> action;
    ~at_the_end() { action ? action() : void(); }
  };
  block freed;
  std::thread([&] {
    static thread_local at_the_end last;
    last.action = [&] {
      freed = get(large, first());
      put(freed, first());
    };
    EXPECT_TRUE(cache_shards::keep(std::make_shared<cache_shard>(0, timeline_id{1})));
  }).join();
  const block found = get(large, second());
  EXPECT_EQ(found.pointer, freed.pointer);
  EXPECT_EQ(made_->statistics().steals, 0U) << "a block without an owner is not stolen";
  put(found, second());
}

TEST_F(cache, another_thread_reuses_blocks_freed_on_the_same_stream) {
  const block before = get(large, first());
  put(before, first());
  std::thread([&] { // its blocks are shared when it ends
    const block there = get(large, first());
    EXPECT_EQ(there.pointer, before.pointer);
    put(there, first());
  })
      .join();
  const block after = get(large, first());
  EXPECT_EQ(after.pointer, before.pointer);
  EXPECT_EQ(made_->statistics().upstream_allocations, 1U);
  EXPECT_EQ(made_->statistics().steals, 0U);
  put(after, first());
}

TEST_F(cache, more_streams_than_a_thread_caches_leak_nothing) {
  std::vector<stream> streams;
  std::vector<block> live;
  for (int i = 0; i < 100; ++i) {
    live.push_back(get(100, streams.emplace_back(driver_).ref()));
  }
  for (std::size_t i = 0; i < live.size(); ++i) {
    put(live[i], streams[i].ref());
  }
  expect_nothing_held();
}

TEST(cache_of_threads, storm_write_verify_free) {
  constexpr int threads = 16;
  constexpr int rounds = 1500;
  const auto memory = make_host_backend();
  const auto upstream = std::make_shared<async_resource>(memory);
  caching_resource made(upstream, memory);
  const stream shared(memory);
  std::mutex mutex;
  std::vector<block> passed_on;
  std::atomic<int> corrupted{0};
  const auto release = [&](const block& freed, stream_ref on) {
    const auto* bytes = static_cast<const std::uint8_t*>(freed.pointer);
    corrupted += std::any_of(bytes, bytes + freed.bytes, [&](auto b) { return b != bytes[0]; });
    EXPECT_TRUE(made.deallocate(freed, on));
  };
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      const stream own(memory);
      std::vector<block> live;
      for (int round = 0; round < rounds; ++round) {
        const stream_ref on = random() % 4 == 0 ? shared.ref() : own.ref();
        const std::size_t bytes = 1 + random() % (std::size_t{1} << random() % 14);
        live.push_back(made.allocate(bytes, 0, on));
        std::memset(live.back().pointer, t * 15 + round % 15, bytes);
        if (live.size() > 8) {
          std::swap(live.back(), live[random() % live.size()]);
          block leaving = live.back();
          live.pop_back();
          if (random() % 4 == 0) {
            const std::lock_guard lock(mutex);
            passed_on.insert(passed_on.begin(), leaving);
            leaving = passed_on.back();
            passed_on.pop_back();
          }
          release(leaving, on);
        }
        if (random() % 500 == 0) {
          made.trim();
        }
      }
      for (const block& each : live) {
        release(each, own.ref());
      }
    });
  }
  for (std::thread& each : running) {
    each.join();
  }
  EXPECT_EQ(corrupted, 0);
  EXPECT_EQ(made.statistics().in_use, 0U);
  made.trim();
  EXPECT_EQ(made.held_bytes(), 0U);
}

} // namespace
} // namespace saeta
