// A copy to memory that nobody reads soon.
//
// What      Stores that pass the processor's caches, where it has them: a plain copy reads each line of its target before it writes
//           it, and puts what lies in the caches out of them. Elsewhere it is a plain copy.
// Order     As after memcpy: who synchronizes with the copying thread sees the bytes.
// Thread    Any.
#pragma once

#include <cstddef>

namespace saeta {

/// As memcpy; the two don't overlap.
void streaming_copy(std::byte* target, const std::byte* source, std::size_t bytes) noexcept;

} // namespace saeta
