#include "saeta/resource/cache/shard.hpp"

#include "saeta/order/timeline.hpp"

#include <algorithm>
#include <vector>

namespace saeta {
namespace {

/// Maximum number of shards of one thread, over all caches. A thread that alternates between more streams
/// goes through the lock of the cache.
constexpr std::size_t most_kept = 32;

} // namespace

struct cache_shards::table {
  std::vector<std::shared_ptr<cache_shard>> kept; ///< least recently used first

  ~table() {
    table_ = nullptr;
    ended_ = true;
    recents_.fill({});
    for (const auto& shard : kept) {
      shard->owned.store(false, std::memory_order_release);
    }
  }
};

thread_local constinit std::array<cache_shards::recent, cache_shards::recent_count> cache_shards::recents_{};
thread_local constinit cache_shards::table* cache_shards::table_ = nullptr;
thread_local constinit bool cache_shards::ended_ = false;

void cache_node::set_several_users(std::span<const point> users, timeline_id home_timeline) {
  others.reset();
  after = {};
  const auto own = std::find_if(users.begin(), users.end(),
                                [&](const point& point) { return point.timeline == home_timeline; });
  after = own != users.end() ? *own : users.empty() ? point{} : users.front();
  for (const point& user : users) {
    if (user.timeline != after.timeline && !is_known_passed(user)) {
      if (!others) {
        others = std::make_unique<point_set>();
      }
      others->add(user);
    }
  }
}

cache_shards::table* cache_shards::own_table() {
  if (table_ == nullptr && !ended_) {
    thread_local table table;
    table_ = &table;
  }
  return table_;
}

cache_shard* cache_shards::find_older(std::uint64_t cache, timeline_id timeline) noexcept {
  if (table_ == nullptr) {
    return nullptr;
  }
  auto& kept = table_->kept;
  const auto match = std::find_if(kept.begin(), kept.end(), [&](const auto& shard) {
    return shard->cache == cache && shard->timeline == timeline;
  });
  if (match == kept.end()) {
    return nullptr;
  }
  std::rotate(match, match + 1, kept.end());
  cache_shard* const shard = kept.back().get();
  recents_[slot(cache, timeline)] = {cache, timeline, shard};
  return shard;
}

bool cache_shards::keep(const std::shared_ptr<cache_shard>& shard) {
  table* const own = own_table();
  if (own == nullptr) {
    return false;
  }
  auto& kept = own->kept;
  kept.reserve(most_kept);
  std::erase_if(kept, [](const auto& each) { return each->orphaned.load(std::memory_order_relaxed); });
  if (kept.size() == most_kept) {
    cache_shard& oldest = *kept.front();
    recent& known = recents_[slot(oldest.cache, oldest.timeline)];
    if (known.shard == &oldest) {
      known = {};
    }
    oldest.owned.store(false, std::memory_order_release);
    kept.erase(kept.begin());
  }
  kept.push_back(shard);
  recents_[slot(shard->cache, shard->timeline)] = {shard->cache, shard->timeline, shard.get()};
  return true;
}

} // namespace saeta
