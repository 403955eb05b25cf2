// Windows: the byte ranges of a column's buffers that its rows refer to.
//
// A window starts at a multiple of eight rows, so that bitmaps start at a whole byte and every buffer keeps the same small
// row offset, which Arrow carries.
#pragma once

#include "saeta/column/column.hpp"

#include <cstddef>
#include <cstdint>

namespace saeta {

struct row_window {
  std::int64_t first = 0;  ///< row that the window starts with, a multiple of 8
  std::int64_t rows = 0;   ///< rows in the window
  std::int64_t offset = 0; ///< rows to skip at its start, 0 to 7
};

row_window window_of(std::int64_t offset, std::int64_t length);

struct byte_window {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

/// Window of buffer `index` (validity, values, bits or offsets; not the bytes of an offset layout).
byte_window bytes_of(const data_type& type, std::size_t index, const row_window& rows);

/// Width of one offset: 4 or 8 bytes; 0 for other layouts.
std::size_t offset_width(const data_type& type) noexcept;

/// Reads offset `index` of an offsets buffer in host memory.
std::int64_t read_offset(const std::byte* offsets, std::size_t width, std::int64_t index) noexcept;

} // namespace saeta
