// How shards of a cache get blocks from slabs and from each other, call by call
// (saeta/resource/cache/store.hpp).
#include "saeta/base/error.hpp"
#include "saeta/resource/cache/store.hpp"
#include "unit/base/raises.hpp"
#include "unit/resource/cache_over_driver.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace saeta {
namespace {

using ::testing::_;
using ::testing::Return;
using ::testing::Throw;
using unit::code_raised_by;
using shard_pointer = std::shared_ptr<cache_shard>;

class cache_store_test : public unit::cache_over_driver {
protected:
  static constexpr std::size_t size = 4096;

  cache_store_test() { build({}); }
  ~cache_store_test() override {
    ON_CALL(*driver_, event_complete(_)).WillByDefault(Return(true)); // else timelines outlive the test
    for (cache_node* const each : lent_) {
      home_->push(each);
    }
    store->trim();
    EXPECT_EQ(store->statistics().held, 0U);
    EXPECT_EQ(store->statistics().slabs, 0U);
  }

  void build(caching_options options) {
    store = std::make_unique<cache_store>(upstream_, driver_, options, nullptr);
    home_ = store->claim(timeline_id::none);
  }
  /// Makes a store whose slabs have `blocks` blocks of `size` bytes.
  void build_with_slabs_of(std::size_t blocks) {
    caching_options options;
    options.soft_limit = 512 * blocks * size;
    options.slab = 2 * size;
    build(options);
  }
  [[nodiscard]] shard_pointer claim(stream_ref on) const { return store->claim(timeline_of(on)); }
  [[nodiscard]] std::size_t class_of(std::size_t bytes) const { return store->classes().of(bytes); }
  [[nodiscard]] cache_node* refill(cache_shard& shard, std::size_t bytes = size) const {
    return store->refill(shard, class_of(bytes));
  }
  /// Marks a node as in use by a caller until the end of the test.
  cache_node* lend(cache_node* taken) {
    lent_.push_back(taken);
    return taken;
  }
  void give_back(cache_shard& shard, cache_node* returned) {
    std::erase(lent_, returned);
    shard.push(returned);
  }
  /// Takes all blocks of this size from the shard. Returns their number.
  std::size_t lend_all(cache_shard& shard, std::size_t bytes = size) {
    std::size_t count = 0;
    while (cache_node* const found = shard.pop(class_of(bytes))) {
      lend(found);
      ++count;
    }
    return count;
  }

