// Memory for callers that can't name its stream: a graph, or an allocator that serves any stream.
#pragma once

#include "saeta/memory/storage.hpp"

namespace saeta {

/// Allocates a storage that any stream may use at once, even one that captures a graph: the host waits for
/// its earlier users.
/// @throws error as storage::allocate.
[[nodiscard]] std::shared_ptr<storage> allocate_ready(const std::shared_ptr<context>& ctx, std::size_t bytes,
                                                      tag label, std::size_t alignment);

} // namespace saeta
