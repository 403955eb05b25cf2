// A table: a schema and columns of equal length, in batches that share the schema.
//
// What      Each batch is an Arrow record batch in memory. A column of the table is the list of its parts in
//           all batches. A table without columns keeps its row count.
// Owner     A value that shares its columns; copies, slices and selections are cheap.
// Failure   `make` names the column, the expected value and the actual one.
#pragma once

#include "saeta/column/column.hpp"
#include "saeta/column/schema_index.hpp"

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

namespace saeta {

struct batch {
  std::int64_t rows = 0;
  std::vector<column> columns;
};

class table {
public:
  /// @throws error invalid_argument (number of columns, lengths, contexts), type_mismatch (a column's type).
  static table make(std::shared_ptr<context> ctx, schema fields, std::vector<batch> batches);

  /// The same for a schema that the table shares.
  static table make_sharing(std::shared_ptr<context> ctx, std::shared_ptr<const schema_index> fields,
                            std::vector<batch> batches);

  [[nodiscard]] const std::shared_ptr<context>& ctx() const noexcept { return ctx_; }
  [[nodiscard]] const schema& fields() const noexcept { return schema_->fields(); }
  /// Like schema::index_of, with a hash.
  [[nodiscard]] std::size_t index_of(std::string_view name) const { return schema_->index_of(name); }
  /// The schema as an object that slices of the table share.
  [[nodiscard]] const std::shared_ptr<const schema_index>& shared_fields() const noexcept { return schema_; }
  /// The field of column `index`, which keeps the schema alive. @throws error out_of_range.
  [[nodiscard]] std::shared_ptr<const field> shared_field(std::size_t index) const;
  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
  [[nodiscard]] std::size_t column_count() const noexcept { return fields().fields.size(); }
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

  table(std::shared_ptr<context> ctx, std::shared_ptr<const schema_index> fields, std::vector<batch> batches,
        std::int64_t rows);

  std::shared_ptr<context> ctx_;
  std::shared_ptr<const schema_index> schema_;
  std::vector<batch> batches_;
  std::vector<std::int64_t> ends_; ///< rows up to the end of each batch; empty for a single one
  std::int64_t rows_ = 0;
  mutable size_memo bytes_;
};

} // namespace saeta
