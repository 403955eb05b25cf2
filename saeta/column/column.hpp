// A column: one Arrow array in a context's memory.
//
// @code
// const buffer values = ctx->allocate<float>(3, stream, "prices");
// {
//   use_token token(stream, {writes(values)});
//   launch(stream, token.span<float>(values)); // a kernel that writes three floats
//   token.finish();
// }
// const column prices = column::make(
//     ctx, {.type = data_type(type_id::float32), .length = 3, .buffers = {buffer(), values}}); // no nulls
// const column last = prices.slice(2, 1); // shares the memory
// @endcode
//
// What      An immutable view over buffers: type, length, offset, null count, buffers, children, dictionary.
// Owner     A value that shares its buffers; copies and slices are cheap. Every use of a column that was moved
//           from throws error closed.
// Order     Each buffer keeps its own ordering state (memory/buffer.hpp).
// Thread    Immutable but for the cached null count, which is atomic.
// Failure   `make` validates everything that needs no read of the memory: buffer sizes against offset +
//           length, and the lengths and types of children.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/base/required.hpp"
#include "saeta/base/short_list.hpp"
#include "saeta/column/data_type.hpp"
#include "saeta/memory/buffer.hpp"
#include "saeta/memory/context.hpp"

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace SAETA_EXPORT saeta {

class storage_reads; // memory/use_token.hpp

/// The rows of a column's children that its rows use.
struct child_rows {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

class column {
public:
  static constexpr std::int64_t unknown_nulls = -1;

  struct parts {
    data_type type;
    std::int64_t length = 0; ///< rows
    std::int64_t offset = 0; ///< rows into every buffer
    std::int64_t null_count = unknown_nulls;
    /// In Arrow's order: `type.buffer_count()` buffers, or more for views. An absent validity means no nulls.
    /// The data of a column with offsets may be absent if every value is empty.
    short_list<buffer, 3> buffers;
    std::shared_ptr<const column> dictionary{}; ///< for dictionary types only
    /// For nested types, as Arrow defines them: the column's offset also applies to the children of structs,
    /// sparse unions and fixed-size lists.
    std::vector<column> children{};
  };

  /// @throws error invalid_argument or out_of_range naming the buffer, the bytes needed and the bytes
  /// present.
  [[nodiscard]] static column make(std::shared_ptr<context> ctx, parts&& from);
  /// A column without rows. It allocates no memory.
  [[nodiscard]] static column empty(const std::shared_ptr<context>& ctx, const data_type& type);

  [[nodiscard]] const data_type& type() const { return all_rows().type; }
  [[nodiscard]] std::int64_t length() const noexcept { return length_; }
  [[nodiscard]] std::int64_t offset() const noexcept { return offset_; }
  [[nodiscard]] const std::shared_ptr<context>& ctx() const { return all_rows().ctx; }
  [[nodiscard]] std::span<const buffer> buffers() const { return all_rows().buffers; }
  /// Absent if the column was made without a validity buffer, or its type has none.
  [[nodiscard]] const buffer& validity() const;
  /// Values, bits, indices or views. @throws error type_mismatch, for other layouts.
  [[nodiscard]] const buffer& values() const;
  [[nodiscard]] const buffer& offsets() const;
  [[nodiscard]] const buffer& bytes() const;
  /// Null unless the type is a dictionary.
  [[nodiscard]] const column* dictionary() const { return all_rows().dictionary.get(); }
  /// The whole children; this column's rows may use only some of their rows.
  [[nodiscard]] std::span<const column> children() const { return all_rows().children; }
  /// The rows of child `index` for this column's rows: exactly these for structs, sparse unions and
  /// fixed-size lists, all rows of the child for others.
  /// @throws error out_of_range.
  [[nodiscard]] column child(std::size_t index) const;

  /// Number of nulls in the validity, as Arrow counts them: not those in a dictionary, in runs or in
  /// children of a union (compute/nulls.hpp). An unknown count is computed on the device and cached
  /// (one tracked scalar read).
  [[nodiscard]] std::int64_t null_count() const;
  /// The null count, or `unknown_nulls` if it would have to be computed.
  [[nodiscard]] std::int64_t known_null_count() const;
  /// Counts the nulls of columns of one context, of their children and of their dictionaries where the number
  /// is unknown. The host waits once for all of them.
  static void count_nulls(std::span<const column> of);

  /// True if another column shares its buffers: then dropping this one frees nothing. The answer may be
  /// outdated at once, because another thread may drop the other column.
  [[nodiscard]] bool shared() const noexcept { return parts_.use_count() > 1; }

  /// True if its buffers may have rows before or behind its own.
  [[nodiscard]] bool sliced() const { return offset_ != 0 || length_ != all_rows().length; }

  /// Rows [offset, offset + length). @throws error out_of_range naming the numbers.
  [[nodiscard]] column slice(std::int64_t offset, std::int64_t length) const;
  /// Bytes that the column's rows refer to, children and dictionary included (column/row_bytes.hpp). A slice
  /// counts its share of the dictionary. Remembered: the device is read once, for slices and views only.
  /// @throws std::bad_alloc
  [[nodiscard]] std::uint64_t byte_size() const;
  /// The share of this column's rows in `count` dictionary entries or bytes that all rows of the unsliced
  /// column have together. The shares of adjacent slices are adjacent.
  [[nodiscard]] child_rows share_of(std::int64_t count) const;

private:
  /// The null count and the bytes of a range of rows. Each is computed at its first request.
  struct row_facts {
    static constexpr std::uint64_t unknown_bytes = std::numeric_limits<std::uint64_t>::max();
    explicit row_facts(std::int64_t known) noexcept : nulls(known) {}
    std::atomic<std::int64_t> nulls;
    std::atomic<std::uint64_t> bytes{unknown_bytes};
  };
  /// The parts, with the facts about all of their rows.
  struct shared_parts : parts {
    shared_parts(std::shared_ptr<context> home, parts&& from, std::int64_t known)
        : parts(std::move(from)), ctx(std::move(home)), facts(known) {}
    std::shared_ptr<context> ctx;
    mutable row_facts facts;
  };
  column(std::shared_ptr<const shared_parts> from, std::int64_t offset, std::int64_t length);
  /// @throws error closed for a column that was moved from.
  [[nodiscard]] const shared_parts& all_rows() const { return held_by(parts_, "column"); }
  [[nodiscard]] row_facts& facts() const { return of_slice_ ? *of_slice_ : all_rows().facts; }

  std::shared_ptr<const shared_parts> parts_;
  std::int64_t offset_;
  std::int64_t length_;
  std::shared_ptr<row_facts> of_slice_; ///< null for all rows of the parts
};

/// Adds the memory of a column, of its children and of its dictionary.
void append_reads(const column& of, storage_reads& to);

[[nodiscard]] std::int64_t total_rows(std::span<const column> pieces) noexcept;

/// True if both describe the same rows of the same memory, children and dictionary included.
[[nodiscard]] bool same_memory(const column& a, const column& b);

/// Minimum bytes of buffer `index` of a column for `rows` rows from row 0; 0 if this depends on the contents
/// of memory (data that offsets and views point to).
std::size_t required_bytes(const data_type& type, std::size_t index, std::int64_t rows);

/// The child rows of rows [first, first + count) of a struct, sparse union or fixed-size list; nullopt for
/// other layouts, whose buffers would have to be read.
[[nodiscard]] std::optional<child_rows> rows_of_children(const data_type& type, std::int64_t first,
                                                         std::int64_t count);

/// The rows that rows [first, first + count) use of a child with `length` rows. For types with offsets or run
/// ends, which the caller has read, these are `pointed`. If each row names its own, all rows of the child.
[[nodiscard]] child_rows select_child_rows(const data_type& type, std::int64_t first, std::int64_t count,
                                           const child_rows& pointed, std::int64_t length);

} // namespace saeta
