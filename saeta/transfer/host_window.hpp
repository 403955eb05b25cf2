// Windows: the byte ranges of a column's buffers that its rows refer to.
//
// A window starts at its first row exactly, and what moved has offset 0. Offsets are valid Arrow, but some consumers drop that of
// an array below another one: pyarrow that of a map's entries, DuckDB that of a struct in a list, nanoarrow that of a sparse union.
// Bitmaps that begin inside a byte are shifted where they go. Run-end encoded columns alone keep their offset.
#pragma once

#include "saeta/column/column.hpp"
#include "saeta/transfer/host_array.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace saeta {

struct row_window {
  std::int64_t first = 0;  ///< row that the window starts with
  std::int64_t rows = 0;   ///< rows in the window
  std::int64_t offset = 0; ///< rows to skip at its start: 0 for all but run-end encoded columns
};

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

/// Bits before the first row in the first byte of buffer `index`: 0 for what is not a bitmap.
int bit_shift(const data_type& type, std::size_t index, const row_window& rows);

/// Moves the bits of `count` bytes down by 1 to 7, so that they begin in a whole byte.
/// @param another_follows  the byte behind them may be read.
void shift_down(std::byte* bytes, std::size_t count, bool another_follows, int shift) noexcept;

/// The same for `rows` bits of host memory, into bytes of their own; what is behind the last bit is 0.
[[nodiscard]] std::vector<std::uint64_t> shifted_bits(std::span<const std::byte> bits, int shift,
                                                      std::int64_t rows);

/// The null count of `count` rows of an array with `rows` rows and `nulls` nulls, where that says it.
std::int64_t nulls_of_part(std::int64_t nulls, std::int64_t rows, std::int64_t count) noexcept;

/// Reads offset `index` of an offsets buffer in host memory, run end or index `index`: 1, 2, 4 or 8 bytes wide.
std::int64_t read_offset(const std::byte* offsets, std::size_t width, std::int64_t index) noexcept;

} // namespace saeta
