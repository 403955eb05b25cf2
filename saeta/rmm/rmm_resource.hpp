// Any resource of RMM, or of cuda::mr, as the source of a context's memory.
//
// @code
// context_options options;
// options.memory.custom_base = rmm_source(rmm::mr::cuda_async_memory_resource{}); // not the driver's pool
// const std::shared_ptr<context> own = context::create(device, options);          // keeps the resource
// const rmm_resource base(device, rmm::mr::cuda_memory_resource{}); // the resource that `rmm_source` makes
// @endcode
//
// What      Passes each request on with its exact size. Zero bytes never reach RMM. RMM aligns to 256 bytes,
//           and many of its resources refuse a larger alignment. For a larger alignment this resource asks
//           for more bytes and aligns inside the block.
// Owner     Keeps a copy of the RMM resource, as RMM's own adaptors do. A resource_ref must outlive this
//           object. All memory must be freed before this object ends.
// Order     RMM orders both calls on their stream. Memory goes back on a stream of the adaptor, which waits
//           for the last users.
// Thread    Any, if the RMM resource allows it. On a GPU the device is made current for the call.
// Failure   out_of_memory for std::bad_alloc and derived exceptions (rmm::bad_alloc, rmm::out_of_memory),
//           device for any other exception and for a block that breaks RMM's alignment. A deallocation that
//           throws is reported, and the block stays the caller's. A type-erased resource (any_resource) can't
//           pass the exception on and ends the process.
// Links     librmm (26.10 or newer) and the CUDA runtime.
#pragma once

#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"
#include "saeta/resource/driver/driver_resources.hpp"
#include "saeta/rmm/current_device.hpp"
#include "saeta/rmm/driver_pool.hpp"
#include "saeta/rmm/stream.hpp"

#include <cuda/memory_resource>

#include <atomic>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <rmm/aligned.hpp>
#include <utility>

namespace saeta {

template <cuda::mr::resource_with<cuda::mr::device_accessible> Upstream>
class rmm_resource final : public resource {
public:
  rmm_resource(std::shared_ptr<backend> device, Upstream from)
      : device_(std::move(device)), timelines_(timelines::of(*device_)), frees_(timelines_),
        from_(std::move(from)) {}

  /// Trims the driver's pool behind cuda_async_memory_resource and similar resources. Other resources, such
  /// as RMM's own pools and arenas, give memory back only when they are destroyed. The result is then 0.
  std::size_t trim() override {
    if (const std::optional<cudaMemPool_t> pool = driver_pool_of(from_)) {
      const current_device here(device_->device());
      // Only a wait tells the driver that freed memory is unused. An idle stream makes the wait short.
      if (frees_.ref().idle()) {
        device_->synchronize_stream(frees_.ref().native_handle());
      }
      return trim_driver_pool(*pool);
    }
    return 0;
  }
  /// The bytes handed out. RMM does not tell what it holds beyond them.
  [[nodiscard]] std::uint64_t held_bytes() const override { return held_.load(std::memory_order_relaxed); }

private:
  static constexpr std::size_t given_alignment = rmm::CUDA_ALLOCATION_ALIGNMENT;

  block do_allocate(const allocation_request& request, const stream_ref& stream) override {
    block block = describe_block(request, device_->device(), given_alignment, stream);
    if (request.bytes == 0) {
      return block;
    }
    place_block(block, ask(block.base_bytes, to_cuda_stream(stream.native_handle())));
    held_.fetch_add(block.base_bytes, std::memory_order_relaxed);
    try {
      block.ready = mark(stream);
    } catch (...) {
      const current_device here(device_->device());
      from_.deallocate(to_cuda_stream(stream.native_handle()), block.base, block.base_bytes, given_alignment);
      held_.fetch_sub(block.base_bytes, std::memory_order_relaxed);
      throw;
    }
    return block;
  }

  bool do_deallocate(const block& freed, std::span<const point> after) noexcept override {
    if (freed.base == nullptr) {
      return true;
    }
    try {
      const stream_ref last = frees_.ref();
      for (const point& point : after) {
        wait(last, point);
      }
      const current_device here(device_->device());
      from_.deallocate(to_cuda_stream(last.native_handle()), freed.base, freed.base_bytes, given_alignment);
    } catch (...) {
      report_current_exception("rmm_resource::deallocate");
      return false;
    }
    held_.fetch_sub(freed.base_bytes, std::memory_order_relaxed);
    return true;
  }

  [[nodiscard]] void* ask(std::size_t bytes, cuda::stream_ref stream) {
    const current_device here(device_->device());
    return translated(bytes, [&] {
      void* const given = from_.allocate(stream, bytes, given_alignment);
      if (given == nullptr) {
        throw error(errc::out_of_memory, concat("RMM gave a null pointer for ", bytes, " bytes"));
      }
      if (reinterpret_cast<std::uintptr_t>(given) % given_alignment != 0) {
        from_.deallocate(stream, given, bytes, given_alignment);
        throw error(errc::device, concat("RMM gave ", bytes, " bytes at ", given,
                                         ", which is not aligned to ", given_alignment, " bytes"));
      }
      return given;
    });
  }

  template <class Action>
  static void* translated(std::size_t bytes, const Action& allocate) {
    try {
      return allocate();
    } catch (const error&) {
      throw;
    } catch (const std::bad_alloc& e) {
      throw error(errc::out_of_memory, concat("RMM has too little memory for ", bytes, " bytes: ", e.what()));
    } catch (const std::exception& e) {
      throw error(errc::device, concat("RMM failed to allocate ", bytes, " bytes: ", e.what()));
    } catch (...) {
      throw error(errc::device, concat("RMM failed to allocate ", bytes, " bytes"));
    }
  }

  std::shared_ptr<backend> device_;
  std::shared_ptr<timelines> timelines_;
  own_stream frees_;
  Upstream from_;
  std::atomic<std::uint64_t> held_{0};
};

/// For `stack_options::custom_base` and `stack_options::custom_slabs`.
template <cuda::mr::resource_with<cuda::mr::device_accessible> Upstream>
[[nodiscard]] auto rmm_source(Upstream from) {
  return [kept = std::move(from)](const std::shared_ptr<backend>& device) -> std::shared_ptr<resource> {
    return std::make_shared<rmm_resource<Upstream>>(device, kept);
  };
}

} // namespace saeta
