// Rows of columns as raw Python values: what displays and scalar reads are made of.
//
// Buffers may be views of a file that somebody rewrites: every offset, view and index is checked when it is followed, against the
// buffer that it leads to. error format then, with the numbers.
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

/// One list a column. None for a null, a bool for a boolean, else the bytes of the value as the Arrow layout holds them;
/// dictionaries give their values, symbols their names, or their numbers where the table has none. Downloads these rows and no others, in one planned transfer and one more for each
/// dictionary; releases the GIL meanwhile.
/// @param fields  of the columns, for errors.
/// @param most    of each row at most so many values inside of it, to any depth, and of each text so many bytes. Without it
///                error out_of_memory where the objects would take more than the memory that is available.
std::vector<nanobind::list> raw_values(const std::shared_ptr<context>& ctx, const batch& rows,
                                       std::span<const field> fields, std::int64_t most = everything);

/// @throws error out_of_memory where so many Python objects take more than the memory that is available.
void require_memory_for(std::uint64_t objects, std::string_view label);

} // namespace saeta::py