  std::unique_ptr<cache_store> store;

private:
  std::shared_ptr<cache_shard> home_; ///< gets the blocks that a test leaves in use
  std::vector<cache_node*> lent_;
};

TEST_F(cache_store_test, reuses_the_released_shard_of_a_timeline) {
  const shard_pointer one = claim(first());
  const shard_pointer two = claim(second());
  EXPECT_NE(one, two);
  EXPECT_NE(claim(second()), two) << "it has an owner";
  cache_node* const left = refill(*two);
  two->push(left);
  one->owned = false;
  two->owned = false;
  two->waited = {timeline_of(first()), 1};
  two->list_stolen[class_of(size)] = true;
  EXPECT_EQ(claim(second()), two);
  EXPECT_TRUE(two->owned);
  EXPECT_EQ(two->pop(class_of(size)), left);
  two->push(left);
  EXPECT_TRUE(two->waited.empty()) << "of another thread";
  EXPECT_FALSE(two->list_stolen[class_of(size)]);
  EXPECT_EQ(claim(first()), one);
}

TEST_F(cache_store_test, shares_the_blocks_of_a_shard_that_changes_its_timeline) {
  const shard_pointer one = claim(first());
  cache_node* const left = refill(*one, 1 << 20);
  one->push(left);
  one->owned = false;
  const shard_pointer other = claim(second());
  EXPECT_EQ(other, one) << "no more shards than are used at once";
  EXPECT_EQ(other->timeline, timeline_of(second()));
  EXPECT_EQ(other->pop(class_of(1 << 20)), nullptr);
  const shard_pointer third = claim(first());
  EXPECT_NE(third, one);
  EXPECT_EQ(lend(refill(*third, 1 << 20)), left);
  EXPECT_EQ(store->statistics().steals, 0U);
}

TEST_F(cache_store_test, refills_a_shard_with_64_blocks_or_64_kib) {
  const shard_pointer one = claim(first());
  const auto address = [](const cache_node* of) { return static_cast<const std::byte*>(of->pointer); };
  for (int times = 0; times < 4; ++times) { // from the first slab of 64 KiB
    const cache_node* const fresh = lend(refill(*one, 256));
    cache_node* const next = one->pop(class_of(256));
    EXPECT_EQ(address(next), address(fresh) + 256);
    lend(next);
    EXPECT_EQ(lend_all(*one, 256), 62U);
  }
  EXPECT_EQ(store->statistics().slabs, 1U);
  lend(refill(*one, size));
  EXPECT_EQ(lend_all(*one), 15U);
  EXPECT_EQ(store->statistics().slabs, 2U);
  for (int times = 0; times < 2; ++times) { // from a slab of 128 KiB
    lend(refill(*one, size));
    EXPECT_EQ(lend_all(*one), 15U);
    EXPECT_EQ(store->statistics().slabs, 3U);
  }
  for (int slabs = 4; slabs <= 5; ++slabs) {
    lend(refill(*one, 1 << 20));
    EXPECT_EQ(lend_all(*one, 1 << 20), 0U);
  }
}

TEST_F(cache_store_test, returns_no_more_blocks_than_a_slab_has) {
  caching_options options;
  options.slab = 70 << 10;
  build(options);
  const shard_pointer one = claim(first());
  for (const std::size_t others : {63U, 63U, 5U}) { // 64, then 70 blocks
    lend(refill(*one, 1024));
    EXPECT_EQ(lend_all(*one, 1024), others);
  }
  EXPECT_EQ(store->statistics().held, 134U << 10);
}

TEST_F(cache_store_test, allocates_a_node_for_every_block) {
  const shard_pointer one = claim(first());
  for (int times = 0; times < 4; ++times) { // more nodes than are allocated at a time
    lend(refill(*one, 1024));
    EXPECT_EQ(lend_all(*one, 1024), 63U);
  }
  EXPECT_NE(lend(refill(*one, 3 << 20)), nullptr);
}

/// A shard that takes blocks from the common lists, which belong to no shard.
class common_blocks : public cache_store_test {
protected:
  /// Puts blocks into the common lists, last used on a stream with pending work.
  void leave(std::size_t count) {
    shard_pointer left = claim(first());
    while (nodes.size() < count) {
      cache_node* const popped = left->pop(class_of(size));
      nodes.push_back(popped != nullptr ? popped : refill(*left));
    }
    while (cache_node* const unused = left->pop(class_of(size))) {
      lend(unused);
    }
    finished = record(third_.ref());
    synchronize(finished);
    pending = record(third_.ref());
    pending_too = record(fourth_.ref());
    ON_CALL(*driver_, event_complete(_)).WillByDefault(Return(false));
    for (cache_node* const each : nodes) {
      each->set_users({&pending, 1}, left->timeline);
      left->push(each);
    }
    left->owned = false;
  }
  [[nodiscard]] point own() const { return mark(second()); }

