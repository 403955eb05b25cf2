// What the threads of a cache (resource/cache/caching_resource.hpp) share: slabs, the list of all shards, and
// calls upstream.
//
// Order     A miss looks, in this order, for a block of a slab that was never used, for blocks that others
//           freed on the same timeline, for blocks without an owner or of another timeline whose work is
//           known to have passed, for other such blocks, and for a new slab. A stream waits for the users of
//           a block whose work is pending, so streams that share few blocks run one after the other. So a new
//           slab comes before pending blocks until the cache holds `wait_above` bytes. When two threads or
//           streams keep taking the same few blocks from each other, the class gets another slab.
// Bound     Slabs are added while the cache stays within its limit; to make room, unused slabs of all classes
//           go back first. If there is no room for a slab, the block is allocated alone, with just the bytes
//           it needs, up to one slab beyond the limit. If that has no room either, a free block of a larger
//           class is used. If there is none, the block goes further beyond the limit (`beyond_bound`).
// Thread    Any; one lock, which hits never take. Nothing waits for the device under it.
// Failure   Throws what upstream or the driver throws, or std::bad_alloc; then nothing is allocated.
#pragma once

#include "saeta/resource/cache/caching_resource.hpp"
#include "saeta/resource/cache/shard.hpp"

#include <mutex>
#include <optional>
#include <vector>

namespace saeta {

struct cache_slab {
  block memory; ///< from upstream
  std::size_t size_class = 0;
  std::size_t blocks = 0;
  std::size_t carved = 0; ///< blocks that were handed out at least once
  point_set ready;        ///< blocks that were never handed out wait for these points
  std::size_t free = 0;   ///< free blocks found in shards, during a collection
  point_set users;        ///< points of those blocks, during a collection
  bool leaving = false;   ///< being returned upstream
};

class SAETA_LOCAL cache_store {
public:
  cache_store(std::shared_ptr<resource> upstream, const std::shared_ptr<backend>& device,
              caching_options options, std::shared_ptr<const budget> bound);
  cache_store(const cache_store&) = delete;
  cache_store& operator=(const cache_store&) = delete;
  ~cache_store();

  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  [[nodiscard]] const cache_classes& classes() const noexcept { return classes_; }
  /// Returns a shard that the caller owns, with the blocks that its last owner of that timeline left in it.
  [[nodiscard]] std::shared_ptr<cache_shard> claim(timeline_id timeline);
  /// Returns a block of the class, to be used after its points, and moves more blocks into the caller's
  /// `shard`. Returns null when there is no room for a slab: then the block is allocated alone.
  [[nodiscard]] cache_node* refill(cache_shard& shard, std::size_t size_class);

  /// Like `refill`, but returns a block of a larger class; null if there is none.
  [[nodiscard]] cache_node* take_larger(cache_shard& shard, std::size_t size_class);

  /// Allocates a block that is not cached; nullopt if that would exceed the limit by more than a slab.
  [[nodiscard]] std::optional<block> allocate_within(const allocation_request& request,
                                                     const stream_ref& stream);
  /// Like `allocate_within`, but exceeds the limit further if nothing else is left.
  [[nodiscard]] block allocate_upstream(const allocation_request& request, const stream_ref& stream);
  [[nodiscard]] bool deallocate_upstream(const block& freed, std::span<const point> after) noexcept;

  /// For a block of a slab: the extent that upstream reports for the slab, with the block's offset.
  [[nodiscard]] extent extent_of(const block& of) const noexcept;

  std::size_t trim();
  [[nodiscard]] std::uint64_t held_bytes() const;
  [[nodiscard]] caching_statistics statistics() const;
  void set_soft_limit(std::uint64_t bytes) noexcept { soft_limit_.store(bytes, std::memory_order_relaxed); }

private:
  using lock_type = std::unique_lock<std::mutex>;
  static constexpr std::uint64_t everything = ~std::uint64_t{0};
  struct size_kind {
    std::vector<std::unique_ptr<cache_slab>> slabs;
    std::vector<cache_slab*> open; ///< slabs with blocks never used; has room for all slabs
    unsigned contended_misses = 0; ///< misses after the owner's list was taken, since the last slab
  };

