// How many Python objects rows become. A file of 500 bytes can claim any number of them: nulls, lists of a fixed size and runs
// have no bytes behind them, and views of lists may share theirs.
#pragma once

#include "checked_array.hpp"

#include <cstdint>

namespace saeta::py {

/// Adds up to 2^64 - 1 and stays there. Takes as long as there are bytes behind the rows, or objects up to `enough`: behind that it
/// stops to look.
class object_count {
public:
  object_count(array_reader& reader, std::uint64_t enough) : reader_(reader), enough_(enough) {}

  /// Rows of an array, counted from its own offset, `times` over.
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
