// The cache shards that a thread remembers, and the users that a node stores
// (saeta/resource/cache/shard.hpp).
#include "saeta/order/timeline.hpp"
#include "saeta/resource/cache/shard.hpp"
#include "unit/device/held_device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace saeta {
namespace {

using ::testing::ElementsAre;

constexpr std::uint64_t cache = ~std::uint64_t{0}; ///< an id that no cache has
constexpr std::uint64_t most_kept = 32;            ///< shards that a thread remembers
constexpr std::uint64_t recent = 8; ///< entries of the direct lookup, indexed by number modulo this

timeline_id numbered(std::uint64_t number) { return timeline_id{number}; }
std::shared_ptr<cache_shard> shard_of(std::uint64_t number) {
  return std::make_shared<cache_shard>(cache, numbered(number));
}

/// Runs `action` on a new thread, which remembers no shard.
template <class Action>
void on_a_new_thread(Action action) {
  std::thread(action).join();
}

/// Makes the calling thread remember shards of the timelines 1, 2, ..., count.
std::vector<std::shared_ptr<cache_shard>> keep(std::uint64_t count) {
  std::vector<std::shared_ptr<cache_shard>> kept;
  for (std::uint64_t i = 1; i <= count; ++i) {
    kept.push_back(shard_of(i));
    EXPECT_TRUE(cache_shards::keep(kept.back()));
  }
  return kept;
}

TEST(cache_shards, are_found_by_cache_and_timeline) {
  on_a_new_thread([] {
    EXPECT_EQ(cache_shards::find(cache, numbered(1)), nullptr);
    const auto kept = keep(most_kept);
    const auto other =
        std::make_shared<cache_shard>(cache - recent, numbered(1)); // same entry of the direct lookup
    for (int times = 0; times < 2; ++times) {
      for (std::uint64_t i = 1; i <= most_kept; ++i) {
        EXPECT_EQ(cache_shards::find(cache, numbered(i)), kept[i - 1].get()) << i;
      }
    }
    EXPECT_EQ(cache_shards::find(cache - recent, numbered(1)), nullptr);
    EXPECT_EQ(cache_shards::find(cache, numbered(most_kept + 1)), nullptr);
    EXPECT_TRUE(cache_shards::keep(other));
    EXPECT_EQ(cache_shards::find(cache - recent, numbered(1)), other.get());
    EXPECT_EQ(cache_shards::find(cache - recent, numbered(2)), nullptr);
  });
}

TEST(cache_shards, that_were_used_least_recently_are_evicted) {
  on_a_new_thread([] {
    const auto kept = keep(most_kept);
    EXPECT_EQ(cache_shards::find(cache, numbered(1)), kept[0].get());
    EXPECT_EQ(cache_shards::find(cache, numbered(3)), kept[2].get());
    const auto expect_given_up = [&](std::vector<std::uint64_t> numbers) {
      for (std::uint64_t i = 1; i <= most_kept; ++i) {
        const bool given_up = std::find(numbers.begin(), numbers.end(), i) != numbers.end();
        EXPECT_EQ(kept[i - 1]->owned, !given_up) << i;
        EXPECT_EQ(kept[i - 1].use_count(), given_up ? 1 : 2) << i;
      }
    };
    expect_given_up({});
    const auto one_more = shard_of(100);
    EXPECT_TRUE(cache_shards::keep(one_more));
    expect_given_up({2});
    EXPECT_EQ(cache_shards::find(cache, numbered(2)), nullptr);
    const auto another = shard_of(101);
    EXPECT_TRUE(cache_shards::keep(another));
    expect_given_up({2, 4});
  });
}

TEST(cache_shards, that_were_evicted_are_not_found_by_the_last_used_shortcut) {
  on_a_new_thread([] {
    const auto first = shard_of(recent);
    EXPECT_TRUE(cache_shards::keep(first));
    std::vector<std::shared_ptr<cache_shard>> others;
    for (std::uint64_t i = 1; others.size() < most_kept; ++i) {
      if (i % recent != 0) {
        EXPECT_EQ(cache_shards::find(cache, numbered(recent)), first.get());
        others.push_back(shard_of(i));
        EXPECT_TRUE(cache_shards::keep(others.back()));
      }
    }
    EXPECT_FALSE(first->owned);
    EXPECT_EQ(cache_shards::find(cache, numbered(recent)), nullptr);
  });
}

TEST(cache_shards, of_a_destroyed_cache_are_released) {
  on_a_new_thread([] {
    const auto kept = keep(3);
    kept[1]->orphaned = true;
    EXPECT_TRUE(cache_shards::keep(shard_of(4)));
    EXPECT_EQ(kept[0].use_count(), 2);
    EXPECT_EQ(kept[1].use_count(), 1);
    EXPECT_EQ(kept[2].use_count(), 2);
  });
}

TEST(cache_shards, are_released_at_the_end_of_their_thread) {
  struct at_the_end { // runs at the end of the thread, after its shards are destroyed
    std::function<void()> action;
    ~at_the_end() { action ? action() : void(); }
  };
  std::vector<std::shared_ptr<cache_shard>> kept;
  const auto late = shard_of(9);
  bool ran = false;
  on_a_new_thread([&] {
    static thread_local at_the_end last;
    last.action = [&] {
      ran = true;
      EXPECT_EQ(cache_shards::find(cache, numbered(1)), nullptr);
      EXPECT_FALSE(cache_shards::keep(late));
      EXPECT_EQ(cache_shards::find(cache, numbered(9)), nullptr);
    };
    kept = keep(3);
  });
  EXPECT_TRUE(ran);
  EXPECT_EQ(late.use_count(), 1);
  for (const auto& each : kept) {
    EXPECT_FALSE(each->owned);
    EXPECT_EQ(each.use_count(), 1);
  }
}

class cache_node_test : public ::testing::Test {
protected:
  /// A stream whose work is pending, and its last point.
  struct user {
    own_stream stream;
    std::unique_ptr<sim::hold> gate;
    point last;
  };
  [[nodiscard]] user make_user() const {
    own_stream stream(clocks);
    auto gate = device->close_gate(stream.ref().native_handle());
    const point last = record(stream.ref());
    return {std::move(stream), std::move(gate), last};
  }

