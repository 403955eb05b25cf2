// The copies of a device. All data movement goes through it, so that the counters are complete.
//
// @code
// device_copies& copies = ctx->copies();
// {
//   use_token token(stream, {writes(bytes)});
//   copies.fill(token.span<std::byte>(bytes).data(), 0, bytes.size(), stream); // queued on `stream`
//   token.finish();
// }
// const std::shared_ptr<void> strict = copies.forbid_downloads(); // until it is dropped
// @endcode
//
// Owner     The contexts of a device share one (`context::copies`).
// Order     Every copy runs on the given stream. The caller holds a use token over the device side.
// Thread    Any.
// Failure   download_forbidden in strict mode, before anything is copied; device.
#pragma once

#include "saeta/base/export.hpp"
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

namespace SAETA_EXPORT saeta {

struct context_core;

class device_copies {
public:
  explicit device_copies(context_core& of) noexcept : core_(of) {}
  device_copies(const device_copies&) = delete;
  device_copies& operator=(const device_copies&) = delete;

  /// The kind of a copy between memory of two kinds. On the host backend all memory is host memory.
  [[nodiscard]] copy_kind kind_between(memory_kind source, memory_kind target) const noexcept;
  /// Queues a copy and counts it as one driver call. Several ranges, in any order, count as one call, too.
  void copy(void* target, const void* source, std::size_t bytes, copy_kind kind, stream_ref stream);
  void copy_all(std::span<const copy_range> ranges, copy_kind kind, stream_ref stream);
  /// Queues a copy of memory of another device to this one, on a stream of this device.
  /// @param source_kind  of the source on its device
  void copy_from_peer(void* target, const void* source, std::size_t bytes, memory_kind source_kind,
                      stream_ref stream);
  /// Counts one planned movement, which may take several `copy` calls.
  void count_transfer(copy_kind kind) noexcept;
  void fill(void* target, std::uint8_t value, std::size_t bytes, stream_ref stream);

  /// Reads at most 16 bytes of device memory for metadata, after the work of `stream`, and waits for them.
  /// Counted apart from data.
  /// @param kind  of the source; nullopt: the device's own.
  void read_scalar(void* target, const void* source, std::size_t bytes, stream_ref stream,
                   std::optional<memory_kind> kind = std::nullopt);
  /// Reads any number of metadata values (offsets, null counts) in one copy.
  void read_scalars(std::span<std::int64_t> target, const std::int64_t* source, stream_ref stream);
  /// Queues a copy of kernel arguments, counted with the scalars. `source` may be freed after the call.
  void send_description(void* target, std::span<const std::byte> source, stream_ref stream);

  /// Enables strict mode until the result is dropped: copying data from the device to the host throws before
  /// anything is copied, for every thread and every context of the device. Scalars for metadata are still
  /// read. Copies of other libraries are not covered. On the host there is nothing to download.
  [[nodiscard]] std::shared_ptr<void> forbid_downloads();
  [[nodiscard]] bool forbids_downloads() const noexcept;
  /// For a caller that will copy to the host later, where it can't report an error.
  /// @throws error download_forbidden in strict mode, unless `bytes` is 0.
  void require_downloads(std::uint64_t bytes) const;

  [[nodiscard]] counters& count() noexcept { return counted_; }
  /// The counts of the device since the last reset, over all its contexts.
  [[nodiscard]] counter_values read_counters() const;
  void reset_counters();

private:
  void read_metadata(std::span<std::byte> target, const void* source, copy_kind kind, stream_ref stream);
  [[nodiscard]] traffic_counter& counter_of(copy_kind kind) noexcept;
  /// Allocations, imports and events: the ledger and the clocks count them from their start.
  [[nodiscard]] counter_values read_other_counters() const;

  context_core& core_;
  counters counted_;
  mutable std::mutex reset_mutex_;
  counter_values at_reset_; ///< `read_other_counters` at the last reset
  std::atomic<int> download_bans_{0};
};

} // namespace saeta
