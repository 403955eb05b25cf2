// A column: one Arrow array in a context's memory.
//
// What      An immutable view over buffers: type, length, offset, null count, buffers, children, dictionary.
// Owner     A value that shares its buffers; copies and slices are free.
// Order     The buffers carry it (memory/buffer.hpp).
// Thread    Immutable but for the cached null count, which is atomic.
// Failure   `make` validates what can be known without touching the memory: buffer sizes against offset + length, and
//           the children's lengths and types.
#pragma once

#include "saeta/base/short_list.hpp"
#include "saeta/column/data_type.hpp"
#include "saeta/memory/buffer.hpp"
#include "saeta/memory/context.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace saeta {

class column {
public:
  static constexpr std::int64_t unknown_nulls = -1;

  struct parts {
    data_type type;
    std::int64_t length = 0; ///< rows
    std::int64_t offset = 0; ///< rows into every buffer
    std::int64_t null_count = unknown_nulls;
    /// In Arrow's order, `type.buffer_count()` of them, for views any number more; an absent validity means no nulls. Bytes of a
    /// column with offsets may be absent when every value is empty.
    short_list<buffer, 3> buffers;
    std::shared_ptr<const column> dictionary{}; ///< for dictionary types only
    /// Of a nested type, as Arrow has them: the offset of the column counts for those of structs, sparse unions and
    /// fixed-size lists as well.
    std::vector<column> children{};
  };

  /// @throws error invalid_argument or out_of_range naming the buffer, the bytes needed and the bytes there.
  static column make(std::shared_ptr<context> ctx, parts from);
  /// A column without rows: no memory is allocated.
  static column empty(const std::shared_ptr<context>& ctx, const data_type& type);

  [[nodiscard]] const data_type& type() const noexcept { return parts_->type; }
  [[nodiscard]] std::int64_t length() const noexcept { return length_; }
  [[nodiscard]] std::int64_t offset() const noexcept { return offset_; }
  [[nodiscard]] const std::shared_ptr<context>& ctx() const noexcept { return ctx_; }
  [[nodiscard]] std::span<const buffer> buffers() const noexcept { return parts_->buffers; }
  /// Absent when there are no nulls by construction.
  [[nodiscard]] const buffer& validity() const noexcept;
  /// Values, bits, indices or views. @throws error type_mismatch, for other layouts.
  [[nodiscard]] const buffer& values() const;
  [[nodiscard]] const buffer& offsets() const;
  [[nodiscard]] const buffer& bytes() const;
  /// Null unless the type is a dictionary.
  [[nodiscard]] const column* dictionary() const noexcept { return parts_->dictionary.get(); }
  /// All rows of the children, of which this column's rows may name some.
  [[nodiscard]] std::span<const column> children() const noexcept { return parts_->children; }
  /// The rows of child `index` that belong to this column's rows: for structs, sparse unions and fixed-size lists exactly
  /// these, for others all rows of the child. @throws error out_of_range.
  [[nodiscard]] column child(std::size_t index) const;

  /// Number of nulls; counted on the device and cached when it was unknown (one tracked scalar read).
  [[nodiscard]] std::int64_t null_count() const;
  /// The same without work: `unknown_nulls` when it would have to be counted.
  [[nodiscard]] std::int64_t known_null_count() const noexcept;

  /// True where another column shares its buffers: dropping this one then gives nothing back. Another thread may drop the other
  /// meanwhile.
  [[nodiscard]] bool shared() const noexcept { return parts_.use_count() > 1; }

  /// Rows [offset, offset + length). @throws error out_of_range naming the numbers.
  [[nodiscard]] column slice(std::int64_t offset, std::int64_t length) const;
  /// Bytes that the column's rows refer to, children and dictionary included: windows of the buffers, without shared
  /// slack. What offsets and views point to counts as a whole: they are not read.
  [[nodiscard]] std::uint64_t byte_size() const noexcept;

private:
  using null_counter = std::atomic<std::int64_t>;
  /// The parts with the null count of the rows that they were made for.
  struct shared_parts : parts {
    shared_parts(parts&& from, std::int64_t known) : parts(std::move(from)), nulls(known) {}
    mutable null_counter nulls;
  };
  column(std::shared_ptr<context> ctx, std::shared_ptr<const shared_parts> from, std::int64_t offset,
         std::int64_t length);
  [[nodiscard]] null_counter& nulls() const noexcept { return of_slice_ ? *of_slice_ : parts_->nulls; }

  std::shared_ptr<context> ctx_;
  std::shared_ptr<const shared_parts> parts_;
  std::int64_t offset_;
  std::int64_t length_;
  std::shared_ptr<null_counter> of_slice_; ///< null for all rows that the parts were made for
};

/// True for two descriptions of the same rows of the same memory, children and dictionary included.
[[nodiscard]] bool same_memory(const column& a, const column& b);

/// Bytes that buffer `index` of a column must hold for `rows` rows from row 0; 0 where nothing can be said without
/// reading memory (what offsets and views point to).
std::size_t required_bytes(const data_type& type, std::size_t index, std::int64_t rows);

/// Rows of a column's children that its rows belong to.
struct child_rows {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// The same for rows [first, first + count) of a struct, sparse union or fixed-size list; nothing for other layouts, whose
/// buffers would have to be read.
std::optional<child_rows> rows_of_children(const data_type& type, std::int64_t first, std::int64_t count);

} // namespace saeta
