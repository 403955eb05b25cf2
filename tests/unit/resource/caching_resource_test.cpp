// The cache over a mocked driver, whose events and waits are counted, and over ordinary memory for threads.

#include "saeta/backend/host/host_backend.hpp"
#include "saeta/base/error.hpp"
#include "saeta/base/report.hpp"
#include "saeta/resource/cache/caching_resource.hpp"
#include "saeta/resource/cache/detail/classes.hpp"
#include "saeta/resource/decorators/fault_resource.hpp"
#include "saeta/resource/driver/driver_resources.hpp"
#include "unit/device/mock_backend.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace saeta {
namespace {

using ::testing::_;
using ::testing::NiceMock;
using ::testing::Return;

constexpr std::size_t large = 3 << 20; // has a slab to itself

std::uintptr_t address(const block& of) { return reinterpret_cast<std::uintptr_t>(of.pointer); }

/// A cache over fault injection over the driver's pool of a pretended GPU, whose calls end up in ordinary memory.
class cache : public ::testing::Test {
protected:
  cache() {
    ON_CALL(*driver_, device()).WillByDefault(Return(device_id{device_kind::cuda, 0}));
    ON_CALL(*driver_, create_stream()).WillByDefault([this] { return memory_->create_stream(); });
    ON_CALL(*driver_, stream_id(_)).WillByDefault([](stream_handle s) {
      return static_cast<std::uint64_t>(s);
    });
    ON_CALL(*driver_, create_event()).WillByDefault([this] { return memory_->create_event(); });
    ON_CALL(*driver_, event_complete(_)).WillByDefault(Return(true));
    ON_CALL(*driver_, record_context(_)).WillByDefault(Return(fence_outcome::recorded));
    ON_CALL(*driver_, allocate_async(_, _)).WillByDefault([this](std::size_t bytes, stream_handle) {
      return memory_->allocate(bytes, device_alignment);
    });
    ON_CALL(*driver_, deallocate_async(_, _, _))
        .WillByDefault([this](void* pointer, std::size_t bytes, stream_handle) {
          return memory_->deallocate(pointer, bytes, device_alignment);
        });
    make({});
  }

  void make(caching_options options) {
    first_.reset();
    second_.reset();
    made_.reset();
    upstream_ = std::make_shared<fault_resource>(std::make_shared<async_resource>(driver_));
    made_ = std::make_unique<caching_resource>(upstream_, driver_, options);
    first_.emplace(clocks_);
    second_.emplace(clocks_);
  }
  [[nodiscard]] stream_ref first() const { return first_->ref(); }
  [[nodiscard]] stream_ref second() const { return second_->ref(); }
  [[nodiscard]] block get(std::size_t bytes, stream_ref on) { return made_->allocate(bytes, 0, on); }
  void put(const block& freed, stream_ref on) { EXPECT_TRUE(made_->deallocate(freed, on)); }
  void expect_nothing_held() {
    made_->trim();
    EXPECT_EQ(made_->statistics().in_use, 0U);
    EXPECT_EQ(made_->statistics().held, 0U);
    EXPECT_EQ(made_->statistics().slabs, 0U);
    EXPECT_EQ(upstream_->held_bytes(), 0U);
  }

