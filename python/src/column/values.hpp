// Rows of columns as raw Python values, for display and for reading scalars.
//
// Buffers may be views of a file that is rewritten meanwhile. So every offset, view and index is checked
// against its target buffer when it is followed. Failure: error format with the numbers.
#pragma once

#include "saeta/column/table.hpp"

#include <nanobind/nanobind.h>

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

namespace saeta::py {

constexpr std::int64_t everything = std::numeric_limits<std::int64_t>::max();

/// One list per column. A null becomes None, a boolean a bool, and any other value its bytes in the Arrow
/// layout. Dictionaries become their values; symbols become their names, or their numbers if the table has no
/// name. Downloads only these rows, in one planned transfer and one more per dictionary, with the GIL
/// released.
/// @param fields  fields of the columns, for error messages.
/// @param most    the largest number of nested values per row, at any depth, and of bytes per text. Without
///                it, error out_of_memory if the objects would need more memory than is available.
std::vector<nanobind::list> raw_values(const std::shared_ptr<context>& ctx, const batch& rows,
                                       std::span<const field> fields, std::int64_t most = everything);

/// @throws error out_of_memory if this many Python objects need more memory than is available.
void require_memory_for(std::uint64_t objects, std::string_view label);
/// The same for `count` values of `bytes_of_each` bytes, which the message calls `what`.
void require_memory_for(std::uint64_t count, std::uint64_t bytes_of_each, std::string_view what,
                        std::string_view label);

} // namespace saeta::py
