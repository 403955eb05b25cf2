// Rows of columns and tables, chosen by their numbers or by a mask, on their device.
//
// What      Row i of the result is row `indices[i]` of the source, or null if that index is null; `filter`
//           keeps the rows whose mask is true. Every type is supported, to any depth. One kernel takes all
//           values of fixed width of a table. Offsets, lists, unions and runs take a few more for each level
//           of nesting.
// Owner     The result has memory of its own, charged to the budget of the source's context, without what no
//           row refers to. Only dictionaries, and the bytes that views point to, are shared with the source.
// Order     The result is ready on the context's work stream. The host waits for the check of the indices,
//           and once for each level of nesting, to learn how much memory it needs. It waits for the check of
//           few indices when everything is queued.
// Limits    If 32-bit offsets or run ends cannot count the values, the result has several batches. Chunks of
//           one column with different dictionaries are joined first (compute/combine.hpp). If the indices
//           cannot count all of their values, `filter` keeps the batches apart.
// Failure   As for selected_rows; overflow if a single row is too large, or if the indices of a dictionary
//           type cannot count the values that `take` joins. Nothing stays allocated.

#pragma once

#include "saeta/base/export.hpp"
#include "saeta/column/table.hpp"
#include "saeta/compute/selected_rows.hpp"
#include "saeta/device/permutation.hpp"

#include <span>
#include <vector>

namespace SAETA_EXPORT saeta {

/// @param rows  rows of this table
[[nodiscard]] table take(const table& source, const selected_rows& rows);
/// The same for the pieces of a column, at least one. Returns at least one piece.
[[nodiscard]] std::vector<column> take(std::span<const column> source, const selected_rows& rows);
/// Rows by their numbers. @param indices  as for `rows_of_indices`
[[nodiscard]] table take(const table& source, std::span<const column> indices);

/// The rows whose mask is true. @param mask  as for `rows_of_mask`
[[nodiscard]] table filter(const table& source, std::span<const column> mask);

/// The same rows of columns of equal length, without what no row refers to: children of lists and unions, and
/// bytes behind views, which take() shares. @throws error overflow for more than 2 GiB behind views
[[nodiscard]] std::vector<column> gather(std::span<const column> source);

/// The number of rows of each batch or piece, as `rows_of_indices` and `rows_of_mask` want it.
[[nodiscard]] std::vector<std::int64_t> rows_of_pieces(const table& source);
[[nodiscard]] std::vector<std::int64_t> rows_of_pieces(std::span<const column> source);

// Rows in a pseudo-random order, and their numbers, made on their device.
//
// What      The rows of batches, each from a window of a lane, in the order of that window's permutation
//           (device/permutation.hpp): the same on every device.
// Order     As for `take`, but the host does not wait for numbers.
// Failure   invalid_argument for batches, lanes or windows without rows, and for lanes that the table does not
//           have; out_of_range for a batch behind the rows, naming both.

/// @returns a column of uint32, of int64 if the count is above 2^32.
[[nodiscard]] column permute_rows(const std::shared_ptr<context>& ctx, std::int64_t count, std::uint64_t key,
                                  const lane_batches& batches);

/// The rows of the table in the order of the key, as `take` makes them of the numbers.
[[nodiscard]] table take_permuted(const table& source, std::uint64_t key, const lane_batches& batches);

} // namespace saeta
