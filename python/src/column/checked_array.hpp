// Reads arrays in host memory that may have changed since they were checked, such as a mapped file that is
// rewritten.
//
// Thread    One reader per call: its knowledge of mapped pages goes stale.
// Failure   error format with the numbers, if a read would leave its buffer or child or if a mapped file was
//           truncated. A file truncated between the check of a page and its read still kills the process.

#pragma once

#include "saeta/column/column.hpp"
#include "saeta/transfer/host_array.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace saeta::py {

/// The child of a union that holds a row, and the row in that child.
struct union_place {
  std::size_t child = 0;
  std::int64_t row = 0;
};

/// `row` counts from the beginning of the buffers. An `index` counts from the array's offset.
class array_reader {
public:
  /// Bytes [first, first + count) of a buffer.
  std::span<const std::byte> bytes(const host_array& of, std::size_t buffer, std::int64_t first,
                                   std::int64_t count);
  /// An element of a buffer of integers.
  std::int64_t integer(const host_array& of, std::size_t buffer, std::int64_t row);
  /// An element of a buffer of bits.
  bool bit(const host_array& of, std::size_t buffer, std::int64_t row);
  /// The rows of every child that rows of a struct or of lists refer to; of list views, one row.
  child_rows items(const host_array& of, std::int64_t row, std::int64_t rows = 1);
  union_place place_in_union(const host_array& of, std::int64_t row);
  /// The index of the run that contains a row.
  std::int64_t run(const host_array& of, std::int64_t row);

private:
  void require_pages(const host_array& of, std::span<const std::byte> read);

  std::array<std::uintptr_t, 256> known_{}; ///< a direct-mapped cache of the numbers of pages that are mapped
};

[[nodiscard]] inline bool has_nulls(const host_array& of) {
  return of.type.has_validity() && of.buffers[0].data() != nullptr;
}

/// @throws error format if the array lacks these rows.
void require_rows(const host_array& of, std::int64_t first, std::int64_t count);

// Counts the Python objects that rows become. A file of 500 bytes can claim any number of them: nulls,
// fixed-size lists and runs need no bytes, and list views can share theirs.

/// The total saturates at 2^64 - 1. The time is proportional to the bytes of the rows or to the objects.
/// Counting stops once the total reaches `enough`.
class object_count {
public:
  object_count(array_reader& reader, std::uint64_t enough) : reader_(reader), enough_(enough) {}

  /// Adds rows of an array, counted from its offset, `times` times.
  void add(const host_array& of, std::int64_t first, std::int64_t rows, std::uint64_t times = 1);
  [[nodiscard]] std::uint64_t total() const noexcept { return total_; }

private:
  void add_objects(std::int64_t rows, std::uint64_t times) noexcept;
  void add_children(const host_array& of, std::int64_t row, std::int64_t rows, std::uint64_t times);
  void add_each(const host_array& of, std::int64_t row, std::int64_t rows, std::uint64_t times);
  void add_runs(const host_array& of, std::int64_t row, std::int64_t rows, std::uint64_t times);

  array_reader& reader_;
  std::uint64_t enough_;
  std::uint64_t total_ = 0;
};

} // namespace saeta::py
