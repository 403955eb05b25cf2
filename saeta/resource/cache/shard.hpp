// The shards of the cache (resource/cache/caching_resource.hpp): free blocks by thread and timeline.
//
// What      A node represents a block. Nodes lie in host memory, because the host can't write to device
//           memory. A node remembers the points after which its block is unused. A shard has one list of
//           nodes for each size class. Most of its blocks were used on the shard's own timeline, so their
//           reuse needs no wait.
// Thread    One thread at a time owns a shard. Any thread may push, pop, and take a whole list.
// Owner     A cache shares its shards with the threads that use them, so either may end first. A thread that
//           ends gives up its shards; other threads take them over with the blocks in them
//           (`cache_shard::owned`).
#pragma once

#include "saeta/base/spin_lock.hpp"
#include "saeta/order/point.hpp"
#include "saeta/resource/cache/classes.hpp"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

namespace saeta {

struct cache_slab;

/// Each node has a cache line of its own, because neighbours in a slab belong to different threads.
struct SAETA_LOCAL alignas(64) cache_node {
  cache_node* next = nullptr;
  void* pointer = nullptr;
  std::size_t bytes = 0; ///< size of its class
  cache_slab* home = nullptr;
  point after;                       ///< after its last use; empty: nothing to wait for
  std::unique_ptr<point_set> others; ///< points of further users, which are rare
  std::size_t size_class = 0;

  /// Sets the points of the block's users. The point on `home_timeline`, if any, becomes `after`.
  /// @throws std::bad_alloc.
  void set_users(std::span<const point> users, timeline_id home_timeline) {
    if (users.size() <= 1 && others == nullptr) [[likely]] {
      after = users.empty() ? point{} : users.front();
    } else {
      set_several_users(users, home_timeline);
    }
  }

private:
  void set_several_users(std::span<const point> users, timeline_id home_timeline);
};

class SAETA_LOCAL alignas(64) cache_shard {
public:
  cache_shard(std::uint64_t cache_id, timeline_id used_on) noexcept : cache(cache_id), timeline(used_on) {}

  const std::uint64_t cache;         ///< id of the cache
  timeline_id timeline;              ///< changes under the cache's lock, while the shard has no owner
  point waited;                      ///< owner only: the point that the timeline's stream waited for last
  std::atomic<bool> owned{true};     ///< becomes true under the cache's lock
  std::atomic<bool> orphaned{false}; ///< the cache and its nodes are destroyed
  /// Whether another thread took the list since the owner's last miss. Guarded by the cache's lock.
  std::array<bool, cache_classes::most> list_stolen{};

  void push(cache_node* freed) noexcept {
    auto& head = lists_[freed->size_class];
    const std::lock_guard hold(lock_);
    freed->next = head.load(std::memory_order_relaxed);
    head.store(freed, std::memory_order_relaxed);
  }
  /// Null when the list is empty.
  cache_node* pop(std::size_t size_class) noexcept {
    auto& head = lists_[size_class];
    if (head.load(std::memory_order_relaxed) == nullptr) {
      return nullptr;
    }
    const std::lock_guard hold(lock_);
    cache_node* const first = head.load(std::memory_order_relaxed);
    if (first != nullptr) [[likely]] {
      head.store(first->next, std::memory_order_relaxed);
    }
    return first;
  }
  /// Takes the whole list, linked by `next`.
  cache_node* take(std::size_t size_class) noexcept {
    auto& head = lists_[size_class];
    if (head.load(std::memory_order_relaxed) == nullptr) {
      return nullptr;
    }
    const std::lock_guard hold(lock_);
    cache_node* const first = head.load(std::memory_order_relaxed);
    head.store(nullptr, std::memory_order_relaxed);
    return first;
  }
  /// Pushes a taken list.
  void push_all(cache_node* list) noexcept {
    while (list != nullptr) {
      push(std::exchange(list, list->next));
    }
  }

  /// Owner only. May wrap, because a block may be freed in another shard: only the sum over all shards
  /// counts.
  void add_in_use(std::uint64_t bytes) noexcept {
    in_use_.store(in_use_.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t in_use() const noexcept { return in_use_.load(std::memory_order_relaxed); }

private:
  std::atomic<std::uint64_t> in_use_{0};
  spin_lock lock_;
  std::array<std::atomic<cache_node*>, cache_classes::most> lists_{}; ///< changed under the lock
};

/// The shards that the calling thread owns, by cache and timeline.
class cache_shards {
public:
  /// Returns null if this thread owns none.
  [[nodiscard]] static cache_shard* find(std::uint64_t cache, timeline_id timeline) noexcept {
    const recent& last = recents_[slot(cache, timeline)];
    return last.cache == cache && last.timeline == timeline ? last.shard : find_older(cache, timeline);
  }
  /// Adds an owned shard to this thread; the least recently used one may be given up for it. Returns false
  /// when the thread is ending: then the caller keeps the shard, and must give it up itself.
  static bool keep(const std::shared_ptr<cache_shard>& shard);

private:
  struct recent {
    std::uint64_t cache = 0;
    timeline_id timeline{};
    cache_shard* shard = nullptr;
  };
  struct table;
  static constexpr std::size_t recent_count = 8;
  static std::size_t slot(std::uint64_t cache, timeline_id timeline) noexcept {
    return (cache + static_cast<std::uint64_t>(timeline)) % recent_count;
  }
  static cache_shard* find_older(std::uint64_t cache, timeline_id timeline) noexcept;
  static table* own_table();

  // Constant-initialised and never destroyed, so access needs no guard, even in destructors at the end of a
  // thread.
  static thread_local constinit std::array<recent, recent_count> recents_;
  static thread_local constinit table* table_;
  static thread_local constinit bool ended_;
};

} // namespace saeta
