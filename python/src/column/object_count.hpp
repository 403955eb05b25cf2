// Counts the Python objects that rows become. A file of 500 bytes can claim any number of them: nulls,
// fixed-size lists and runs need no bytes, and list views can share theirs.
#pragma once

#include "python/src/column/checked_array.hpp"

#include <cstdint>

namespace saeta::py {

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
