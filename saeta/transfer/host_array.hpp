// Host arrays: Arrow data in ordinary memory, before an upload or after a download.
//
// What      Has the shape of a column, with byte ranges instead of buffers (transfer/upload.hpp,
//           transfer/download.hpp).
// Owner     `keepalive` keeps the ranges alive. Adopted columns share it.
// Failure   The maker of the array validates it (interop/, ipc/): offsets lie inside their bytes.

#pragma once

#include "saeta/base/export.hpp"
#include "saeta/base/short_list.hpp"
#include "saeta/column/column.hpp"
#include "saeta/column/table.hpp"
#include "saeta/staging/transfer_plan.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace SAETA_EXPORT saeta {

class symbol_mapping; // symbols/symbols.hpp

struct host_array {
  data_type type;
  std::int64_t length = 0;
  std::int64_t offset = 0;
  std::int64_t null_count = column::unknown_nulls;
  /// As `column::parts::buffers`. A null data pointer is an absent buffer.
  short_list<std::span<const std::byte>, 3> buffers{};
  std::shared_ptr<const host_array> dictionary{};
  std::vector<host_array> children{}; ///< as `column::parts::children`
};

struct host_batch {
  std::int64_t rows = 0;
  std::vector<host_array> arrays;
  std::shared_ptr<void> keepalive;
  /// Memory that can be read as a whole, with most of the ranges: they are adopted as one. May be empty.
  std::span<const std::byte> memory{};
};

/// Dictionaries of one source that are already in the context or are mapped to symbols, by the addresses of
/// their byte ranges. The cache keeps each source alive, so that no other dictionary can appear at the same
/// addresses.
///
/// @code
/// dictionary_cache known;
/// for (const host_batch& rows : download(ctx, orders.batches())) {
///   const batch uploaded =
///       upload(ctx, rows, known, {}); // a dictionary that several batches share goes once
/// }
/// @endcode
class dictionary_cache {
public:
  [[nodiscard]] std::shared_ptr<const column> find(const host_array& dictionary) const;
  void remember(const host_array& dictionary, std::shared_ptr<const column> uploaded,
                std::shared_ptr<void> source);
  [[nodiscard]] std::shared_ptr<const symbol_mapping> find_symbols(const host_array& dictionary) const;
  void remember(const host_array& dictionary, std::shared_ptr<const symbol_mapping> symbols,
                std::shared_ptr<void> source);
  /// True if both describe the same memory.
  static bool is_same(const host_array& a, const host_array& b) {
    return key_of(a) == key_of(b) && a.type == b.type;
  }

private:
  /// Addresses of the buffers, and offsets and lengths, of the array with its children and dictionary.
  using key = std::pair<std::vector<const std::byte*>, std::vector<std::int64_t>>;
  static key key_of(const host_array& dictionary);
  static void append_key(const host_array& of, key& key);
  struct entry {
    std::shared_ptr<const column> uploaded;
    std::shared_ptr<const symbol_mapping> symbols;
    std::shared_ptr<void> source;
  };
  /// The same values have an entry for each type that they were declared with.
  std::multimap<key, entry> known_;
  /// Separate, because one column of a dictionary may be symbols and another not.
  std::map<key, entry> known_symbols_;
};

// Windows: the byte ranges of a column's buffers that its rows refer to.
//
// A window starts exactly at its first row, and a moved array has offset 0. Offsets are valid Arrow, but some
// consumers drop the offset of a nested array: pyarrow for a map's entries, DuckDB for a struct in a list,
// nanoarrow for a sparse union. Bitmaps that begin inside a byte are shifted at their target. Only run-end
// encoded columns keep their offset.
struct row_window {
  std::int64_t first = 0;  ///< row that the window starts with
  std::int64_t rows = 0;   ///< rows in the window
  std::int64_t offset = 0; ///< rows to skip at its start: 0 except for run-end encoded columns
};

/// Window for the rows of a column of `type`. A run-end encoded column has no buffers and its run ends count
/// from row 0, so it keeps its offset. Without rows the window is empty.
[[nodiscard]] row_window window_of(const data_type& type, std::int64_t offset, std::int64_t length);

/// The child rows or bytes that the offsets or run ends of a window refer to; empty for other types.
/// @param of  its offsets and run ends are in host memory; the first and last are known to be in order and in
///            range
[[nodiscard]] child_rows rows_pointed_to(const host_array& of, const row_window& rows);

/// Window of buffer `index`, not for bytes that offsets and views point to.
[[nodiscard]] byte_window bytes_of(const data_type& type, std::size_t index, const row_window& rows);
/// The same for every buffer. Views may use any of the bytes behind them.
/// @param pointed  the bytes that the offsets of the rows lead to
/// @param whole    bytes in the buffer
[[nodiscard]] byte_window bytes_of(const data_type& type, std::size_t index, const row_window& rows,
                                   const child_rows& pointed, std::size_t whole);

/// Bits before the first row in the first byte of buffer `index`. 0 if it is not a bitmap.
int bit_shift(const data_type& type, std::size_t index, const row_window& rows);

/// Moves the bits of `count` bytes down by 1 to 7, so that they begin at a whole byte.
/// @param another_follows  the byte after them may be read
void shift_down(std::byte* bytes, std::size_t count, bool another_follows, int shift) noexcept;

/// Copies `rows` bits of host memory into new bytes in the same way. The bits after the last row are 0.
[[nodiscard]] std::vector<std::uint64_t> shifted_bits(std::span<const std::byte> bits, int shift,
                                                      std::int64_t rows);

/// The null count of `count` rows of an array with `rows` rows and `nulls` nulls, or `column::unknown_nulls`
/// if these numbers do not determine it.
std::int64_t nulls_of_part(std::int64_t nulls, std::int64_t rows, std::int64_t count) noexcept;

/// Reads an offset, run end or index from host memory: 1, 2, 4 or 8 bytes wide.
std::int64_t read_offset(const std::byte* offsets, std::size_t width, std::int64_t index) noexcept;

/// A bit of a bitmap in host memory.
bool bit_at(std::span<const std::byte> bits, std::int64_t position) noexcept;

/// The bytes of a value in host memory: of a fixed width, or those that its offsets or its view lead to,
/// which are known to be in range. @param row  counted from the beginning of the buffers
[[nodiscard]] std::span<const std::byte> bytes_of_value(const host_array& of, std::int64_t row);

} // namespace saeta
