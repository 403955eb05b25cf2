// A table: a schema and columns of equal length, in batches that share the schema.
//
// @code
// const schema fields{{field{"price", price.type(), true, {}}}, {}};
// const table sales = table::make(ctx, fields, {batch{price.length(), {price}}});
// const table first_rows = sales.slice(0, 2); // shares the memory
// @endcode
//
// What      Each batch is an Arrow record batch in memory. A column of the table is the list of its parts in
//           all batches. A table without columns keeps its row count.
// Owner     A value that shares its columns; copies, slices and selections are cheap. A table that was moved
//           from has no rows, and asking it for its context or fields throws error closed.
// Failure   `make` names the column, the expected value and the actual one.

#pragma once

#include "saeta/base/export.hpp"
#include "saeta/column/column.hpp"
#include "saeta/column/schema.hpp"

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace SAETA_EXPORT saeta {

struct batch {
  std::int64_t rows = 0;
  std::vector<column> columns;
};

class table {
public:
  /// @throws error invalid_argument (number of columns, lengths, contexts), type_mismatch (a column's type).
  [[nodiscard]] static table make(std::shared_ptr<context> ctx, schema fields, std::vector<batch> batches);

  /// The same for a schema that the table shares.
  [[nodiscard]] static table make_sharing(std::shared_ptr<context> ctx,
                                          std::shared_ptr<const schema_index> fields,
                                          std::vector<batch> batches);

  [[nodiscard]] const std::shared_ptr<context>& ctx() const {
    static_cast<void>(index());
    return ctx_;
  }
  [[nodiscard]] const schema& fields() const { return index().fields(); }
  /// Like schema::index_of, with a hash.
  [[nodiscard]] std::size_t index_of(std::string_view name) const { return index().index_of(name); }
  /// The schema as an object that slices of the table share.
  [[nodiscard]] const std::shared_ptr<const schema_index>& shared_fields() const {
    static_cast<void>(index());
    return schema_;
  }
  /// The field of column `index`, which keeps the schema alive. @throws error out_of_range.
  [[nodiscard]] std::shared_ptr<const field> shared_field(std::size_t index) const;
  [[nodiscard]] std::int64_t rows() const noexcept { return rows_.count; }
  [[nodiscard]] std::size_t column_count() const { return fields().fields.size(); }
  [[nodiscard]] std::span<const batch> batches() const noexcept { return batches_; }
  /// The parts of column `index`, in order, one per batch. @throws error out_of_range.
  [[nodiscard]] std::vector<column> pieces(std::size_t index) const;

  /// @throws error out_of_range naming the numbers.
  [[nodiscard]] table slice(std::int64_t offset, std::int64_t length) const;
  [[nodiscard]] table select(std::span<const std::size_t> columns) const;
  /// Bytes that the columns' rows refer to, as `column::byte_size`; bytes that several columns share count
  /// once. Remembered. @throws std::bad_alloc
  [[nodiscard]] std::uint64_t byte_size() const;

private:
  /// A number that any thread may store, copied with the table.
  class size_memo {
  public:
    static constexpr std::uint64_t unknown = std::numeric_limits<std::uint64_t>::max();
    size_memo() noexcept = default;
    size_memo(const size_memo& from) noexcept : bytes_(from.load()) {}
    size_memo& operator=(const size_memo& from) noexcept {
      store(from.load());
      return *this;
    }
    ~size_memo() = default;
    [[nodiscard]] std::uint64_t load() const noexcept { return bytes_.load(std::memory_order_relaxed); }
    void store(std::uint64_t bytes) noexcept { bytes_.store(bytes, std::memory_order_relaxed); }

  private:
    std::atomic<std::uint64_t> bytes_{unknown};
  };

  /// A number of rows that a move takes away, as it takes the batches.
  struct moved_count {
    explicit moved_count(std::int64_t rows) noexcept : count(rows) {}
    moved_count(const moved_count&) = default;
    moved_count& operator=(const moved_count&) = default;
    moved_count(moved_count&& other) noexcept : count(std::exchange(other.count, 0)) {}
    moved_count& operator=(moved_count&& other) noexcept {
      count = std::exchange(other.count, 0);
      return *this;
    }
    ~moved_count() = default;
    std::int64_t count;
  };

  table(std::shared_ptr<context> ctx, std::shared_ptr<const schema_index> fields, std::vector<batch> batches,
        std::int64_t rows);
  /// @throws error closed for a table that was moved from.
  [[nodiscard]] const schema_index& index() const { return held_by(schema_, "table"); }

  std::shared_ptr<context> ctx_;
  std::shared_ptr<const schema_index> schema_;
  std::vector<batch> batches_;
  std::vector<std::int64_t> ends_; ///< rows up to the end of each batch; empty for a single one
  moved_count rows_;
  mutable size_memo bytes_;
};

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
//
// @code
// const counted_table matches = counted_table::make(orders, count); // `count`: one row, written by a kernel
// launch(stream, matches.capacity(), matches.count());              // kernels read the count on the device
// const table valid = matches.rows_of_table();                      // the host reads it, once
// @endcode
class counted_table {
public:
  /// @param known  the count, if the host knows it; then it is never read.
  [[nodiscard]] static counted_table make(table capacity, column count,
                                          std::optional<std::int64_t> known = std::nullopt);

  /// All rows that have room; rows after the count are undefined.
  [[nodiscard]] const table& capacity() const noexcept { return capacity_; }
  /// The count on the device, for kernels.
  [[nodiscard]] const column& count() const noexcept { return count_; }
  [[nodiscard]] std::int64_t rows() const;
  /// The row count if the host knows it, else nullopt. Does not read the device.
  [[nodiscard]] std::optional<std::int64_t> known_rows() const;
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