  // Blocks (store.cpp)
  [[nodiscard]] cache_node* carve(cache_shard& shard, std::size_t size_class);
  [[nodiscard]] cache_node* take_same_timeline(cache_shard& shard, std::size_t size_class);
  /// Returns a block without an owner or of another timeline that needs no wait.
  [[nodiscard]] cache_node* take_ready(cache_shard& shard, std::size_t size_class);
  /// Returns such a block of a shard, and moves a few more of them.
  [[nodiscard]] cache_node* take_ready_of(cache_shard& from, cache_shard& shard, std::size_t size_class);
  /// Returns a block without an owner or of another timeline, whose work may be pending.
  [[nodiscard]] cache_node* take_pending(cache_shard& shard, std::size_t size_class);
  void note_theft(cache_shard& victim, std::size_t size_class);
  /// Whether to add a slab rather than take a pending block.
  [[nodiscard]] bool may_grow() const noexcept;
  /// Whether to add a slab because threads keep taking the same few blocks from each other.
  [[nodiscard]] bool is_contended(cache_shard& shard, std::size_t size_class);
  void reserve_nodes(std::size_t count);

  // Bytes (bound.cpp)
  /// Whether to collect the free blocks of all threads, to find slabs that can be returned. A collection
  /// takes the lists of all threads. It is promising once a slab's bytes have been freed since a collection
  /// found nothing.
  enum class collecting { if_promising, always };
  [[nodiscard]] std::uint64_t limit() const noexcept;
  [[nodiscard]] std::uint64_t limit_with_slab() const noexcept;
  /// Counts bytes that are about to be held. Returns false and counts nothing if that would exceed `most`.
  [[nodiscard]] bool try_hold(std::uint64_t bytes, std::uint64_t most) noexcept;
  /// Like `try_hold`, but returns unused slabs upstream if that makes room. Call with or without the lock.
  [[nodiscard]] bool hold(std::uint64_t bytes, std::uint64_t most, collecting how, lock_type& lock);
  /// Bytes held and not in use by callers.
  [[nodiscard]] std::uint64_t unused_bytes() const noexcept;
  /// Allocates a caller's block whose `bytes` are already counted as held; uncounts them on failure.
  [[nodiscard]] block allocate_held(const allocation_request& request, const stream_ref& stream,
                                    std::uint64_t bytes, lock_type& lock);
  /// Allocates bytes that are already counted as held; returns unused slabs when upstream is out of memory.
  [[nodiscard]] block ask_upstream(const allocation_request& request, const stream_ref& stream,
                                   lock_type& lock);

  // Slabs (slabs.cpp)
  [[nodiscard]] std::size_t blocks_of_a_slab(std::size_t size_class) const noexcept;
  [[nodiscard]] bool add_slab(std::size_t size_class, lock_type& lock);
  /// Returns unused slabs upstream until `wanted` bytes are freed; returns the bytes freed.
  std::size_t trim_slabs(std::uint64_t wanted, lock_type& lock);
  /// Takes the free blocks of the class from all shards.
  [[nodiscard]] cache_node* collect_free(std::size_t size_class) noexcept;
  /// Counts the free blocks of each slab, and collects their users.
  static void count_free(const size_kind& kind, const cache_node* all);
  /// Takes slabs without a block in use out of the class and appends them to `leaving`, which has room;
  /// returns their bytes.
  [[nodiscard]] std::uint64_t choose_leaving(std::size_t size_class, std::uint64_t wanted,
                                             std::vector<cache_slab*>& leaving);
  void forget(const cache_slab& gone);

  const std::uint64_t id_;
  const cache_classes classes_;
  const std::size_t slab_bytes_;
  const std::shared_ptr<resource> upstream_;
  const std::shared_ptr<const budget> bound_; ///< may be null
  const tag label_{"cache"};
  const std::uint64_t wait_above_;
  std::atomic<std::uint64_t> soft_limit_;
  std::atomic<std::uint64_t> held_{0};
  std::atomic<std::uint64_t> uncached_{0}; ///< bytes of live blocks that are not cached
  std::atomic<std::uint64_t> upstream_allocations_{0};
  std::atomic<std::uint64_t> beyond_bound_{0};
  own_stream slabs_from_;

  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<cache_shard>> shards_;
  cache_shard common_; ///< blocks without an owner; the holder of the lock may push and pop
  std::vector<size_kind> kinds_;
  std::vector<std::unique_ptr<cache_node[]>> nodes_;
  cache_node* spare_ = nullptr;
  std::size_t spares_ = 0;
  std::size_t next_victim_ = 0;
  std::uint64_t steals_ = 0;
  std::uint64_t promising_ = 0; ///< a collection is promising from this many unused bytes on
};

/// Puts the node at the front of a list that is linked by `next`.
inline void link(cache_node* node, cache_node*& list) noexcept {
  node->next = list;
  list = node;
}

} // namespace saeta
