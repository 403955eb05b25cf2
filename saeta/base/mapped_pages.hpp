// Whether bytes of host memory can be read. Pages of a mapped file are missing once the file was truncated,
// and touching one ends the process.
#pragma once

#include <cstddef>
#include <span>

namespace saeta {

inline constexpr std::size_t least_page = 4096; ///< larger pages only cost more calls

/// False if a page is missing. It reads the pages in, so ask only for what is read next. A file that is
/// truncated between this call and the read still ends the process.
[[nodiscard]] bool has_pages(std::span<const std::byte> bytes) noexcept;

} // namespace saeta
