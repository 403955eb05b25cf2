// The resources that call the driver: `direct`, `async` and `pinned`. Contract: memory/resource.hpp.
#pragma once

#include "saeta/memory/resource.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace saeta {

/// One driver call an allocation (cudaMalloc, aligned new): for sanitizers and debugging. Freeing may wait for the
/// device, so the recorded work must have finished before.
class direct_resource final : public resource {
public:
  explicit direct_resource(std::shared_ptr<backend> device) : device_(std::move(device)) {}

  [[nodiscard]] block allocate(std::size_t bytes, std::size_t alignment, stream_ref stream) override;
  [[nodiscard]] bool deallocate(const block& what, stream_ref stream) noexcept override;
  std::size_t trim() override { return 0; }
  [[nodiscard]] bool stream_ordered() const noexcept override { return false; }

private:
  std::shared_ptr<backend> device_;
};

/// The driver's stream-ordered pool (cudaMallocAsync).
class async_resource final : public resource {
public:
  explicit async_resource(std::shared_ptr<backend> device) : device_(std::move(device)) {}

  [[nodiscard]] block allocate(std::size_t bytes, std::size_t alignment, stream_ref stream) override;
  [[nodiscard]] bool deallocate(const block& what, stream_ref stream) noexcept override;
  std::size_t trim() override { return device_->trim_pool(0); }
  [[nodiscard]] bool stream_ordered() const noexcept override { return true; }

private:
  std::shared_ptr<backend> device_;
};

/// Page-locked host memory, pooled by power-of-two size because page-locking costs milliseconds. Streams are ignored:
/// freeing means that the work has finished.
class pinned_resource final : public resource {
public:
  explicit pinned_resource(std::shared_ptr<backend> device) : device_(std::move(device)) {}
  ~pinned_resource() override;

  [[nodiscard]] block allocate(std::size_t bytes, std::size_t alignment, stream_ref stream) override;
  [[nodiscard]] bool deallocate(const block& what, stream_ref stream) noexcept override;
  std::size_t trim() override;
  [[nodiscard]] bool stream_ordered() const noexcept override { return false; }
  /// Page-locked bytes right now, in use or pooled.
  [[nodiscard]] std::uint64_t held_bytes() const;

private:
  std::shared_ptr<backend> device_;
  mutable std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> free_; ///< by size class, bytes
  std::uint64_t held_ = 0;
};

} // namespace saeta
