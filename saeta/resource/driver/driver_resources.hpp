// The resources that call the driver: `direct`, `async` and `pinned`. Contract: resource/resource.hpp.
#pragma once

#include "saeta/budget/budget.hpp"
#include "saeta/resource/resource.hpp"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace saeta {

/// A block without memory yet, of a resource over something that aligns to `given` bytes: `base_bytes` has room for more
/// alignment where more is asked for.
/// @throws error invalid_argument (an alignment that is no power of two), overflow.
[[nodiscard]] block describe_block(const allocation_request& request, device_id device, std::size_t given,
                                   const stream_ref& stream);
/// Puts the block into the `base_bytes` at `base`.
void place_block(block& made, void* base) noexcept;

/// One driver call an allocation (cudaMalloc, aligned new): for sanitizers and debugging. Freeing may wait for the
/// device, so the recorded work must have finished before.
class direct_resource final : public resource {
public:
  explicit direct_resource(std::shared_ptr<backend> device)
      : device_(std::move(device)), timelines_(timelines::of(*device_)) {}

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
///
/// Order: memory goes back on streams of the resource. What nobody uses any more does not queue behind what somebody still
/// uses: each has a stream.
class async_resource final : public resource {
public:
  static constexpr std::uint64_t everything = ~std::uint64_t{0};

  /// @param pool_threshold  bytes that the driver's pool of the device keeps for reuse (device/backend.hpp).
  /// @param exportable      its memory can be shared with other processes. @throws error as backend::make_pool_exportable.
  explicit async_resource(std::shared_ptr<backend> device, std::uint64_t pool_threshold = everything,
                          bool exportable = false);

  std::size_t trim() override;
  [[nodiscard]] std::uint64_t held_bytes() const override { return held_.load(std::memory_order_relaxed); }

private:
  block do_allocate(const allocation_request& request, const stream_ref& stream) override;
  bool do_deallocate(const block& freed, std::span<const point> after) noexcept override;

  /// Only in a wait of the host, where nothing is waited for, the driver sees that freed memory is unused.
  void notice_unused() noexcept;

  std::shared_ptr<backend> device_;
  std::shared_ptr<timelines> timelines_;
  const bool bounded_pool_; ///< it gives back what is above its threshold
  own_stream unused_;       ///< for memory whose work has finished
  own_stream in_use_;
  std::atomic<std::uint64_t> held_{0};
};

/// Page-locked host memory, pooled by power-of-two size because page-locking costs milliseconds. Streams are ignored:
/// freeing means that the work has finished. Where more would be held than the limit of `bound` allows, what is unused goes
/// back first; what live blocks lose to rounding may be held beyond it.
class pinned_resource final : public resource {
public:
  /// @param bound  the budget that is charged for the blocks; null: none.
  explicit pinned_resource(std::shared_ptr<backend> device, std::shared_ptr<const budget> bound = {})
      : device_(std::move(device)), timelines_(timelines::of(*device_)), bound_(std::move(bound)) {}
  ~pinned_resource() override;

  std::size_t trim() override;
  [[nodiscard]] std::uint64_t held_bytes() const override;

private:
  block do_allocate(const allocation_request& request, const stream_ref& stream) override;
  bool do_deallocate(const block& freed, std::span<const point> after) noexcept override;

  /// With the lock.
  std::size_t trim_unused();

  std::shared_ptr<backend> device_;
  std::shared_ptr<timelines> timelines_;
  std::shared_ptr<const budget> bound_; ///< may be null
  mutable std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> free_; ///< by size class, bytes
  std::uint64_t held_ = 0;
};

} // namespace saeta
