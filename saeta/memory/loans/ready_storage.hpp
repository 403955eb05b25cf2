// Memory for whoever names no stream that it could be ready on: a graph, or an allocator that hands it on to any stream.
#pragma once

#include "saeta/memory/storage.hpp"

namespace saeta {

/// A storage whose memory any stream may use at once, one that captures a graph too: the host has waited for its earlier users.
/// @throws  as storage::allocate.
[[nodiscard]] std::shared_ptr<storage> allocate_ready(const std::shared_ptr<context>& ctx, std::size_t bytes,
                                                      tag label, std::size_t alignment);

} // namespace saeta
