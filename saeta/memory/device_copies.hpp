// The copies of a device: the only door to data movement, so that the counters miss nothing.
//
// Owner     The contexts of a device share one (`context::copies`).
// Order     Every copy is work of the stream that it is given. The caller holds a use token over the device side.
// Thread    Any.
// Failure   download_forbidden in strict mode, before anything is copied; device.
#pragma once

#include "saeta/device/backend.hpp"
#include "saeta/device/stream.hpp"
#include "saeta/observe/counters.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

namespace saeta {

struct context_core;

class device_copies {
public:
  explicit device_copies(context_core& of) noexcept : core_(of) {}
  device_copies(const device_copies&) = delete;
  device_copies& operator=(const device_copies&) = delete;

  /// The copy between memory of two kinds, as work of this device: on the host all of it is host memory.
  [[nodiscard]] copy_kind kind_between(memory_kind source, memory_kind target) const noexcept;
  /// Queues a copy and counts it as one call of the driver. Several ranges in any order count as one call, too.
  void copy(void* target, const void* source, std::size_t bytes, copy_kind kind, stream_ref stream);
  void copy_all(std::span<const copy_range> ranges, copy_kind kind, stream_ref stream);
  /// Counts one planned movement, which may take several `copy` calls.
  void count_transfer(copy_kind kind) noexcept;
  void fill(void* target, std::uint8_t value, std::size_t bytes, stream_ref stream);

  /// Reads at most 16 bytes of device memory for metadata, ordered after the work of `stream`, and waits for them. Counted
  /// apart from data. @param kind  of the source; nothing: the device's own.
  void read_scalar(void* target, const void* source, std::size_t bytes, stream_ref stream,
                   std::optional<memory_kind> kind = std::nullopt);
  /// Reads as many numbers as metadata needs (offsets, null counts), at once.
  void read_scalars(std::span<std::int64_t> target, const std::int64_t* source, stream_ref stream);
  /// Queues a copy of what describes a kernel's work, counted with the scalars. `source` has been read when it returns.
  void send_description(void* target, std::span<const std::byte> source, stream_ref stream);

  /// Strict mode, until the result is dropped: copying data from the device to the host is an error before anything is
  /// copied, for every thread and every context of the device. Scalars that metadata needs are still read. Does not cover
  /// copies of other libraries; on the host there is nothing to download.
  [[nodiscard]] std::shared_ptr<void> forbid_downloads();
  [[nodiscard]] bool forbids_downloads() const noexcept;
  /// For a caller that will copy to the host later, where it can't report an error. @throws error download_forbidden in
  /// strict mode, unless `bytes` is 0.
  void require_downloads(std::uint64_t bytes) const;

  [[nodiscard]] counters& count() noexcept { return counted_; }
  /// What happened on the device since the last reset, in every context of it.
  [[nodiscard]] counter_values read_counters() const;
  void reset_counters();

private:
  void read_metadata(std::span<std::byte> target, const void* source, copy_kind kind, stream_ref stream);
  [[nodiscard]] traffic_counter& counter_of(copy_kind kind) noexcept;
  /// What the ledger and the clocks count since they were made: allocations, imports, events.
  [[nodiscard]] counter_values counted_elsewhere() const;

  context_core& core_;
  counters counted_;
  mutable std::mutex reset_mutex_;
  counter_values at_reset_; ///< of `counted_elsewhere`
  std::atomic<int> download_bans_{0};
};

} // namespace saeta
