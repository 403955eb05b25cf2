// Host memory that libarrow takes while it reads one source, charged to a budget for as long as it lives.
//
// What      Every byte is charged before memory is asked for: what a source may be decoded to is bounded by the budget of whom it
//           is for. Values that were decoded, and bodies that columns view, count until the last column lets them go. For a
//           host context they are memory of its own, as its ledger shows; for a device they are ordinary memory, charged to the
//           budget of page-locked memory.
// Owner     Columns may view decoded memory long after the reader is gone, and libarrow frees with a plain pointer to the
//           pool. So the pool lives until its owner has left it and its last byte is back. Each allocation knows its budget.
// Thread    Any: libarrow decompresses on several. `charge_to` and `allocate_for` while nobody allocates.
// Failure   arrow::Status OutOfMemory, of a budget with the refusal (arrow_status.hpp).
#pragma once

#include "saeta/budget/budget.hpp"

#include <arrow/memory_pool.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace saeta {
class context;
} // namespace saeta

namespace saeta::ipc::detail {

class bounded_pool final : public arrow::MemoryPool {
public:
  struct leave {
    void operator()(bounded_pool* pool) const noexcept { pool->drop(); }
  };
  using pointer = std::unique_ptr<bounded_pool, leave>;

  /// Charges nothing until it is told whom.
  static pointer make() { return pointer(new bounded_pool); }

  /// What allocations are charged to from now on; null: nothing.
  void charge_to(std::shared_ptr<budget> charged) noexcept {
    charged_ = std::move(charged);
    ctx_ = nullptr;
  }
  /// Allocations are host memory for this context from now on.
  void allocate_for(const std::shared_ptr<context>& ctx);

  arrow::Status Allocate(std::int64_t size, std::int64_t alignment, std::uint8_t** out) override;
  arrow::Status Reallocate(std::int64_t old_size, std::int64_t new_size, std::int64_t alignment,
                           std::uint8_t** memory) override;
  void Free(std::uint8_t* memory, std::int64_t size, std::int64_t alignment) override;
  using arrow::MemoryPool::Allocate;
  using arrow::MemoryPool::Free;
  using arrow::MemoryPool::Reallocate;

  [[nodiscard]] std::int64_t bytes_allocated() const override { return live_; }
  [[nodiscard]] std::int64_t total_bytes_allocated() const override { return total_; }
  [[nodiscard]] std::int64_t num_allocations() const override { return allocations_; }
  [[nodiscard]] std::string backend_name() const override { return upstream_->backend_name(); }

private:
  bounded_pool() = default;
  arrow::Status allocate(std::int64_t size, std::int64_t alignment, std::shared_ptr<budget> charged,
                         const std::shared_ptr<context>& ctx, std::uint8_t** out);
  /// Of ordinary memory.
  arrow::Status resize(std::int64_t old_size, std::int64_t new_size, std::int64_t alignment,
                       std::uint8_t** memory);
  void free(std::uint8_t* memory, std::int64_t size, std::int64_t alignment) noexcept;
  ~bounded_pool() override = default;

  void drop() noexcept {
    if (holders_.fetch_sub(1) == 1) {
      delete this;
    }
  }

  arrow::MemoryPool* upstream_ = arrow::default_memory_pool();
  std::shared_ptr<budget> charged_;
  std::shared_ptr<context> ctx_; ///< of the host, whose memory it is; null: ordinary memory
  std::atomic<std::int64_t> live_{0};
  std::atomic<std::int64_t> total_{0};
  std::atomic<std::int64_t> allocations_{0};
  std::atomic<std::int64_t> holders_{1}; ///< the owner, and each allocation
};

} // namespace saeta::ipc::detail
