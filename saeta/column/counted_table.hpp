// A table whose row count was written by a kernel: memory with room for more rows, and a count on the device.
//
// What      `capacity` is a table with room for the rows; `count` is a column of one row of u32, u64, i32 or
//           i64. Kernels read the count on the device. The host reads it once, on first request (one tracked
//           scalar), and caches it.
// Owner     A value that shares the table and the count; copies share the cached count, too.
// Order     The read is ordered after the last write of the count.
// Thread    Immutable but for the cached count, which is atomic.
// Failure   `make`: invalid_argument, type_mismatch. `rows` and `rows_of_table`: out_of_range for a count
//           below 0 or above the capacity, naming both numbers. Each such call reads again, because a later
//           write may correct the count.
#pragma once

#include "saeta/column/table.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

namespace saeta {

class counted_table {
public:
  /// @param known  the count, if the host knows it; then it is never read.
  static counted_table make(table capacity, column count, std::optional<std::int64_t> known = std::nullopt);

  /// All rows that have room; rows after the count are undefined.
  [[nodiscard]] const table& capacity() const noexcept { return capacity_; }
  /// The count on the device, for kernels.
  [[nodiscard]] const column& count() const noexcept { return count_; }
  [[nodiscard]] std::int64_t rows() const;
  /// The row count if the host knows it, else nullopt. Does not read the device.
  [[nodiscard]] std::optional<std::int64_t> known_rows() const noexcept;
  /// The valid rows, without a copy. Exports, files and display use these.
  [[nodiscard]] table rows_of_table() const { return capacity_.slice(0, rows()); }

private:
  counted_table(table capacity, column count);

  static constexpr std::int64_t unread = -1;

  table capacity_;
  column count_;
  std::shared_ptr<std::atomic<std::int64_t>> known_;
};

} // namespace saeta
