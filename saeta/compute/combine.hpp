// Columns in pieces, joined into whole ones on their device.
//
// What      The rows of many columns of one type as one column: values, bitmaps at any bit offset with their null counts,
//           offsets rebased, bytes, children to any depth, and dictionaries unified. One kernel does a whole table, whatever
//           the number of pieces and columns; a second one fetches the offsets that say how large the result is, once for
//           each level of nesting.
// Owner     The result is one allocation of the pieces' context, charged to its budget. Views (string_view, binary_view)
//           keep the buffers of bytes of all pieces and share them.
// Order     The result is ready on the context's work stream. The host waits where offsets have to be known, for null
//           counts that are unknown, and for dictionaries of different memory, which it compares.
// Limits    Where 32-bit offsets, run ends or indices could not count the rows, the result has more than one piece: as few
//           as go, cut where pieces ended.
// Failure   type_mismatch and invalid_argument (pieces of different types or devices, misaligned memory of others),
//           budget_exceeded and out_of_memory, and download_forbidden for dictionaries of different memory in strict mode.
//           Nothing stays allocated, and the pieces are as they were.
#pragma once

#include "saeta/column/table.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace saeta {

/// The rows of `pieces`, in order. A single piece with rows is returned as it is; of pieces without rows one stays.
std::vector<column> combine_chunks(std::span<const column> pieces);

/// Values that indices of a type can name: of a signed one those that are not negative.
[[nodiscard]] std::int64_t most_entries(const data_type& index) noexcept;

/// The same rows in as few batches as their columns allow. A table of one batch is returned as it is.
table combine_chunks(const table& source);

} // namespace saeta
