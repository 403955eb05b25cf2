// Host memory that libarrow allocates while it reads one source, charged to a budget while it lives.
//
// What      Bytes are charged before memory is allocated, so the budget bounds the decoded size of a source.
//           Decoded values and bodies that columns view are charged until the last column releases them. For
//           a host context they are memory of the context and appear in its ledger. For a device they are
//           ordinary memory, charged to the budget of page-locked memory.
// Owner     Columns may view decoded memory long after the reader is gone, and libarrow frees with a plain
//           pointer to the pool. So the pool lives until its owner has dropped it and all memory is freed.
//           Each allocation keeps its budget.
// Thread    Any: libarrow decompresses on several threads. Call `charge_to` and `allocate_for` while no
//           thread allocates.
// Failure   arrow::Status OutOfMemory. If a budget refused, the status carries the refusal
//           (arrow_status.hpp).
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

namespace saeta::bridge {

class bounded_pool final : public arrow::MemoryPool {
public:
  struct leave {
    void operator()(bounded_pool* pool) const noexcept { pool->drop(); }
  };
  using pointer = std::unique_ptr<bounded_pool, leave>;

  /// Makes a pool that charges no budget until `charge_to` or `allocate_for` is called.
  static pointer make() { return pointer(new bounded_pool); }

  /// Charges later allocations of ordinary memory to a budget; null: to none.
  void charge_to(std::shared_ptr<budget> charged) noexcept {
    charged_ = std::move(charged);
    ctx_ = nullptr;
  }
  /// Makes later allocations host memory for this context: memory of a host context, or ordinary memory
  /// charged to the page-locked budget of a device context.
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
  /// Resizes ordinary memory.
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
  std::shared_ptr<context> ctx_; ///< the host context that provides the memory; null: ordinary memory
  std::atomic<std::int64_t> live_{0};
  std::atomic<std::int64_t> total_{0};
  std::atomic<std::int64_t> allocations_{0};
  std::atomic<std::int64_t> holders_{1}; ///< counts the owner and each allocation
};

} // namespace saeta::bridge
