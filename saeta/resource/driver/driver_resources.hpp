// The resources that call the driver: `direct`, `async` and `pinned`. Contract: resource/resource.hpp.
//
// @code
// const auto pool = std::make_shared<async_resource>(device);    // cudaMallocAsync
// const auto single = std::make_shared<direct_resource>(device); // cudaMalloc: a driver call each
// const auto host = std::make_shared<pinned_resource>(device);   // page-locked, kept for reuse
// const block staging = host->allocate(1 << 20, 0, stream);
// const bool freed = host->deallocate(staging, stream); // reused once `stream` has got here
// @endcode
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/base/required.hpp"
#include "saeta/budget/budget.hpp"
#include "saeta/resource/resource.hpp"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace SAETA_EXPORT saeta {

/// Describes a block that has no memory yet, for a resource whose memory is aligned to `given` bytes.
/// `base_bytes` includes the room that a larger alignment needs.
/// @throws error invalid_argument (an alignment that is not a power of two), overflow.
[[nodiscard]] block describe_block(const allocation_request& request, device_id device, std::size_t given,
                                   const stream_ref& stream);
/// Places the block in the `base_bytes` at `base`.
void place_block(block& block, void* base) noexcept;

/// One driver call for each allocation (cudaMalloc, aligned new), for sanitizers and debugging. The driver's
/// free may wait for the device, so `deallocate` waits for the recorded work first.
class direct_resource final : public resource {
public:
  explicit direct_resource(std::shared_ptr<backend> device)
      : device_(required(std::move(device), "device")), timelines_(timelines::of(*device_)) {}

  std::size_t trim() override { return 0; }
  [[nodiscard]] std::uint64_t held_bytes() const override { return held_.load(std::memory_order_relaxed); }

private:
  block do_allocate(const allocation_request& request, const stream_ref& stream) override;
  bool do_deallocate(const block& freed, std::span<const point> after) noexcept override;

  std::shared_ptr<backend> device_;
  std::shared_ptr<timelines> timelines_;
  std::atomic<std::uint64_t> held_{0};
};

/// The driver's stream-ordered pool (cudaMallocAsync). `held_bytes` leaves out what the pool keeps for reuse.
/// Of an exportable pool, blocks that other processes could not open (device_properties::largest_pool_export)
/// are made by the direct resource.
/// Order: memory is freed on two streams of the resource: one for memory whose work has finished, one for
/// memory still in use. So memory that is already unused does not wait behind memory that is not. The driver
/// gives a stream memory that is still in use only if the stream has waited for the free; it makes its pool
/// larger otherwise. So a stream of ours waits for frees that follow its own work alone, which delays
/// nothing.
class async_resource final : public resource {
public:
  static constexpr std::uint64_t everything = ~std::uint64_t{0};

  /// @param pool_threshold  bytes of unused memory that the driver's pool keeps (device/backend.hpp).
  /// @param exportable  makes a pool whose memory can be shared with other processes.
  /// @throws error as backend::make_pool_exportable.
  explicit async_resource(std::shared_ptr<backend> device, std::uint64_t pool_threshold = everything,
                          bool exportable = false);

  std::size_t trim() override;
  [[nodiscard]] std::uint64_t held_bytes() const override {
    return held_.load(std::memory_order_relaxed) + beyond_.held_bytes();
  }

private:
  block do_allocate(const allocation_request& request, const stream_ref& stream) override;
  bool do_deallocate(const block& freed, std::span<const point> after) noexcept override;

  /// Lets `stream` reuse blocks that are freed after its own work, if no free in between waits for other
  /// work.
  void wait_for_own_frees(const stream_ref& stream);
  /// Queues the waits of a free in `in_use_`. @throws error device.
  void await_users(std::span<const point> after);

  /// Synchronizes `unused_`, whose work has finished, so this does not block. The driver notices that freed
  /// memory is unused only when the host waits.
  void notice_unused() noexcept;

  std::shared_ptr<backend> device_;
  std::shared_ptr<timelines> timelines_;
  const bool bounded_pool_;     ///< the pool returns unused memory above its threshold
  const std::uint64_t largest_; ///< bytes; larger blocks come from `beyond_`
  direct_resource beyond_;
  own_stream unused_; ///< frees memory whose work has finished
  own_stream in_use_;
  std::mutex users_mutex_;
  point_set users_; ///< what `in_use_` waits for, but for points that are known to have passed
  std::atomic<std::uint64_t> held_{0};
};

/// Page-locked host memory, pooled by power-of-two size because page-locking costs milliseconds. It ignores
/// streams: a block is freed once the work on it has finished. Before the held bytes would exceed the limit
/// of `bound`, unused memory is freed. Bytes that live blocks lose to rounding may still exceed it.
class pinned_resource final : public resource {
public:
  /// @param bound  the budget that is charged for the blocks; null: no bound.
  explicit pinned_resource(std::shared_ptr<backend> device, std::shared_ptr<const budget> bound = {})
      : device_(required(std::move(device), "device")), timelines_(timelines::of(*device_)),
        bound_(std::move(bound)) {}
  ~pinned_resource() override;

  std::size_t trim() override;
  [[nodiscard]] std::uint64_t held_bytes() const override;
  /// Returns the number of unused blocks that fit requests of `bytes` with the default alignment.
  [[nodiscard]] std::size_t kept(std::size_t bytes) const;

private:
  block do_allocate(const allocation_request& request, const stream_ref& stream) override;
  bool do_deallocate(const block& freed, std::span<const point> after) noexcept override;

  /// Call with the lock held.
  std::size_t trim_unused();

  std::shared_ptr<backend> device_;
  std::shared_ptr<timelines> timelines_;
  std::shared_ptr<const budget> bound_; ///< may be null
  mutable std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> free_; ///< by size class, bytes
  std::uint64_t held_ = 0;
};

} // namespace saeta
