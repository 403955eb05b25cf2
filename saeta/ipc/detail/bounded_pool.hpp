// Memory that libarrow may take while it decodes one source, with an upper bound.
//
// What      Compressed bodies say how large they are when decoded, and a hostile file says anything. A request beyond the
//           bound is refused before memory is asked for.
// Owner     Columns may view decoded memory long after the reader is gone, and libarrow frees with a plain pointer to the
//           pool. So the pool lives until its owner has left it and its last byte is back.
// Thread    Any: libarrow decompresses on several.
// Failure   arrow::Status OutOfMemory.
#pragma once

#include <arrow/memory_pool.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace saeta::ipc::detail {

/// The larger of 1 GiB and 1024 times the source: LZ4 stays below 255 times, ZSTD goes beyond 1024 on columns that are
/// nearly constant.
std::int64_t default_decode_limit(std::size_t source_bytes) noexcept;

class bounded_pool final : public arrow::MemoryPool {
public:
  struct leave {
    void operator()(bounded_pool* pool) const noexcept { pool->drop(); }
  };
  using pointer = std::unique_ptr<bounded_pool, leave>;

  static pointer make(std::int64_t limit) { return pointer(new bounded_pool(limit)); }

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

  [[nodiscard]] std::int64_t limit() const noexcept { return limit_; }
  /// True once the system itself had no memory for a request within the bound.
  [[nodiscard]] bool exhausted() const noexcept { return exhausted_; }

private:
  explicit bounded_pool(std::int64_t limit) : limit_(limit) {}
  ~bounded_pool() override = default;

  [[nodiscard]] arrow::Status charge(std::int64_t bytes);
  void drop() noexcept {
    if (holders_.fetch_sub(1) == 1) {
      delete this;
    }
  }

  arrow::MemoryPool* upstream_ = arrow::default_memory_pool();
  std::int64_t limit_;
  std::atomic<std::int64_t> live_{0};
  std::atomic<std::int64_t> total_{0};
  std::atomic<std::int64_t> allocations_{0};
  std::atomic<bool> exhausted_{false};
  std::atomic<std::int64_t> holders_{1}; ///< the owner, and each allocation
};

/// As `check` of arrow_status.hpp, for what was decoded with `pool`: without memory because of the bound, or of a size
/// that no memory has, is format. @param source_bytes  for the message.
void check_decoded(const arrow::Status& status, const bounded_pool& pool, std::size_t source_bytes,
                   std::string_view where);

} // namespace saeta::ipc::detail
