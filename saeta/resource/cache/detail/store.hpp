// What the threads of a cache (resource/cache/caching_resource.hpp) share: slabs, the list of all shards, and what goes upstream.
//
// Order     A miss looks, in this order, for a block of a slab that was never used, for blocks that others freed on the
//           same stream, for blocks of another stream behind one fence, for a new slab, and trims before it gives up. Two
//           threads or streams that take the same few blocks from each other again and again get another slab instead.
// Thread    Any; one lock, which hits never take. Nothing waits for the device under it.
// Failure   What upstream or the driver throws, with nothing taken; std::bad_alloc of the host.
#pragma once

#include "saeta/resource/cache/caching_resource.hpp"
#include "saeta/resource/cache/detail/shard.hpp"

#include <list>
#include <mutex>
#include <vector>

namespace saeta {

struct cache_slab {
  block memory; ///< of upstream
  std::size_t size_class = 0;
  std::size_t blocks = 0;
  std::size_t carved = 0; ///< blocks that have been handed out at least once
  std::size_t free = 0;   ///< blocks found in shards, while they are collected
  bool leaving = false;   ///< on its way upstream
  fence ready;            ///< what the first use of a block waits for
};

class cache_store {
public:
  cache_store(std::shared_ptr<resource> upstream, const std::shared_ptr<backend>& device,
              std::shared_ptr<event_pool> events, caching_options options,
              caching_resource::fence_source fence_over);
  cache_store(const cache_store&) = delete;
  cache_store& operator=(const cache_store&) = delete;
  ~cache_store();

  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  [[nodiscard]] const cache_classes& classes() const noexcept { return classes_; }
  /// A shard that the caller owns, with what others left in it.
  [[nodiscard]] std::shared_ptr<cache_shard> claim(std::uint64_t stream_id);
  /// A block of the class that is in order on the stream, and more of them into the shard, which is the caller's.
  [[nodiscard]] cache_node* refill(cache_shard& shard, std::size_t size_class, stream_ref stream);

  /// Blocks that are not cached.
  [[nodiscard]] block allocate_upstream(const allocation_request& what, stream_ref stream);
  [[nodiscard]] bool deallocate_upstream(const block& what, stream_ref stream) noexcept;

  std::size_t trim();
  [[nodiscard]] std::uint64_t held_bytes() const;
  [[nodiscard]] caching_statistics statistics() const;
  void set_soft_limit(std::uint64_t bytes) noexcept { soft_limit_.store(bytes, std::memory_order_relaxed); }

private:
  using lock_type = std::unique_lock<std::mutex>;
  struct size_kind {
    std::vector<std::unique_ptr<cache_slab>> slabs;
    std::vector<cache_slab*> open; ///< with blocks never used; has room for all slabs
    unsigned quarrels = 0;         ///< misses of owners whose list was taken, since the last slab
  };
  struct late_free {
    block what;
    std::uint64_t stream_id;
  };

  [[nodiscard]] cache_node* carve(cache_shard& shard, std::size_t size_class, stream_ref stream);
  [[nodiscard]] cache_node* take_same_stream(cache_shard& shard, std::size_t size_class);
  [[nodiscard]] cache_node* take_other_stream(cache_shard& shard, std::size_t size_class, stream_ref stream);
  [[nodiscard]] cache_node* take_all_of(std::uint64_t stream_id, std::size_t size_class);
  [[nodiscard]] bool wants_more(cache_shard& shard, std::size_t size_class);
  void add_slab(std::size_t size_class, lock_type& lock);
  void make_room_for(std::uint64_t bytes, lock_type& lock);
  /// After upstream had no memory; false when there is nothing to give back.
  [[nodiscard]] bool relieve(stream_ref stream, lock_type& lock);

  std::size_t trim_slabs(lock_type& lock);
  void collect_free() noexcept;
  /// Takes the slabs without a block in use, once all free blocks lie aside, out of use.
  void leave(std::vector<cache_slab*>& leaving) noexcept;
  [[nodiscard]] bool give_back(const block& what, const fence& done) noexcept;
  void forget(const cache_slab& gone);

  void set_aside(cache_node* list, std::uint64_t stream_id) noexcept;
  void settle_aside();
  void retry_late_frees(lock_type& lock);
  void reserve_nodes(std::size_t count);

  const std::uint64_t id_;
  const cache_classes classes_;
  const std::size_t slab_bytes_;
  const std::shared_ptr<resource> upstream_;
  const std::shared_ptr<event_pool> events_;
  const caching_resource::fence_source fence_over_;
  const tag label_{"cache"};
  std::atomic<std::uint64_t> soft_limit_;
  std::atomic<std::uint64_t> held_{0};
  std::atomic<std::uint64_t> uncached_{0}; ///< bytes in use that went past the classes
  std::atomic<std::uint64_t> upstream_allocations_{0};
  stream slabs_from_; ///< not the one of frees: new slabs need not wait for the work that frees wait for
  stream slabs_to_;

  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<cache_shard>> shards_;
  std::vector<size_kind> kinds_;
  std::vector<std::unique_ptr<cache_node[]>> nodes_;
  cache_node* spare_ = nullptr;
  std::size_t spares_ = 0;
  cache_node* aside_ = nullptr; ///< free blocks that have to find a shard of their `stream_id`
  std::list<late_free> late_;   ///< frees whose fence was refused
  std::uint64_t steals_ = 0;
};

} // namespace saeta
