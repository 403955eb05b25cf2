// Handles of a backend, as distinct types: a stream can't be passed for an event.
#pragma once

#include <cstdint>

namespace saeta {

/// A backend's stream. On CUDA the driver's handle; 1 is the legacy and 2 the per-thread default stream, as in DLPack.
enum class stream_handle : std::uintptr_t {};

/// A backend's event.
enum class event_handle : std::uintptr_t {};

inline constexpr stream_handle legacy_stream{1};
inline constexpr stream_handle per_thread_stream{2};

} // namespace saeta
