// Joins the pieces of columns into whole columns on their device.
//
// What      The rows of many columns of one type become one column: values, bitmaps at any bit offset with
//           their null counts, offsets rebased, bytes, children to any depth, and dictionaries unified. One
//           kernel does a whole table, whatever the number of pieces and columns. A second one fetches the
//           offsets that tell how large the result is, once for each level of nesting.
// Owner     The result is one allocation of the pieces' context, charged to its budget. Views (string_view,
//           binary_view) keep and share the buffers of bytes of all pieces.
// Order     The result is ready on the context's work stream. The host waits if offsets or unknown null
//           counts are needed, and for dictionaries in different memory, which it compares.
// Limits    If 32-bit offsets, run ends or indices cannot count the rows, the result has several pieces: as
//           few as possible, cut where source pieces end.
// Failure   type_mismatch and invalid_argument (pieces of different types or devices, misaligned external
//           memory), budget_exceeded and out_of_memory, and download_forbidden for dictionaries in different
//           memory in strict mode. Nothing stays allocated and the pieces are unchanged.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/column/table.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace SAETA_EXPORT saeta {

/// Joins the rows of `pieces`, in order. A single piece with rows is returned as it is. If no piece has rows,
/// the first is returned.
[[nodiscard]] std::vector<column> combine_chunks(std::span<const column> pieces);

/// Number of dictionary entries that an index type can address. A signed type uses only indices that are not
/// negative.
[[nodiscard]] std::int64_t max_entries(const data_type& index) noexcept;

/// Returns the same rows in as few batches as their columns allow. A table of one batch is returned as it is.
[[nodiscard]] table combine_chunks(const table& source);

} // namespace saeta
