// A context as a resource of RMM: allocations of RMM's containers, pools and adaptors count in the context.
//
// @code
// rmm::mr::set_current_device_resource(context_resource(ctx, "cudf"));
// rmm::device_buffer index(4096, rmm_stream, context_resource(ctx, "index")); // keeps `ctx`
// @endcode
//
// What      Conforms to cuda::mr::resource_with<cuda::mr::device_accessible>. Allocations count in the
//           context's budget and ledger, under the resource's tag. A context on the host gives ordinary
//           memory, which RMM's own containers can't fill.
// Owner     A value that keeps its context alive; allocated memory does so too. Equal resources (one
//           context's budget and one tag) free each other's memory.
// Order     `allocate`: the memory is ready on its stream. `deallocate`: work queued on its stream by then is
//           the last use of the memory. Without a stream: `allocate_sync` waits until any stream may use the
//           memory. `deallocate_sync` does not wait, and any reuse comes after all work of the context. On a
//           stream that captures a graph, memory comes from the graph pool of the thread
//           (memory/loans/graph_pool.hpp).
// Thread    Any.
// Failure   rmm::out_of_memory if the budget refuses (its numbers are in the text) or the device has no
//           memory; rmm::bad_alloc for anything else. Deallocation reports failures and never throws.
// Links     librmm (26.10 or newer), for its exceptions.
#pragma once

#include "saeta/base/text.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/memory/loans/lent_memory.hpp"
#include "saeta/rmm/stream.hpp"

#include <cuda/memory_resource>

#include <memory>
#include <rmm/aligned.hpp>
#include <rmm/error.hpp>
#include <type_traits>
#include <utility>

namespace saeta {

class context_resource {
public:
  /// @throws error invalid_argument without a context.
  explicit context_resource(std::shared_ptr<context> ctx, tag label = "rmm")
      : ctx_(std::move(ctx)), label_(label) {
    if (ctx_ == nullptr) {
      throw error(errc::invalid_argument, concat("the RMM resource '", label_.name(), "' has no context"));
    }
  }

  /// `alignment` may be any power of two. Returns null for 0 bytes.
  [[nodiscard]] void* allocate(cuda::stream_ref stream, std::size_t bytes,
                               std::size_t alignment = rmm::CUDA_ALLOCATION_ALIGNMENT) {
    return in_terms_of_rmm([&] {
      const stream_ref on(*ctx_->device_backend(), to_handle(stream));
      return lend_memory(ctx_, bytes, on, label_, alignment);
    });
  }
  void deallocate(cuda::stream_ref stream, void* pointer, std::size_t bytes,
                  std::size_t /*alignment*/ = rmm::CUDA_ALLOCATION_ALIGNMENT) noexcept {
    take_back_memory(pointer, bytes, to_handle(stream));
  }

  [[nodiscard]] void* allocate_sync(std::size_t bytes,
                                    std::size_t alignment = rmm::CUDA_ALLOCATION_ALIGNMENT) {
    return in_terms_of_rmm([&] { return lend_ready_memory(ctx_, bytes, label_, alignment); });
  }
  void deallocate_sync(void* pointer, std::size_t bytes,
                       std::size_t /*alignment*/ = rmm::CUDA_ALLOCATION_ALIGNMENT) noexcept {
    take_back_memory(pointer, bytes, std::nullopt);
  }

  [[nodiscard]] const std::shared_ptr<context>& ctx() const noexcept { return ctx_; }
  [[nodiscard]] tag label() const noexcept { return label_; }

  friend bool operator==(const context_resource& a, const context_resource& b) noexcept {
    return a.ctx_->shares_with(*b.ctx_) && a.ctx_->memory_budget() == b.ctx_->memory_budget() &&
           a.ctx_->drawn_from() == b.ctx_->drawn_from() && a.label_ == b.label_;
  }
  friend void get_property(const context_resource&, cuda::mr::device_accessible) noexcept {}

private:
  template <class Action>
  static void* in_terms_of_rmm(const Action& allocate) {
    try {
      return allocate();
    } catch (const error& e) {
      if (is_lack_of_room(e.code())) {
        throw rmm::out_of_memory(e.message());
      }
      throw rmm::bad_alloc(e.message());
    }
  }

  std::shared_ptr<context> ctx_;
  tag label_;
};

static_assert(cuda::mr::resource_with<context_resource, cuda::mr::device_accessible>);
static_assert(std::is_nothrow_move_constructible_v<context_resource> &&
              std::is_copy_constructible_v<context_resource>);

} // namespace saeta
