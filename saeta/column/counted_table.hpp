// A table whose row count a kernel wrote: memory for more rows than there are, and a number on the device that says how many
// are valid.
//
// What      `capacity` is a table with room for the rows; `count` is a column of one row of u32, u64, i32 or i64. Kernels read
//           the count where it is. The host reads it once, when it is asked for: one tracked scalar, then cached.
// Owner     A value that shares the table and the count; copies share what was read as well.
// Order     The read is behind the last write of the count.
// Thread    Immutable but for the cached count, which is atomic.
// Failure   `make`: invalid_argument, type_mismatch. `rows` and `rows_of_table`: out_of_range for a count past the capacity or
//           below 0, which names both numbers; each call reads again, because the next write may mend it.
#pragma once

#include "saeta/column/table.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

namespace saeta {

class counted_table {
public:
  /// @param known  the count, where the host knows it: it is never read then.
  static counted_table make(table capacity, column count, std::optional<std::int64_t> known = std::nullopt);

  /// All rows that there is room for: those behind the count hold nothing.
  [[nodiscard]] const table& capacity() const noexcept { return capacity_; }
  /// For kernels.
  [[nodiscard]] const column& count() const noexcept { return count_; }
  [[nodiscard]] std::int64_t rows() const;
  /// The same without work: nothing before it was read.
  [[nodiscard]] std::optional<std::int64_t> known_rows() const noexcept;
  /// The valid rows, without a copy: what is exported, written and shown.
  [[nodiscard]] table rows_of_table() const { return capacity_.slice(0, rows()); }

private:
  counted_table(table capacity, column count);

  static constexpr std::int64_t unread = -1;

  table capacity_;
  column count_;
  std::shared_ptr<std::atomic<std::int64_t>> known_;
};

} // namespace saeta
