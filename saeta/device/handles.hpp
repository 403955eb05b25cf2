// Handles of a backend, as distinct types: a stream can't be passed for an event.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace saeta {

/// A backend's stream. On CUDA the driver's handle; 1 is the legacy and 2 the per-thread default stream, as in DLPack.
enum class stream_handle : std::uintptr_t {};

/// A backend's event.
enum class event_handle : std::uintptr_t {};

/// A memory pool of another process that a backend has imported.
enum class pool_handle : std::uintptr_t {};

/// Names an allocation of an exportable pool to whoever has imported the pool (CUDA: cudaMemPoolPtrExportData).
using allocation_name = std::array<std::byte, 64>;

inline constexpr stream_handle legacy_stream{1};
inline constexpr stream_handle per_thread_stream{2};

/// Which stream, for all time and unique in the process across devices and backends.
struct stream_identity {
  std::uint64_t backend = 0; ///< serial number of the backend object
  std::uint64_t stream = 0;  ///< id of the stream there

  friend bool operator==(const stream_identity&, const stream_identity&) = default;
};

/// Ids of streams while they capture a graph begin here; all others are smaller.
inline constexpr std::uint64_t first_capture_id = std::uint64_t{1} << 63;

/// An id for one look at a capturing stream: nothing has it already.
inline std::uint64_t new_capture_id() noexcept {
  static std::atomic<std::uint64_t> next{first_capture_id};
  return next.fetch_add(1, std::memory_order_relaxed);
}

} // namespace saeta
