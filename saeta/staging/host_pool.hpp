// Host memory that stays warm: where downloads land.
//
// What      Fresh memory costs a page fault for each page, many times what a copy into it costs. So a block that comes back is kept
//           for the next request of its size class, the latest one first. What is kept beyond `most_kept`, or beyond what
//           the limit of the budget leaves, goes back to the system, the oldest first. Large blocks ask for huge pages.
//           Fresh blocks are faulted in by whoever lands bytes in them: the staging ring's threads, each its own pages.
// Owner     A block keeps its pool and its charge: it may outlive every context.
// Budget    Blocks in use are charged with the bytes that were asked for (`context::charge_host`). What is kept for the next
//           request is not charged, as in every cache, and makes room for what is.
// Thread    Any. Memory goes back to the system without a lock held. Giving back asks for no memory.
// Fork      A child reads the blocks of its parent, gives none back and takes none.
// Failure   `take`: error out_of_memory, and device in a child of fork.
#pragma once

#include "saeta/base/process.hpp"
#include "saeta/budget/budget.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>

namespace saeta {

/// A block of the pool; it goes back when the last copy of the pointer is dropped.
struct landing_block {
  std::shared_ptr<std::byte> memory;
  bool fresh = false; ///< nobody has touched it since the system gave it: each page costs a fault
};

class host_pool : public std::enable_shared_from_this<host_pool> {
public:
  /// @param limit  of the host: the pool holds no more.
  host_pool(std::shared_ptr<budget> limit, std::uint64_t most_kept)
      : limit_(std::move(limit)), most_kept_(most_kept) {}
  host_pool(const host_pool&) = delete;
  host_pool& operator=(const host_pool&) = delete;
  ~host_pool();

  /// At least `bytes`, with undefined contents, aligned to `host_alignment`.
  /// @param charge  of the bytes, dropped with the block.
  [[nodiscard]] landing_block take(std::size_t bytes, std::shared_ptr<void> charge);
  /// Gives what is kept back to the system; bytes.
  std::size_t trim() noexcept;
  /// Bytes taken from the system: in use, kept, or lost to rounding.
  [[nodiscard]] std::uint64_t held_bytes() const noexcept { return held_; }
  [[nodiscard]] std::uint64_t kept_bytes() const noexcept { return kept_bytes_; }

private:
  struct block {
    void* memory;
    std::size_t bytes; ///< of its class
  };
  using blocks = std::list<block>; ///< whose elements move between lists without being copied
  /// One block that was kept; none where none of that size is.
  [[nodiscard]] blocks find(std::size_t bytes);
  [[nodiscard]] blocks map_new(std::size_t bytes);
  /// @param returned  one block.
  void give_back(blocks& returned) noexcept;
  static std::size_t unmap(const blocks& gone) noexcept;
  /// Takes the oldest kept blocks out until at most `most` bytes are kept. With the lock.
  [[nodiscard]] blocks take_oldest(std::uint64_t most) noexcept;

  std::shared_ptr<budget> limit_;
  std::uint64_t most_kept_;
  std::uint64_t made_in_ = fork_generation();
  std::mutex mutex_;
  blocks kept_;                              ///< the latest first
  std::atomic<std::uint64_t> kept_bytes_{0}; ///< changed with the lock, as `held_` is
  std::atomic<std::uint64_t> held_{0};
};

class context;

/// The pool of a context's device, which keeps as much as `staging_options::host_cache` says.
[[nodiscard]] std::shared_ptr<host_pool> host_pool_of(const std::shared_ptr<context>& ctx);
/// A block of it, charged and in the ledger as "download".
[[nodiscard]] landing_block landing_memory(const std::shared_ptr<context>& ctx, std::size_t bytes);

} // namespace saeta
