// A cache at its soft limit: when it frees slabs, and how many bytes it holds
// (saeta/resource/cache/caching_resource.hpp).
#include "saeta/base/error.hpp"
#include "saeta/budget/budget.hpp"
#include "unit/base/raises.hpp"
#include "unit/resource/cache_over_driver.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace saeta {
namespace {

using ::testing::_;
using ::testing::Return;
using unit::large;

class bounded_cache : public unit::cache_over_driver {};

/// A cache that has reached its limit; its slabs have two blocks of 4 KiB.
class full_cache : public unit::cache_over_driver {
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
  /// Frees one block of each slab, so that no slab is unused.
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

TEST_F(full_cache, uses_larger_blocks_instead_of_exceeding_its_limit_by_more_than_a_slab) {
  free_every_other();
  for (int i = 0; i < 100; ++i) {
    live_.push_back(get(1000, first()));
    EXPECT_LE(made_->statistics().held, limit + slab);
  }
  EXPECT_EQ(made_->statistics().beyond_bound, 0U);
  EXPECT_GT(made_->statistics().held, limit) << "a block by itself costs fewer bytes";
}

TEST_F(full_cache, allocates_beyond_the_limit_if_no_slab_has_room) {
  free_every_other();
  live_.push_back(get(limit / 4, first()));
  EXPECT_EQ(made_->statistics().beyond_bound, 1U);
  put(take_out(), first());
  EXPECT_EQ(made_->statistics().held, limit);
}

TEST_F(full_cache, does_not_collect_blocks_of_other_shards_again_after_a_failed_search) {
  const block free = take_out();
  put(free, first());
  const block small = get(1000, first()); // searches for unused slabs, and finds none
  const block again = get(size, first());
  EXPECT_EQ(again.pointer, free.pointer);
  put(again, first());
  const block another = get(1000, first());
  live_.push_back(get(size, second()));
  EXPECT_EQ(made_->statistics().steals, 1U) << "it was still in the list of its stream";
  put(small, first());
  put(another, first());
}

TEST_F(full_cache, searches_unused_slabs_again_after_enough_frees) {
  put(take_out(), first());
  const block small = get(1000, first()); // finds no unused slab, as above
  for (int i = 0; i < 9; ++i) {
    put(take_out(), first());
  }
  put(get(4 * size, first()), first());
  EXPECT_LE(made_->statistics().held, limit);
  put(small, first());
  EXPECT_EQ(made_->statistics().beyond_bound, 0U);
}

TEST_F(full_cache, frees_only_as_many_slabs_as_it_needs) {
  for (int i = 0; i < 6; ++i) {
    put(take_out(), first());
  }
  const std::uint64_t slabs = made_->statistics().slabs;
  made_->set_soft_limit(limit + 2 * size);
  EXPECT_CALL(*driver_, trim_pool(0)).Times(1); // the pool returns the memory to the device
  const block added = get(4 * size, first());
  ::testing::Mock::VerifyAndClearExpectations(driver_.get());
  EXPECT_TRUE(added.cached);
  EXPECT_EQ(made_->statistics().slabs, slabs - 1 + 1);
  EXPECT_EQ(made_->statistics().held, limit + 2 * size);
  put(added, first());
}

TEST_F(full_cache, searches_for_unused_slabs_again_after_frees_of_one_slab) {
  put(take_out(), first());
  const block alone = get(1000, first()); // no space for a slab of 8 blocks of 1024 bytes
  EXPECT_FALSE(alone.cached);
  put(alone, first());
  put(take_out(), first()); // now a slab is unused
  const block beside = get(1000, first());
  EXPECT_FALSE(beside.cached) << "of 8192 bytes only 4096 have been freed since";
  put(beside, first());
  put(take_out(), first());
  const std::uint64_t slabs = made_->statistics().slabs;
  const block cached = get(1000, first());
  EXPECT_TRUE(cached.cached);
  EXPECT_EQ(made_->statistics().slabs, slabs) << "one for another";
  put(cached, first());
}

TEST_F(full_cache, searches_again_after_a_slab_was_freed_since_others_were_added) {
  std::vector<block> freed;
  for (int i = 0; i < 20; ++i) { // the second blocks of the last slabs
    const auto each = live_.end() - 1 - i;
    freed.push_back(*each);
    put(*each, first());
    live_.erase(each);
  }
  const block alone = get(1000, first());
  EXPECT_FALSE(alone.cached);
  put(alone, first());
  for (std::size_t i = 0; i < freed.size(); ++i) {
    live_.push_back(get(size, first()));
  }
  const block beside = get(1000, first()); // no free block is left
  EXPECT_FALSE(beside.cached);
  put(beside, first());
  put(live_.front(), first());
  live_.erase(live_.begin());
  put(live_.front(), first());
  live_.erase(live_.begin());
  const block cached = get(1000, first());
  EXPECT_TRUE(cached.cached);
  put(cached, first());
}

TEST_F(full_cache, searches_again_after_frees_of_one_slab_even_if_a_larger_request_failed) {
  put(take_out(), first());
  const block alone = get(4 * size, first());
  EXPECT_FALSE(alone.cached) << "larger than a slab";
  put(alone, first());
  put(take_out(), first());
  put(take_out(), first()); // 8192 bytes were freed since the search
  const block cached = get(1000, first());
  EXPECT_TRUE(cached.cached);
  put(cached, first());
}

TEST_F(full_cache, searches_again_immediately_after_a_successful_search) {
  put(take_out(), first());
  const block alone = get(1000, first());
  EXPECT_FALSE(alone.cached);
  put(alone, first());
  put(take_out(), first());
  put(take_out(), first());
  std::vector<block> cached;
  for (int i = 0; i < 8; ++i) {
    cached.push_back(get(1000, first()));
    EXPECT_TRUE(cached.back().cached);
  }
  put(take_out(), first()); // now a second slab is unused
  cached.push_back(get(2000, first()));
  EXPECT_TRUE(cached.back().cached);
  for (const block& each : cached) {
    put(each, first());
  }
}

TEST_F(full_cache, frees_slabs_for_bytes_held_beyond_its_limit) {
  put(take_out(), first());
  std::vector<block> alone;
  for (int i = 0; i < 5; ++i) { // together less than a slab
    alone.push_back(get(1000, first()));
    EXPECT_FALSE(alone.back().cached);
  }
  for (int i = 0; i < 5; ++i) {
    put(take_out(), first());
  }
  const block cached = get(1000, first());
  EXPECT_TRUE(cached.cached);
  EXPECT_EQ(made_->statistics().held, limit - slab + 5 * 1000) << "two slabs for one";
  put(cached, first());
  for (const block& each : alone) {
    put(each, first());
  }
}

TEST_F(full_cache, frees_unused_slabs_before_it_exceeds_its_limit) {
  put(take_out(), first());
  put(take_out(), first());
  const block beyond = get(2 * limit, first());
  EXPECT_EQ(made_->statistics().beyond_bound, 1U);
  EXPECT_EQ(made_->statistics().held, limit - slab + beyond.base_bytes);
  put(beyond, first());
}

TEST_F(bounded_cache, searches_unused_slabs_before_it_exceeds_its_limit) {
  constexpr std::uint64_t limit = 2 << 20;
  caching_options options;
  options.soft_limit = limit;
  options.slab = 8192;
  make(options);
  std::vector<block> live;
  while (made_->statistics().held < limit) {
    live.push_back(get(4096, first())); // each in its own slab
  }
  ASSERT_EQ(made_->statistics().slabs, live.size());
  const block beyond = made_->allocate(100, 1 << 16, first()); // finds no unused slab
  EXPECT_EQ(made_->statistics().beyond_bound, 1U);
  put(live.back(), first()); // fewer bytes than a usual slab
  live.pop_back();
  EXPECT_CALL(*driver_, allocate_async(_, _)).WillOnce([&](std::size_t bytes, stream_handle) {
    EXPECT_EQ(made_->statistics().slabs, live.size()) << "for ever, if the driver were asked with the lock";
    return memory_->allocate(bytes, device_alignment);
  });
  const block further = made_->allocate(100, 1 << 16, first());
  EXPECT_EQ(made_->statistics().beyond_bound, 2U);
  EXPECT_EQ(made_->statistics().slabs, live.size());
  for (const block& each : live) {
    put(each, first());
  }
  put(beyond, first());
  put(further, first());
  expect_nothing_held();
}

TEST_F(bounded_cache, stays_in_the_lower_of_its_two_limits) {
  constexpr std::uint64_t low = 8 * large;
  const auto bound_of = [](std::uint64_t bytes) { return budget::create("bound", bytes); };
  struct {
    std::uint64_t soft;
    std::shared_ptr<const budget> bound;
    std::uint64_t limit;
  } const cases[] = {{low, bound_of(16 * large), low},
                     {16 * large, bound_of(low), low},
                     {low, nullptr, low},
                     {~std::uint64_t{0}, bound_of(low), low}};
  for (const auto& each : cases) {
    caching_options options;
    options.soft_limit = each.soft;
    make(options, each.bound);
    for (std::size_t times = 1; times <= 6; ++times) {
      put(get(times * large, first()), first());
    }
    EXPECT_LE(made_->statistics().held, each.limit);
    EXPECT_GT(made_->statistics().held, each.limit / 2);
    expect_nothing_held();
  }
}

TEST_F(bounded_cache, trims_the_largest_slabs_first_and_no_more_than_requested) {
  caching_options options;
  options.soft_limit = 4 * large;
  make(options);
  const block two = get(2 * large, first());
  const block one = get(large, first());
  const block another = get(large, first());
  for (const block& each : {two, one, another}) {
    put(each, first());
  }
  EXPECT_EQ(made_->statistics().held, 4 * large);
  const block three = get(3 * large, first());
  EXPECT_EQ(made_->statistics().held, 4 * large);
  EXPECT_EQ(made_->statistics().slabs, 2U);
  put(three, first());
  expect_nothing_held();
}

TEST_F(bounded_cache, can_hold_a_slab_of_exactly_its_limit) {
  caching_options options;
  options.soft_limit = large;
  make(options);
  put(get(large, first()), first());
  EXPECT_EQ(made_->statistics().slabs, 1U);
  put(get(large / 2, first()), first());
  EXPECT_EQ(made_->statistics().slabs, 1U);
  EXPECT_EQ(made_->statistics().held, large / 2);
  EXPECT_EQ(made_->statistics().beyond_bound, 0U);
  expect_nothing_held();
}

TEST_F(bounded_cache, can_hold_512_slabs_within_its_limit) {
  for (const auto& [limit, slab] : {std::pair{(4U << 20) - 1, 4096U}, std::pair{4U << 20, 8192U}}) {
    caching_options options;
    options.soft_limit = limit;
    make(options);
    put(get(4096, first()), first());
    EXPECT_EQ(made_->statistics().held, slab);
    expect_nothing_held();
  }
}

TEST_F(bounded_cache, doubles_slabs_of_large_blocks_up_to_eight_blocks) {
  std::vector<block> live;
  std::vector<std::uint64_t> grown; // MiB that each new slab adds
  for (std::uint64_t before = 0; grown.size() < 5;) {
    live.push_back(get(1 << 20, first()));
    if (const std::uint64_t now = made_->statistics().held; now != before) {
      grown.push_back((now - std::exchange(before, now)) >> 20);
    }
  }
  EXPECT_EQ(grown, (std::vector<std::uint64_t>{1, 2, 4, 8, 8}));
  for (const block& each : live) {
    put(each, first());
  }
  expect_nothing_held();
}

TEST_F(bounded_cache, retries_upstream_only_after_memory_was_freed) {
  const auto fails_once = [&](std::size_t trimmed, bool slab_unused) {
    if (slab_unused) {
      put(get(large, first()), first());
    }
    EXPECT_CALL(*driver_, trim_pool(0)).WillRepeatedly(Return(trimmed));
    upstream_->fail_allocation(1);
    const auto refused = unit::code_raised_by([&] { put(get(2 * large, first()), first()); });
    EXPECT_CALL(*driver_, trim_pool(0)).WillRepeatedly(Return(0));
    made_->trim();
    return refused == errc::out_of_memory;
  };
  EXPECT_TRUE(fails_once(0, false));
  EXPECT_FALSE(fails_once(4096, false));
  EXPECT_FALSE(fails_once(0, true));
  expect_nothing_held();

  put(get(large, first()), first());
  EXPECT_CALL(*driver_, allocate_async(_, _)).WillOnce(::testing::Throw(error(errc::device, "broken")));
  EXPECT_EQ(unit::code_raised_by([&] { static_cast<void>(get(2 * large, first())); }), errc::device);
  EXPECT_EQ(made_->statistics().slabs, 1U) << "more memory would not help";
}

TEST_F(bounded_cache, trim_returns_the_larger_of_its_own_and_upstreams_freed_bytes) {
  put(get(large, first()), first());
  EXPECT_CALL(*driver_, trim_pool(0)).WillOnce(Return(5)).WillOnce(Return(5)).WillRepeatedly(Return(0));
  EXPECT_EQ(made_->trim(), large);
  EXPECT_EQ(made_->trim(), 5U);
}

TEST_F(bounded_cache, held_bytes_include_other_users_of_upstream) {
  const block others = upstream_->allocate(1000, 0, first());
  EXPECT_EQ(made_->held_bytes(), 1000U);
  EXPECT_EQ(made_->statistics().held, 0U);
  EXPECT_TRUE(upstream_->deallocate(others, first()));
}

} // namespace
} // namespace saeta
