// Counters of a context: what was moved, allocated and waited for since the last reset.
//
// @code
// ctx->copies().reset_counters();
// launch(stream, bytes.address());
// const counter_values moved = ctx->copies().read_counters();
// std::cout << moved.host_to_device.bytes << " bytes in " << moved.host_to_device.transfers << " uploads\n";
// traffic_counter& uploads = ctx->copies().count().host_to_device; // what a movement of ours adds to
// @endcode
//
// A `transfer` is one planned movement (a batch, a scalar); it may take several driver `calls`.
// Bytes that pass through pinned chunks count once. Waiting until a chunk is free again is not counted.
// Exact: copies go through `context::copies`, and waits of the host for data are counted where they happen.
// Allocations, imports and events are counted elsewhere, without a counter that all threads write;
// `device_copies::read_counters` combines both.
#pragma once

#include "saeta/base/export.hpp"

#include <atomic>
#include <cstdint>

namespace SAETA_EXPORT saeta {

struct traffic {
  std::uint64_t transfers = 0; ///< planned movements
  std::uint64_t calls = 0;     ///< copies given to the driver
  std::uint64_t bytes = 0;

  friend bool operator==(const traffic&, const traffic&) = default;
};

struct counter_values {
  traffic host_to_device;
  traffic device_to_host;
  traffic device_to_device;
  traffic host_to_host;
  traffic peer_to_device; ///< from another device, without the host
  traffic scalars;        ///< numbers that metadata needs (null counts, offsets), and kernel arguments
  std::uint64_t allocations = 0;
  std::uint64_t imports = 0;          ///< external buffers imported without a copy
  std::uint64_t exports = 0;          ///< views exported without a copy
  std::uint64_t synchronizations = 0; ///< times the host waited for the device
  std::uint64_t staged = 0;           ///< tables that came from another device through the host
  std::uint64_t events = 0;           ///< recorded to order streams, by all contexts of the device

  friend bool operator==(const counter_values&, const counter_values&) = default;
};

class traffic_counter {
public:
  void add_transfer() noexcept { transfers_.fetch_add(1, std::memory_order_relaxed); }
  void add_call(std::uint64_t bytes) noexcept {
    calls_.fetch_add(1, std::memory_order_relaxed);
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  [[nodiscard]] traffic read() const noexcept {
    return {transfers_.load(std::memory_order_relaxed), calls_.load(std::memory_order_relaxed),
            bytes_.load(std::memory_order_relaxed)};
  }
  void reset() noexcept {
    transfers_ = 0;
    calls_ = 0;
    bytes_ = 0;
  }

private:
  std::atomic<std::uint64_t> transfers_{0};
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<std::uint64_t> bytes_{0};
};

struct counters {
  traffic_counter host_to_device;
  traffic_counter device_to_host;
  traffic_counter device_to_device;
  traffic_counter host_to_host;
  traffic_counter peer_to_device;
  traffic_counter scalars;
  std::atomic<std::uint64_t> exports{0};
  std::atomic<std::uint64_t> synchronizations{0};
  std::atomic<std::uint64_t> staged{0};

  /// Leaves allocations, imports and events at 0.
  [[nodiscard]] counter_values read() const noexcept;
  void reset() noexcept;
};

} // namespace saeta
