// Memory of one process in another: bytes of an exportable pool by name, and the pool as another process
// imports it.
//
// @code
// // The exporter, whose pool is exportable, sends both to the importer and keeps `bytes`:
// const shared_bytes name = share_bytes(bytes);
// const int descriptor = ctx->device_backend()->export_pool();
// // The importer, in another process; it drops the lease when it has unmapped the memory:
// const std::shared_ptr<imported_pool> pool = imported_pool::open(*ctx, descriptor);
// const auto lease = std::make_shared<int>(0);
// const buffer view = pool->open_bytes(ctx, name, lease, "shared");
// @endcode
//
// What      The exporter names bytes of a buffer (`share_bytes`) and hands out the descriptor of its pool
//           (backend::export_pool). The importer makes an imported_pool from the descriptor and opens named
//           bytes as buffers. An allocation is mapped once, however many buffers show it, because the driver
//           maps it whole.
// Owner     The exporter must keep the bytes, by an export (memory/export_hold.hpp), until every importer has
//           closed them; otherwise its pool would reuse them. The `lease` of an open buffer tells when: it is
//           dropped once the buffer's last work has finished and the memory is unmapped. Then the exporter
//           may free.
// Order     Streams don't reach across processes. `share_bytes` waits for the last writes, so the importer
//           may read at once. Both sides must agree on later writes.
// Fork      A child of the importer neither uses nor frees this memory.
// Thread    Any.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/base/process.hpp"
#include "saeta/device/stream.hpp"
#include "saeta/memory/buffer.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace SAETA_EXPORT saeta {

/// Describes bytes of a buffer for another process.
struct shared_bytes {
  allocation_name name{};             ///< of the driver's allocation that contains the bytes
  std::uint64_t base = 0;             ///< of the allocation; unique among the exporter's live allocations
  std::uint64_t allocation_bytes = 0; ///< size of the allocation
  std::uint64_t offset = 0;           ///< of the bytes in the allocation
  std::uint64_t bytes = 0;
};

/// Returns bytes that other processes can open: the same, if their context has an exportable pool, else a copy
/// of them in memory of such a pool, made on the context's work stream and charged to the same budget.
/// @throws error as storage::allocate_shareable.
[[nodiscard]] buffer shareable(const buffer& bytes, tag label);

/// Waits on the host for the last writes of the buffer, those of consumers on unknown streams included.
/// @throws error unsupported (not memory of an exportable pool: names the option), invalid_argument (no
/// bytes), busy (as synchronize_handover), device.
[[nodiscard]] shared_bytes share_bytes(const buffer& of);

class imported_pool : public std::enable_shared_from_this<imported_pool> {
  struct key {};

public:
  imported_pool(key own, std::shared_ptr<backend> device, int descriptor);
  /// @param descriptor  of a pool of the same device; the caller keeps it. @throws error unsupported, device.
  [[nodiscard]] static std::shared_ptr<imported_pool> open(const context& ctx, int descriptor);
  imported_pool(const imported_pool&) = delete;
  imported_pool& operator=(const imported_pool&) = delete;
  ~imported_pool();

  /// Opens the bytes as a writable external buffer. @param ctx  a context of the pool's device object.
  /// @param lease  dropped as described above.
  /// @throws error format (the numbers contradict each other), invalid_argument (another device object),
  /// closed, device.
  [[nodiscard]] buffer open_bytes(const std::shared_ptr<context>& ctx, const shared_bytes& which,
                                  std::shared_ptr<void> lease, std::string tag);

private:
  class opened_bytes;
  struct mapping {
    void* pointer = nullptr;
    std::size_t users = 0;
  };
  void* map(const shared_bytes& which);
  void unmap(std::uint64_t base) noexcept;
  void wait_for_close() noexcept;
  [[nodiscard]] bool inherited() const noexcept { return made_in_ != fork_generation(); }

  std::shared_ptr<backend> device_;
  pool_handle pool_;
  stream work_; ///< only closes mappings
  std::mutex mutex_;
  std::map<std::uint64_t, mapping> mapped_; ///< by shared_bytes::base
  const std::uint64_t made_in_ = fork_generation();
};

} // namespace saeta