  std::shared_ptr<sim::device> device = unit::make_held_device();
  std::shared_ptr<timelines> clocks = timelines::of(*device);
};

TEST_F(cache_node_test, stores_the_user_on_its_own_timeline_first) {
  const user one = make_user();
  const user two = make_user();
  const user three = make_user();
  const std::array all{one.last, two.last, three.last};
  cache_node node;
  node.set_users(all, two.last.timeline);
  EXPECT_EQ(node.after, two.last);
  ASSERT_NE(node.others, nullptr);
  EXPECT_THAT(node.others->all(), ElementsAre(one.last, three.last));
  node.set_users(all, timeline_id::none);
  EXPECT_EQ(node.after, one.last);
  ASSERT_NE(node.others, nullptr);
  EXPECT_THAT(node.others->all(), ElementsAre(two.last, three.last));
  node.set_users({&two.last, 1}, one.last.timeline);
  EXPECT_EQ(node.after, two.last);
  EXPECT_EQ(node.others, nullptr);
  node.set_users({}, one.last.timeline);
  EXPECT_TRUE(node.after.empty());
}

TEST_F(cache_node_test, drops_further_users_that_have_finished) {
  const user one = make_user();
  const user two = make_user();
  const user three = make_user();
  two.gate->open();
  device->run();
  cache_node node;
  node.set_users(std::array{one.last, two.last, three.last}, one.last.timeline);
  ASSERT_NE(node.others, nullptr);
  EXPECT_THAT(node.others->all(), ElementsAre(three.last));
  node.set_users(std::array{one.last, two.last}, one.last.timeline);
  EXPECT_EQ(node.others, nullptr);
}

} // namespace
} // namespace saeta
