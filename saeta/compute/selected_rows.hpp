// Chosen rows of a source in several pieces: numbers on the device that `take` follows.
//
// What      Made from integer indices, from a mask or from the bounds of a slice. All columns of a table read
//           the same numbers.
// Owner     The numbers take 8 bytes a row, charged to the budget of the context.
// Order     Ready on the context's work stream. The host waits once: for the check of the indices, or for the
//           number of rows of a mask. Numbers of a slice are made on the host and uploaded.
// Failure   type_mismatch (no integers, no booleans), invalid_argument (another device; a mask of another
//           length), out_of_range naming the first index that is not a row of the source, budget_exceeded,
//           out_of_memory. Nothing stays allocated.

#pragma once

#include "saeta/base/export.hpp"
#include "saeta/column/column.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace SAETA_EXPORT saeta {

struct selected_rows {
  buffer memory; ///< one number of 64 bits for each row (device/take.hpp); absent without rows
  std::int64_t count = 0;
  bool nullable = false; ///< some of the rows are null

  /// Identifies the numbers; a use token permits access.
  [[nodiscard]] std::int64_t* data() const noexcept {
    return reinterpret_cast<std::int64_t*>(memory.address());
  }
  [[nodiscard]] selected_rows slice(std::int64_t first, std::int64_t rows) const;
};

/// Memory for the numbers of `rows` rows.
[[nodiscard]] selected_rows allocate_rows(const std::shared_ptr<context>& ctx, std::int64_t rows);

/// @param piece_rows  number of rows of each piece of the source
/// @param indices     the pieces of a column of integers; null indices choose null rows
[[nodiscard]] selected_rows rows_of_indices(const std::shared_ptr<context>& ctx,
                                            std::span<const std::int64_t> piece_rows,
                                            std::span<const column> indices);

/// The two halves of `rows_of_indices`. Between them the rows may be used, but `rows.nullable` is not known
/// yet. Indices that are not rows of the source are null rows.
struct queued_rows {
  selected_rows rows;
  buffer found; ///< result of the check, behind the rows in `memory`
  std::int64_t limit = 0;
};
[[nodiscard]] queued_rows queue_rows(const std::shared_ptr<context>& ctx,
                                     std::span<const std::int64_t> piece_rows,
                                     std::span<const column> indices);
/// Waits for the check. Returns whether an index is null.
bool check_rows(const queued_rows& queued, std::span<const column> indices);

/// Rows `first`, `first` + `step` and so on, `count` of them, which the source must have. The step may be
/// negative.
[[nodiscard]] selected_rows rows_of_slice(const std::shared_ptr<context>& ctx,
                                          std::span<const std::int64_t> piece_rows, std::int64_t first,
                                          std::int64_t step, std::int64_t count);

/// @param mask  the pieces of a column of booleans (bits or bytes), one for each row; nulls choose no row
[[nodiscard]] selected_rows rows_of_mask(const std::shared_ptr<context>& ctx,
                                         std::span<const std::int64_t> piece_rows,
                                         std::span<const column> mask);

/// Every row of a source of one piece.
[[nodiscard]] selected_rows all_rows(const std::shared_ptr<context>& ctx, std::int64_t rows);

/// Every row of `source` that is not null, and the only row of `fill`, the last piece, instead of the others.
/// @param piece_rows  of `source`, without that of the fill
[[nodiscard]] selected_rows rows_with_fill(const std::shared_ptr<context>& ctx,
                                           std::span<const std::int64_t> piece_rows,
                                           std::span<const column> source);

// The values behind columns whose rows refer to them: dictionaries, run-end encoded columns and unions.
//
// What      `value_columns` has the values, and `value_rows` says which of them each row has. What is taken
//           by these rows has one entry for each row of the column.
//           A row that refers to something outside of the values is a null row.
// Order     The host does not wait.

/// The values that the rows of a column refer to: those of its dictionary, of its runs, or each child of a
/// union. Empty for other types.
[[nodiscard]] std::vector<column> value_columns(const column& source);

/// The rows of `value_columns`, as pieces, that the rows of the column have. Null codes are null rows.
[[nodiscard]] selected_rows value_rows(const column& source);

/// The same rows of a column of numbers without dictionaries and runs, in memory of their own. A column that
/// has neither is returned as it is.
/// @throws error type_mismatch for values whose width is not fixed.
[[nodiscard]] column plain_numbers(const column& source);

} // namespace saeta
