// The shards of the cache (resource/cache/caching_resource.hpp): free blocks by thread and timeline.
//
// What      A node stands for a block, in host memory of its own: what is free on the device can't be written by the
//           host. It remembers the points after which the block is unused. A shard has one list of nodes for each size
//           class; most of them were used on the shard's own timeline, where reuse waits for nothing.
// Thread    One thread at a time owns a shard; it pushes and pops. Any thread may take a whole list.
// Owner     A cache shares its shards with the threads that use them, so that either may end first. A thread that ends
//           gives its shards up; others take them over, with what lies in them (`cache_shard::owned`).
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

/// A cache line each: neighbours in a slab belong to different threads.
struct alignas(64) cache_node {
  cache_node* next = nullptr;
  void* pointer = nullptr;
  std::size_t bytes = 0; ///< of its size class
  cache_slab* home = nullptr;
  point after;                       ///< of its last user; empty: nobody uses it
  std::unique_ptr<point_set> others; ///< of further users, which are rare
  std::size_t size_class = 0;

  /// Remembers who has used the block, first whoever did on `home_timeline`. @throws std::bad_alloc.
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

class alignas(64) cache_shard {
public:
  cache_shard(std::uint64_t cache_id, timeline_id used_on) noexcept : cache(cache_id), timeline(used_on) {}

  const std::uint64_t cache;         ///< id of the cache
  timeline_id timeline;              ///< changes under the lock of the cache, while nobody owns the shard
  point waited;                      ///< owner only: what the stream of the timeline has waited for last
  std::atomic<bool> owned{true};     ///< becomes true under the lock of the cache
  std::atomic<bool> orphaned{false}; ///< the cache is gone, and the nodes with it
  std::array<bool, cache_classes::most>
      list_stolen{}; ///< somebody took the list since its owner last missed; under the lock

  /// Owner only.
  void push(cache_node* freed) noexcept {
    auto& head = lists_[freed->size_class];
    const std::lock_guard hold(lock_);
    freed->next = head.load(std::memory_order_relaxed);
    head.store(freed, std::memory_order_relaxed);
  }
  /// Owner only; null when the list is empty.
  cache_node* pop(std::size_t size_class) noexcept {
    auto& head = lists_[size_class];
    const std::lock_guard hold(lock_);
    cache_node* const first = head.load(std::memory_order_relaxed);
    if (first != nullptr) [[likely]] {
      head.store(first->next, std::memory_order_relaxed);
    }
    return first;
  }
  /// Anybody: the whole list, linked by `next`.
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
  /// Owner only: pushes a taken list.
  void push_all(cache_node* list) noexcept {
    while (list != nullptr) {
      push(std::exchange(list, list->next));
    }
  }

  /// Owner only; wraps, since blocks are freed elsewhere than they were allocated: the sum over all shards counts.
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
  /// Null when this thread has none.
  [[nodiscard]] static cache_shard* find(std::uint64_t cache, timeline_id timeline) noexcept {
    const recent& last = recents_[slot(cache, timeline)];
    return last.cache == cache && last.timeline == timeline ? last.shard : find_older(cache, timeline);
  }
  /// Gives a shard, owned, to this thread; one that it used least recently may be given up for it. False when the thread
  /// is ending: then the caller keeps it, and gives it up itself.
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
  static table* mine();

  // Constant-initialised and never destroyed: looked at without a guard, by destructors at the end of a thread too.
  static thread_local constinit std::array<recent, recent_count> recents_;
  static thread_local constinit table* table_;
  static thread_local constinit bool ended_;
};

} // namespace saeta
