// The caching resource: blocks of size classes, carved from slabs of an upstream resource and kept for reuse.
//
// @code
// const auto driver = std::make_shared<async_resource>(device);
// const auto cache = std::make_shared<caching_resource>(driver, device);
// const block memory = cache->allocate(4096, 0, stream); // from a slab; ready on `stream`
// const bool freed = cache->deallocate(memory, stream);  // the cache keeps it for the next request
// const std::size_t returned = cache->trim();            // slabs without a block in use go to the driver
// @endcode
//
// What      Freed blocks lie in shards, one for each thread and timeline. A thread that frees and allocates
//           on one stream does not contend with others: it waits for no lock and records no event. Requests
//           up to `largest_small` share slabs, and requests up to `largest_cached` have a slab each. Requests
//           that are larger, or need more than the device's alignment, go upstream unchanged.
// Order     A block remembers the points of its last users. Reuse on the timeline of its only user needs no
//           wait. Reuse on another stream makes that stream wait for these points only. The host never waits.
// Owner     Slabs without a block in use go back upstream with `trim()`, when room is needed, and at the end.
// Budget    The budget above counts the requested bytes; `held_bytes()` counts the bytes from the device.
//           They stay within the limit of `bound` (the root budget) and `soft_limit`, plus one slab. They may
//           exceed it when rounding and partly used slabs leave no room for a block that the budget has
//           admitted. Such a block is still allocated, and counted (`beyond_bound`).
// Thread    Any.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/budget/budget.hpp"
#include "saeta/resource/resource.hpp"

#include <cstdint>
#include <memory>
#include <optional>

namespace SAETA_EXPORT saeta {

class cache_shard;
class cache_store;
struct cache_node;

struct caching_options {
  std::size_t slab = 2u << 20;             ///< bytes of a slab of small blocks; more for the largest classes
  std::size_t largest_small = 1u << 20;    ///< bytes
  std::size_t largest_cached = 256u << 20; ///< bytes
  std::uint64_t soft_limit = ~std::uint64_t{0}; ///< bytes
  /// Bytes that the cache holds before it makes streams wait for each other's work rather than grow; at most
  /// half of its limit. Empty: an eighth of the device's memory.
  std::optional<std::uint64_t> wait_above{};
};

struct caching_statistics {
  std::uint64_t held = 0;   ///< bytes of slabs and of uncached blocks
  std::uint64_t in_use = 0; ///< bytes of blocks that callers hold, rounded up to their classes
  std::uint64_t slabs = 0;
  std::uint64_t steals = 0; ///< times that blocks were taken from another timeline
  std::uint64_t upstream_allocations = 0;
  std::uint64_t beyond_bound = 0; ///< blocks allocated beyond the limit and a slab
};

class caching_resource final : public resource {
public:
  /// @param device  the backend of the memory; the cache makes its own stream on it.
  /// @param bound   the budget whose limit bounds the slabs; null: none.
  /// @throws error invalid_argument for options that leave no size to cache
  ///         (4 KiB <= largest_small <= largest_cached <= 64 GiB).
  caching_resource(std::shared_ptr<resource> upstream, const std::shared_ptr<backend>& device,
                   caching_options options = {}, std::shared_ptr<const budget> bound = {});
  ~caching_resource() override;

  std::size_t trim() override;
  [[nodiscard]] std::uint64_t held_bytes() const override;
  [[nodiscard]] extent extent_of(const block& of) const noexcept override;
  [[nodiscard]] caching_statistics statistics() const;
  void set_soft_limit(std::uint64_t bytes) noexcept;

private:
  block do_allocate(const allocation_request& request, const stream_ref& stream) override;
  bool do_deallocate(const block& returned, std::span<const point> after) noexcept override;
  [[nodiscard]] bool cached(std::size_t bytes, std::size_t alignment) const noexcept;
  [[nodiscard]] block allocate_uncached(const allocation_request& request, const stream_ref& stream);
  [[nodiscard]] block take(cache_shard& shard, const allocation_request& request, const stream_ref& stream);
  [[nodiscard]] block lend(cache_node& taken, cache_shard& shard, const allocation_request& request,
                           const stream_ref& stream);
  [[nodiscard]] block describe_here(const allocation_request& request, const stream_ref& stream,
                                    timeline_id timeline) const;
  void put(cache_shard& shard, cache_node& freed) noexcept;

  const device_id device_;
  const std::size_t own_alignment_;
  const std::unique_ptr<cache_store> store_;
};

} // namespace saeta