  std::shared_ptr<backend> memory_ = make_host_backend();
  std::shared_ptr<NiceMock<unit::mock_backend>> driver_ = std::make_shared<NiceMock<unit::mock_backend>>();
  std::shared_ptr<fault_resource> upstream_;
  std::unique_ptr<caching_resource> made_;
  std::shared_ptr<timelines> clocks_ = timelines::of(*driver_);
  std::optional<own_stream> first_;
  std::optional<own_stream> second_;
};

TEST_F(cache, gives_a_block_of_the_same_stream_again_without_a_driver_call) {
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

TEST_F(cache, makes_another_stream_wait_once_for_all_that_it_takes_over) {
  const block before = get(large, first());
  const block another = get(large, first());
  put(before, first());
  put(another, first());
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
}

TEST_F(cache, makes_the_first_use_wait_for_a_slab_that_is_not_there_yet) {
  ON_CALL(*driver_, event_complete(_)).WillByDefault(Return(false));
  EXPECT_CALL(*driver_, wait_event(first().native_handle(), _)).Times(1);
  put(get(100, first()), first());
  ::testing::Mock::VerifyAndClearExpectations(driver_.get());
  ON_CALL(*driver_, event_complete(_)).WillByDefault(Return(true)); // else its clocks outlive the test
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

TEST_F(cache, blocks_around_every_class_bound_are_aligned_and_apart) {
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

TEST_F(cache, honours_more_alignment_and_refuses_what_is_none) {
  const block aligned = made_->allocate(100, 1 << 16, first());
  EXPECT_EQ(address(aligned) % (1 << 16), 0U);
  put(aligned, first());
  EXPECT_THROW(static_cast<void>(made_->allocate(100, 3, first())), error);
  EXPECT_THROW(static_cast<void>(made_->allocate(0, 3, first())), error);
  expect_nothing_held();
}

TEST_F(cache, zero_bytes_are_a_null_block_of_their_own) {
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

TEST_F(cache, passes_large_blocks_on_and_frees_them_in_order) {
  constexpr std::size_t bytes = (256 << 20) + 1;
  const block passed = get(bytes, first());
  EXPECT_EQ(made_->statistics().in_use, passed.base_bytes);
  ON_CALL(*driver_, event_complete(_)).WillByDefault(Return(false));
  EXPECT_CALL(*driver_, wait_event(_, _)).Times(1);
  EXPECT_CALL(*driver_, deallocate_async(passed.base, _, _)).Times(1);
  put(passed, first());
  EXPECT_EQ(made_->statistics().held, 0U);
  ::testing::Mock::VerifyAndClearExpectations(driver_.get());
  ON_CALL(*driver_, event_complete(_)).WillByDefault(Return(true)); // else its clocks outlive the test
}

TEST_F(cache, an_upstream_failure_leaves_no_trace) {
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

TEST_F(cache, makes_room_before_it_gives_up) {
  put(get(large, first()), first());
  upstream_->fail_allocation(1);
  const block other = get(2 * large, first());
  EXPECT_EQ(made_->statistics().slabs, 1U) << "the unused one went back";
  put(other, first());
}

TEST_F(cache, a_failed_free_upstream_keeps_the_slab_for_use) {
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

TEST_F(cache, trims_what_is_unused_and_nothing_else) {
  const block used = get(large, first());
  put(get(2 * large, first()), first());
  EXPECT_GE(made_->trim(), 2 * large);
  EXPECT_EQ(made_->statistics().slabs, 1U);
  put(used, first());
  expect_nothing_held();
}

TEST_F(cache, a_slab_on_its_way_upstream_keeps_its_users_while_others_trim) {
  const auto recorded = std::make_shared<std::map<event_handle, stream_handle>>(); // calls outlive the test
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
  ON_CALL(*driver_, event_complete(_)).WillByDefault(Return(true)); // or the clock outlives the test
}

TEST_F(cache, gives_unused_slabs_back_above_the_soft_limit) {
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
  std::vector<std::uint64_t> grown; // by each slab
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

/// A cache at its limit, where slabs have two blocks of 4 KiB.
class full_cache : public cache {
protected:
  static constexpr std::size_t size = 4096;
  static constexpr std::uint64_t limit = 4 << 20;
  static constexpr std::size_t slab = 8192;

  full_cache() {
    caching_options options;
    options.soft_limit = limit;
    options.slab = slab;
    make(options);
    while (live_.size() * size < limit) {
      live_.push_back(get(size, first()));
    }
    EXPECT_EQ(made_->statistics().held, limit);
  }
  ~full_cache() override {
    for (const block& each : live_) {
      put(each, first());
    }
    expect_nothing_held();
  }
  /// One block of each slab, so that none can be given back.
  void free_every_other() {
    for (std::size_t i = 0; i < live_.size(); ++i) {
      put(live_[i], first());
      live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  [[nodiscard]] block take_out() {
    const block last = live_.back();
    live_.pop_back();
    return last;
  }

  std::vector<block> live_;
};

TEST_F(full_cache, takes_larger_blocks_before_it_exceeds_its_limit_by_more_than_a_slab) {
  free_every_other();
  for (int i = 0; i < 100; ++i) {
    live_.push_back(get(1000, first()));
    EXPECT_LE(made_->statistics().held, limit + slab);
  }
  EXPECT_EQ(made_->statistics().beyond_bound, 0U);
  EXPECT_GT(made_->statistics().held, limit) << "a block by itself costs fewer bytes";
}

TEST_F(full_cache, serves_beyond_the_limit_what_has_no_room_in_partly_used_slabs) {
  free_every_other();
  live_.push_back(get(limit / 4, first()));
  EXPECT_EQ(made_->statistics().beyond_bound, 1U);
  put(take_out(), first());
  EXPECT_EQ(made_->statistics().held, limit);
}

TEST_F(full_cache, does_not_take_the_lists_of_others_in_vain_again_and_again) {
  const block free = take_out();
  put(free, first());
  const block small = get(1000, first()); // looks for slabs to give back, and finds none
  const block again = get(size, first());
  EXPECT_EQ(again.pointer, free.pointer);
  put(again, first());
  const block another = get(1000, first());
  live_.push_back(get(size, second()));
  EXPECT_EQ(made_->statistics().steals, 1U) << "it was still in the list of its stream";
  put(small, first());
  put(another, first());
}

TEST_F(full_cache, gives_slabs_back_once_so_much_has_been_freed) {
  put(take_out(), first());
  const block small = get(1000, first()); // as above
  for (int i = 0; i < 9; ++i) {
    put(take_out(), first());
  }
  put(get(4 * size, first()), first());
  EXPECT_LE(made_->statistics().held, limit);
  put(small, first());
  EXPECT_EQ(made_->statistics().beyond_bound, 0U);
}

TEST_F(cache, streams_that_take_turns_get_what_was_collected_where_a_further_slab_has_no_room) {
  caching_options options;
  options.soft_limit = (4 << 20) + 8192 + 4096;
  options.slab = 8192;
  make(options);
  std::vector<block> live;
  for (int i = 0; i < 4; ++i) {
    live.push_back(get(1 << 20, first()));
  }
  live.push_back(get(4096, first())); // and one block of its slab is free
  const std::uint64_t before = made_->statistics().upstream_allocations;
  for (int round = 0; round < 40; ++round) { // after some of them, one wants a slab of its own
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
  caching_options options;
  options.largest_small = 2 * options.largest_cached;
  EXPECT_THROW(caching_resource(upstream_, driver_, options), error);
}

TEST_F(cache, another_thread_finds_what_was_freed_on_the_stream) {
  const block before = get(large, first());
  put(before, first());
  std::thread([&] { // and leaves it behind when it ends
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

TEST_F(cache, more_streams_than_a_thread_keeps_lose_nothing) {
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