  std::vector<cache_node*> nodes;
  point finished;
  point pending;
  point pending_too;

private:
  own_stream third_{clocks_};
  own_stream fourth_{clocks_};
};

TEST_F(common_blocks, that_need_no_wait_are_taken_sixteen_at_a_time) {
  leave(40);
  for (cache_node* const each : nodes) {
    each->set_users({&finished, 1}, timeline_id::none);
  }
  const shard_pointer one = claim(second());
  for (const std::size_t others : {15U, 15U, 7U}) {
    EXPECT_NE(lend(refill(*one)), nullptr);
    EXPECT_EQ(lend_all(*one), others);
  }
  EXPECT_EQ(store->statistics().steals, 0U);
}

TEST_F(common_blocks, without_pending_users_are_taken_first) {
  leave(12);
  struct {
    std::vector<point> users;
    bool needs_no_wait;
  } const cases[] = {{{own()}, true},
                     {{finished}, true},
                     {{}, true},
                     {{own(), pending}, false},
                     {{finished, pending_too}, false},
                     {{pending, pending_too}, false}};
  shard_pointer one = claim(second());
  for (const auto& each : cases) {
    nodes[5]->set_users(each.users, one->timeline);
    cache_node* const chosen = refill(*one);
    EXPECT_EQ(chosen == nodes[5], each.needs_no_wait) << each.users.size() << " users";
    for (std::size_t taken = 1; taken < nodes.size(); ++taken) {
      EXPECT_NE(refill(*one), nullptr);
    }
    for (cache_node* const node : nodes) {
      one->push(node);
    }
    one->owned = false;
    one = claim(first()); // the blocks are in the common lists again
    one->owned = false;
    one = claim(second());
  }
  EXPECT_EQ(lend(refill(*one)), nodes[0]);
}

/// Three shards, two of them on the same stream, that have one block each and steal them from each other.
class contention : public cache_store_test {
protected:
  contention() {
    build_with_slabs_of(1);
    same = claim(first());
    beside = claim(first());
    other = claim(second());
    here = refill(*same);
    there = refill(*other);
    same->push(here);
    other->push(there);
  }
  /// Lets `beside` take the block of `same`, and returns the block that `same` gets then.
  cache_node* miss() {
    EXPECT_EQ(refill(*beside), here);
    cache_node* const got = refill(*same);
    same->push(here);
    if (got == there) {
      other->push(there);
    } else {
      lend(got);
    }
    return got;
  }

  shard_pointer same;
  shard_pointer beside;
  shard_pointer other;
  cache_node* here = nullptr;
  cache_node* there = nullptr;
};

TEST_F(contention, adds_a_slab_after_every_eight_misses_up_to_a_limit) {
  const std::size_t shards = 4; // including home_
  std::uint64_t added = 0;
  for (std::uint64_t misses = 1; misses <= 48; ++misses) {
    const bool adds = misses % 8 == 0 && 2 + added <= shards;
    EXPECT_EQ(miss() != there, adds) << misses;
    added += adds ? 1 : 0;
    EXPECT_EQ(store->statistics().slabs, 2 + added);
    EXPECT_EQ(store->statistics().steals, misses - added);
  }
  EXPECT_EQ(added, shards - 1);
}

TEST_F(contention, adds_no_slab_at_the_soft_limit) {
  store->set_soft_limit(store->statistics().held);
  for (std::uint64_t misses = 1; misses <= 8; ++misses) {
    EXPECT_EQ(miss(), there);
    EXPECT_EQ(store->statistics().steals, misses);
  }
}

TEST_F(contention, steals_from_other_shards_if_upstream_has_no_memory) {
  build_with_slabs_of(2);
  same = claim(first());
  beside = claim(first());
  other = claim(second());
  lend(refill(*same)); // the second block of each slab stays in use
  here = same->pop(class_of(size));
  lend(refill(*other));
  there = other->pop(class_of(size));
  same->push(here);
  other->push(there);
  for (int misses = 1; misses < 8; ++misses) {
    EXPECT_EQ(miss(), there);
  }
  EXPECT_CALL(*driver_, allocate_async(_, _))
      .WillOnce(Throw(error(errc::device, "broken")))
      .WillRepeatedly(Throw(error(errc::out_of_memory, "full")));
  EXPECT_EQ(refill(*beside), here);
  EXPECT_EQ(code_raised_by([&] { static_cast<void>(refill(*same)); }), errc::device);
  same->push(here);
  for (int misses = 1; misses <= 8; ++misses) {
    EXPECT_EQ(miss(), there);
  }
  EXPECT_EQ(store->statistics().slabs, 2U);
  EXPECT_EQ(store->statistics().held, 4 * size);
}

} // namespace
} // namespace saeta
