// Reads of arrays in host memory that somebody may have rewritten since they were checked, as a mapped file can be.
//
// Thread    One reader a call: what it knows of pages is of that moment.
// Failure   error format with the numbers, where a read would leave its buffer or its child, or a mapped file has become shorter.
//           A file that is cut in the moment between the check of a page and its read still ends the process.
#pragma once

#include "saeta/transfer/host_array.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace saeta::py {

/// Rows of a child.
struct child_range {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// The child of a union that holds a row, and the row in it.
struct union_place {
  std::size_t child = 0;
  std::int64_t row = 0;
};

/// `row` counts from the beginning of the buffers, an index from the offset of the array.
class array_reader {
public:
  /// Bytes [first, first + count) of a buffer.
  std::span<const std::byte> bytes(const host_array& of, std::size_t buffer, std::int64_t first,
                                   std::int64_t count);
  /// Of a buffer of integers.
  std::int64_t integer(const host_array& of, std::size_t buffer, std::int64_t row);
  /// Of a buffer of bits.
  bool bit(const host_array& of, std::size_t buffer, std::int64_t row);
  /// Of a list, list view or fixed-size list. The rows are in the child.
  child_range items(const host_array& of, std::int64_t row);
  union_place place_in_union(const host_array& of, std::int64_t row);
  /// The number of the run that a row is in.
  std::int64_t run(const host_array& of, std::int64_t row);

private:
  void require_pages(const host_array& of, std::span<const std::byte> read);

  std::array<std::uintptr_t, 256> known_{}; ///< numbers of pages that are there, each in a place of its own
};

[[nodiscard]] inline bool has_nulls(const host_array& of) {
  return of.type.has_validity() && of.buffers[0].data() != nullptr;
}

/// @throws error format where an array has no such rows.
void require_rows(const host_array& of, std::int64_t first, std::int64_t count);

} // namespace saeta::py
