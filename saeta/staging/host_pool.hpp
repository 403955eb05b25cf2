// A pool of host memory for downloads. It reuses pages that are already mapped.
//
// @code
// const std::shared_ptr<host_pool> pool = host_pool_of(ctx);
// {
//   const landing_block landing = landing_memory(ctx, 1 << 20); // charged as "download"
//   std::memset(landing.memory.get(), 0, 1 << 20);
// } // the pool keeps the pages for the next download
// const std::size_t returned = pool->trim();
// @endcode
//
// What      Fresh memory costs a page fault for each page, many times the cost of a copy into it. A returned
//           block is kept for the next request of its size class, and the latest one is reused first. Kept
//           blocks beyond `most_kept` go back to the system, oldest first. All kept blocks go back if a new
//           one would exceed the budget's limit. Large blocks ask for huge pages. The staging ring's threads
//           fault fresh blocks in, each its own pages.
// Owner     A block keeps its pool and its charge, so it may outlive every context.
// Budget    Blocks in use are charged with the requested bytes (`context::charge_host`). Kept blocks are not
//           charged, as in every cache. They make room for blocks in use.
// Thread    Any. Memory goes back to the system while no lock is held. Returning a block allocates no memory.
// Fork      A forked child reads the blocks of its parent. It returns none and takes none.
// Failure   `take` throws error out_of_memory, or device in a forked child.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/base/process.hpp"
#include "saeta/base/required.hpp"
#include "saeta/budget/budget.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>

namespace SAETA_EXPORT saeta {

/// A block of the pool. It returns to the pool when the last copy of the pointer is dropped.
struct landing_block {
  std::shared_ptr<std::byte> memory;
  bool fresh = false; ///< untouched since the system gave it: each page costs a fault
};

class host_pool : public std::enable_shared_from_this<host_pool> {
public:
  /// @param limit  budget of the host; kept blocks are released before the pool exceeds its limit
  host_pool(std::shared_ptr<budget> limit, std::uint64_t most_kept)
      : limit_(required(std::move(limit), "limit")), most_kept_(most_kept) {}
  host_pool(const host_pool&) = delete;
  host_pool& operator=(const host_pool&) = delete;
  ~host_pool();

  /// Returns at least `bytes` of uninitialized memory, aligned to `host_alignment`.
  /// @param charge  for the bytes; dropped with the block
  [[nodiscard]] landing_block take(std::size_t bytes, std::shared_ptr<void> charge);
  /// Gives the kept blocks back to the system. Returns the number of bytes.
  std::size_t trim() noexcept;
  /// Bytes taken from the system: in use, kept, or lost to rounding.
  [[nodiscard]] std::uint64_t held_bytes() const noexcept { return held_; }
  [[nodiscard]] std::uint64_t kept_bytes() const noexcept { return kept_bytes_; }

private:
  struct block {
    void* memory;
    std::size_t bytes; ///< of its size class
  };
  using blocks = std::list<block>; ///< a list moves blocks without copying them
  /// Takes a kept block of that size class. Empty if there is none.
  [[nodiscard]] blocks find(std::size_t bytes);
  [[nodiscard]] blocks map_new(std::size_t bytes);
  /// @param returned  exactly one block
  void give_back(blocks& returned) noexcept;
  static std::size_t unmap(const blocks& gone) noexcept;
  /// Removes the oldest kept blocks until at most `most` bytes are kept. The caller holds the lock.
  [[nodiscard]] blocks take_oldest(std::uint64_t most) noexcept;

  std::shared_ptr<budget> limit_;
  std::uint64_t most_kept_;
  std::uint64_t made_in_ = fork_generation();
  std::mutex mutex_;
  blocks kept_;                              ///< latest first
  std::atomic<std::uint64_t> kept_bytes_{0}; ///< changed under the lock
  std::atomic<std::uint64_t> held_{0};
};

class context;

/// The pool of a context's device. It keeps at most `context_options::host_cache` bytes.
[[nodiscard]] std::shared_ptr<host_pool> host_pool_of(const std::shared_ptr<context>& ctx);
/// Takes a block from this pool, charged and listed in the ledger as "download".
[[nodiscard]] landing_block landing_memory(const std::shared_ptr<context>& ctx, std::size_t bytes);

} // namespace saeta
