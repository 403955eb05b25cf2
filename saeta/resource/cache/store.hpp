// What the threads of a cache (resource/cache/caching_resource.hpp) share: slabs, the list of all shards, and what goes
// upstream.
//
// Order     A miss looks, in this order, for a block of a slab that was never used, for blocks that others freed on the
//           same timeline, for blocks that nobody owns, for blocks of another timeline, and for a new slab. Two threads or
//           streams that take the same few blocks from each other again and again get another slab instead.
// Bound     Slabs are added as long as the cache holds no more than its limit then; before that, unused slabs of all
//           classes go back. Where there is no room for another slab, a block is allocated by itself, with no more bytes
//           than it needs, up to a slab beyond the limit. Where that has no room either, a free block of a larger class
//           serves. Only when there is none, the limit is exceeded by more (`beyond_bound`).
// Thread    Any; one lock, which hits never take. Nothing waits for the device under it.
// Failure   What upstream or the driver throws, with nothing taken; std::bad_alloc of the host.
#pragma once

#include "saeta/resource/cache/caching_resource.hpp"
#include "saeta/resource/cache/shard.hpp"

#include <mutex>
#include <optional>
#include <vector>

namespace saeta {

struct cache_slab {
  block memory; ///< of upstream
  std::size_t size_class = 0;
  std::size_t blocks = 0;
  std::size_t carved = 0; ///< blocks that have been handed out at least once
  point_set ready;        ///< what blocks that were not handed out yet wait for
  std::size_t free = 0;   ///< blocks found in shards, while they are collected
  point_set users;        ///< of those blocks, while they are collected
  bool leaving = false;   ///< on its way upstream
};

class cache_store {
public:
  cache_store(std::shared_ptr<resource> upstream, const std::shared_ptr<backend>& device,
              caching_options options, std::shared_ptr<const budget> bound);
  cache_store(const cache_store&) = delete;
  cache_store& operator=(const cache_store&) = delete;
  ~cache_store();

  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  [[nodiscard]] const cache_classes& classes() const noexcept { return classes_; }
  /// A shard that the caller owns, with what others left in it.
  [[nodiscard]] std::shared_ptr<cache_shard> claim(timeline_id timeline);
  /// A block of the class, to be used after its points, and more of them into the shard, which is the caller's. Null when
  /// there is no room for a slab: then the block is allocated by itself.
  [[nodiscard]] cache_node* refill(cache_shard& shard, std::size_t size_class);

  /// As `refill`, a block of a larger class; null where there is none.
  [[nodiscard]] cache_node* take_larger(cache_shard& shard, std::size_t size_class);

  /// A block that is not cached; nothing where that would exceed the limit by more than a slab.
  [[nodiscard]] std::optional<block> allocate_within(const allocation_request& request,
                                                     const stream_ref& stream);
  /// In any case: beyond the limit where nothing else is left.
  [[nodiscard]] block allocate_upstream(const allocation_request& request, const stream_ref& stream);
  [[nodiscard]] bool deallocate_upstream(const block& freed, std::span<const point> after) noexcept;

  /// Of a block of a slab: what upstream says of the slab.
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
    std::vector<cache_slab*> open; ///< with blocks never used; has room for all slabs
    unsigned contended_misses = 0; ///< misses of owners whose list was taken, since the last slab
  };

  // Blocks (store.cpp)
  [[nodiscard]] cache_node* carve(cache_shard& shard, std::size_t size_class);
  [[nodiscard]] cache_node* take_same_timeline(cache_shard& shard, std::size_t size_class);
  [[nodiscard]] cache_node* take_common(cache_shard& shard, std::size_t size_class);
  [[nodiscard]] cache_node* take_other_timeline(cache_shard& shard, std::size_t size_class);
  [[nodiscard]] bool wants_more(cache_shard& shard, std::size_t size_class);
  void reserve_nodes(std::size_t count);

  // Bytes (bound.cpp)
  /// Whether everybody's free blocks are collected to find slabs that can be given back: a collection takes the lists of
  /// all threads. It is promising when a slab's bytes have been freed since one found nothing.
  enum class collecting { if_promising, always };
  [[nodiscard]] std::uint64_t limit() const noexcept;
  [[nodiscard]] std::uint64_t limit_and_a_slab() const noexcept;
  /// Counts bytes that are about to be held; false, and nothing is counted, where that would exceed `most`.
  [[nodiscard]] bool try_hold(std::uint64_t bytes, std::uint64_t most) noexcept;
  /// As `try_hold`, giving back unused slabs where that makes room. With or without the lock, as below.
  [[nodiscard]] bool hold(std::uint64_t bytes, std::uint64_t most, collecting how, lock_type& lock);
  /// Of slabs.
  [[nodiscard]] std::uint64_t unused_bytes() const noexcept;
  /// Allocates bytes that are held already, for a caller.
  [[nodiscard]] block allocate_held(const allocation_request& request, const stream_ref& stream,
                                    std::uint64_t bytes, lock_type& lock);
  /// Allocates bytes that are held already; gives unused slabs back when upstream has no memory.
  [[nodiscard]] block ask_upstream(const allocation_request& request, const stream_ref& stream,
                                   lock_type& lock);

  // Slabs (slabs.cpp)
  [[nodiscard]] std::size_t blocks_of_a_slab(std::size_t size_class) const noexcept;
  [[nodiscard]] bool add_slab(std::size_t size_class, lock_type& lock);
  /// Gives unused slabs back until `wanted` bytes are free; how many went.
  std::size_t trim_slabs(std::uint64_t wanted, lock_type& lock);
  /// The free blocks of the class, from everybody.
  [[nodiscard]] cache_node* collect_free(std::size_t size_class) noexcept;
  /// Counts them for each slab, and collects their users.
  static void count_free(const size_kind& kind, const cache_node* all);
  /// Takes slabs of the class without a block in use out of use and puts them into `leaving`, which has room; how many bytes.
  [[nodiscard]] std::uint64_t choose_leaving(std::size_t size_class, std::uint64_t wanted,
                                             std::vector<cache_slab*>& leaving);
  void forget(const cache_slab& gone);

  const std::uint64_t id_;
  const cache_classes classes_;
  const std::size_t slab_bytes_;
  const std::shared_ptr<resource> upstream_;
  const std::shared_ptr<const budget> bound_; ///< may be null
  const tag label_{"cache"};
  std::atomic<std::uint64_t> soft_limit_;
  std::atomic<std::uint64_t> held_{0};
  std::atomic<std::uint64_t> uncached_{0}; ///< bytes in use that went past the classes
  std::atomic<std::uint64_t> upstream_allocations_{0};
  std::atomic<std::uint64_t> beyond_bound_{0};
  own_stream slabs_from_;

  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<cache_shard>> shards_;
  cache_shard common_; ///< blocks that nobody owns; whoever has the lock may push and pop
  std::vector<size_kind> kinds_;
  std::vector<std::unique_ptr<cache_node[]>> nodes_;
  cache_node* spare_ = nullptr;
  std::size_t spares_ = 0;
  std::size_t next_victim_ = 0;
  std::uint64_t steals_ = 0;
  std::uint64_t promising_ = 0; ///< unused bytes from which on a collection is promising
};

/// Puts the node in front of a list that is linked by `next`.
inline void link(cache_node* node, cache_node*& list) noexcept {
  node->next = list;
  list = node;
}

} // namespace saeta
