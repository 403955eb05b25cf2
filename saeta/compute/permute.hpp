// Rows in a pseudo-random order, and their numbers, made on their device.
//
// What      Entry k is the place of number `number_at(numbers, k)` in the permutation of a count and a key
//           (device/permutation.hpp), the same on every device.
// Owner     The result is charged to the budget of the context.
// Order     Ready on the context's work stream. The host does not wait for numbers, and for rows only where
//           `take` waits after its check.
// Failure   invalid_argument for groups that overlap or have no numbers; out_of_range naming the numbers and
//           the count; budget_exceeded, out_of_memory.
#pragma once

#include "saeta/column/table.hpp"
#include "saeta/device/permutation.hpp"

namespace saeta {

/// @returns a column of uint32, of int64 if the count is above 2^32.
column permute_rows(const std::shared_ptr<context>& ctx, std::int64_t count, std::uint64_t key,
                    const number_groups& numbers);

/// The rows of the table in the order of the key, as `take` makes them of the numbers.
table take_permuted(const table& source, std::uint64_t key, const number_groups& numbers);

} // namespace saeta
