// Windows: the byte ranges of a column's buffers that its rows refer to.
//
// A window starts at a multiple of eight rows, so that bitmaps start at a whole byte and every buffer keeps the same small
// row offset, which Arrow carries.
#pragma once

#include "saeta/column/column.hpp"
#include "saeta/transfer/host_array.hpp"

#include <cstddef>
#include <cstdint>

namespace saeta {

struct row_window {
  std::int64_t first = 0;  ///< row that the window starts with, a multiple of 8
  std::int64_t rows = 0;   ///< rows in the window
  std::int64_t offset = 0; ///< rows to skip at its start, 0 to 7
};

row_window window_of(std::int64_t offset, std::int64_t length);

/// Window for the rows of a column of `type`. A run-end encoded one has no buffers, and its run ends count from row 0: it
/// keeps its offset. Without rows it is empty.
row_window window_of(const data_type& type, std::int64_t offset, std::int64_t length);

/// Rows of child `index` that the rows of a window name, counted without the child's own offset. The children of list
/// views and dense unions count as a whole.
/// @param of  offsets and run ends are in host memory; their first and last are known to be in order and in range.
child_rows rows_of_child(const host_array& of, std::size_t index, const row_window& rows);

struct byte_window {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

/// Window of buffer `index` (not of what offsets and views point to).
byte_window bytes_of(const data_type& type, std::size_t index, const row_window& rows);

/// The null count of `count` rows of an array with `rows` rows and `nulls` nulls, where that says it.
std::int64_t nulls_of_part(std::int64_t nulls, std::int64_t rows, std::int64_t count) noexcept;

/// Reads offset `index` of an offsets buffer in host memory, run end or index `index`: 1, 2, 4 or 8 bytes wide.
std::int64_t read_offset(const std::byte* offsets, std::size_t width, std::int64_t index) noexcept;

} // namespace saeta
