// A copy to memory that is not read soon.
//
// What      Uses stores that bypass the processor's caches, if it has them. A plain copy reads each line of
//           its target before it writes it, and evicts other data from the caches. On other processors this
//           is a plain copy.
// Order     As after memcpy: a thread that synchronizes with the copying thread sees the bytes.
// Thread    Any.
#pragma once

#include <cstddef>

namespace saeta {

/// Like memcpy. Source and target must not overlap.
void streaming_copy(std::byte* target, const std::byte* source, std::size_t bytes) noexcept;

} // namespace saeta
