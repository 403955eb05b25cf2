// A column: one Arrow array in a context's memory.
//
// What      An immutable view over buffers: type, length, offset, null count, validity, values, dictionary.
// Owner     A value that shares its buffers; copies and slices are free.
// Order     The buffers carry it (memory/buffer.hpp).
// Thread    Immutable but for the cached null count, which is atomic.
// Failure   `make` validates what can be known without touching the memory: buffer sizes against offset + length.
#pragma once

#include "saeta/column/data_type.hpp"
#include "saeta/memory/buffer.hpp"
#include "saeta/memory/context.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
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
    /// In Arrow's order, `type.buffer_count()` of them; an absent validity means no nulls. Bytes of a column with offsets
    /// may be absent when every value is empty.
    std::vector<buffer> buffers;
    std::shared_ptr<const column> dictionary; ///< for dictionary types only
  };

  /// @throws error invalid_argument or out_of_range naming the buffer, the bytes needed and the bytes there.
  static column make(std::shared_ptr<context> home, parts from);

  [[nodiscard]] const data_type& type() const noexcept { return parts_->type; }
  [[nodiscard]] std::int64_t length() const noexcept { return length_; }
  [[nodiscard]] std::int64_t offset() const noexcept { return offset_; }
  [[nodiscard]] const std::shared_ptr<context>& home() const noexcept { return home_; }
  [[nodiscard]] std::span<const buffer> buffers() const noexcept { return parts_->buffers; }
  /// Absent when there are no nulls by construction.
  [[nodiscard]] const buffer& validity() const noexcept;
  /// Values, bits or indices. Not for null or offset layouts.
  [[nodiscard]] const buffer& values() const;
  [[nodiscard]] const buffer& offsets() const;
  [[nodiscard]] const buffer& bytes() const;
  /// Null unless the type is a dictionary.
  [[nodiscard]] const column* dictionary() const noexcept { return parts_->dictionary.get(); }

  /// Number of nulls; counted on the device and cached when it was unknown (one tracked scalar read).
  [[nodiscard]] std::int64_t null_count() const;
  /// The same without work: `unknown_nulls` when it would have to be counted.
  [[nodiscard]] std::int64_t known_null_count() const noexcept;

  /// Rows [offset, offset + length). @throws error out_of_range naming the numbers.
  [[nodiscard]] column slice(std::int64_t offset, std::int64_t length) const;
  /// Bytes that the column's rows refer to, dictionary included: windows of the buffers, without shared slack. For an
  /// offset layout that is sliced, the whole bytes buffer counts.
  [[nodiscard]] std::uint64_t byte_size() const noexcept;

private:
  struct null_counter {
    std::atomic<std::int64_t> value{unknown_nulls};
  };
  column(std::shared_ptr<context> home, std::shared_ptr<const parts> from, std::int64_t offset,
         std::int64_t length, std::int64_t nulls);

  std::shared_ptr<context> home_;
  std::shared_ptr<const parts> parts_;
  std::int64_t offset_;
  std::int64_t length_;
  std::shared_ptr<null_counter> nulls_;
};

/// Bytes that buffer `index` of a column must hold for `rows` rows from row 0; 0 where nothing can be said without
/// reading memory (the bytes of an offset layout).
std::size_t required_bytes(const data_type& type, std::size_t index, std::int64_t rows);

} // namespace saeta
