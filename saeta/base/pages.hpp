// Large blocks of host memory in huge pages.
//
// What      Fresh memory costs one page fault per page. malloc returns large blocks to the system when they
//           are freed, so the next block of that size is fresh again. A huge page costs one fault in place of
//           512. On a system without huge pages these blocks are ordinary memory.
// Owner     The caller that maps a block unmaps it.
// Thread    Any.
// Failure   `map_pages` returns null.

#pragma once

#include "saeta/base/export.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

#include <unistd.h>

namespace SAETA_EXPORT saeta {

/// Bytes of a page of the system: 4 KiB on most, 64 KiB on many of 64-bit Arm.
[[nodiscard]] std::size_t page_bytes() noexcept;

/// One page fault maps this many bytes of a large block, if the system has huge pages: 2 MiB with pages of 4
/// KiB. Systems with larger pages have huge pages of up to 512 MiB, which no block here fills.
inline constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

/// Returns zeroed memory, or null if the system has none left. A block of at least one huge page starts at a
/// multiple of the huge page size.
/// @param bytes  a multiple of `page_bytes()`.
[[nodiscard]] void* map_pages(std::size_t bytes) noexcept;
/// @param bytes  the size that was mapped.
void unmap_pages(void* memory, std::size_t bytes) noexcept;

/// Whether bytes of host memory can be read. Pages of a mapped file are missing once the file was truncated,
/// and touching one ends the process.
///
/// False if a page is missing. It reads the pages in, so ask only for what is read next. A file that is
/// truncated between this call and the read still ends the process.
[[nodiscard]] bool has_pages(std::span<const std::byte> bytes) noexcept;

// The machine that the process runs on.

/// Bytes of its main memory.
inline std::uint64_t machine_bytes() noexcept {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(page_bytes());
}

} // namespace saeta
