// Large blocks of host memory in huge pages.
//
// What      Fresh memory costs a page fault for each page, and malloc gives large blocks back to the system when they are freed: the
//           next block of that size is fresh again. A huge page costs one fault for what 512 small pages hold. Where the system
//           has no huge pages, these blocks are ordinary memory.
// Owner     Whoever maps a block unmaps it.
// Thread    Any.
// Failure   `map_pages` returns null.
#pragma once

#include <cstddef>

namespace saeta {

/// A fault brings so many bytes of a large block at once, where the system has huge pages.
inline constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

/// Zeros. A block of at least one huge page begins at a multiple of its size. Null where the system has no memory.
/// @param bytes  a multiple of 4096.
[[nodiscard]] void* map_pages(std::size_t bytes) noexcept;
/// @param bytes  as they were mapped.
void unmap_pages(void* memory, std::size_t bytes) noexcept;

} // namespace saeta
