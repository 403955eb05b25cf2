// Handles of a backend, as distinct types: a stream can't be passed as an event.
#pragma once

#include "saeta/base/export.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace SAETA_EXPORT saeta {

/// A stream of a backend. On CUDA, the driver's handle: 1 is the legacy, 2 the per-thread default stream, as
/// in DLPack.
enum class stream_handle : std::uintptr_t {};

/// An event of a backend.
enum class event_handle : std::uintptr_t {};

/// A memory pool of another process that a backend has imported.
enum class pool_handle : std::uintptr_t {};

/// Names an allocation for a process that imported the exportable pool of its device (CUDA:
/// cudaMemPoolPtrExportData or cudaIpcMemHandle_t of 64 bytes, and which of them it is).
using allocation_name = std::array<std::byte, 72>;

inline constexpr stream_handle legacy_stream{1};
inline constexpr stream_handle per_thread_stream{2};

/// Identifies a stream: unique in the process across devices and backends, never reused.
struct stream_identity {
  std::uint64_t backend = 0; ///< serial number of the backend object
  std::uint64_t stream = 0;  ///< id of the stream there

  friend bool operator==(const stream_identity&, const stream_identity&) = default;
};

/// Ids of capturing streams start here; all others are smaller.
inline constexpr std::uint64_t first_capture_id = std::uint64_t{1} << 63;

/// Returns a new id for one lookup of a capturing stream.
std::uint64_t new_capture_id() noexcept;

} // namespace saeta
