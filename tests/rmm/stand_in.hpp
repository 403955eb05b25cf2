// A fake RMM resource that allocates from a Saeta backend, so that tests need no GPU. It satisfies RMM's
// resource concept, is stream-ordered, and records the requests.
#pragma once

#include "saeta/device/backend.hpp"
#include "saeta/rmm/stream.hpp"

#include <cuda/memory_resource>

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

namespace saeta::conformance {

struct asked {
  std::size_t bytes;
  std::size_t alignment;

  friend bool operator==(const asked&, const asked&) = default;
};

class stand_in {
public:
  struct state {
    explicit state(std::shared_ptr<backend> of) : device(std::move(of)) {}

    std::shared_ptr<backend> device;
    std::mutex mutex;
    std::vector<asked> allocated;
    std::vector<asked> freed;
    std::vector<stream_handle> freed_on;
    std::function<void*(std::size_t bytes)> instead; ///< replaces the backend's allocation; may throw
    std::function<void()> before_free;               ///< called before each free if set; may throw
  };

  explicit stand_in(std::shared_ptr<backend> device) : state_(std::make_shared<state>(std::move(device))) {}

  void* allocate(cuda::stream_ref stream, std::size_t bytes, std::size_t alignment) {
    const std::lock_guard lock(state_->mutex);
    state_->allocated.push_back({bytes, alignment});
    if (state_->instead) {
      return state_->instead(bytes);
    }
    backend& device = *state_->device;
    return on_host() ? device.allocate(bytes, alignment) : device.allocate_async(bytes, to_handle(stream));
  }
  void deallocate(cuda::stream_ref stream, void* pointer, std::size_t bytes, std::size_t alignment) {
    const std::lock_guard lock(state_->mutex);
    if (state_->before_free) {
      state_->before_free();
    }
    backend& device = *state_->device;
    if (!(on_host() ? device.deallocate(pointer, bytes, alignment)
                    : device.deallocate_async(pointer, bytes, to_handle(stream)))) {
      throw std::bad_alloc();
    }
    state_->freed.push_back({bytes, alignment});
    state_->freed_on.push_back(to_handle(stream));
  }
  void* allocate_sync(std::size_t bytes, std::size_t alignment) {
    return allocate(to_cuda_stream(legacy_stream), bytes, alignment);
  }
  void deallocate_sync(void* pointer, std::size_t bytes, std::size_t alignment) {
    deallocate(to_cuda_stream(legacy_stream), pointer, bytes, alignment);
  }

  [[nodiscard]] state& seen() const { return *state_; }

  friend bool operator==(const stand_in& a, const stand_in& b) noexcept { return a.state_ == b.state_; }
  friend void get_property(const stand_in&, cuda::mr::device_accessible) noexcept {}

private:
  [[nodiscard]] bool on_host() const { return state_->device->device().kind == device_kind::cpu; }

  std::shared_ptr<state> state_;
};

static_assert(cuda::mr::resource_with<stand_in, cuda::mr::device_accessible>);

} // namespace saeta::conformance
