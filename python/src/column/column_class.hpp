// The parts of the class Column, one function each.

#pragma once

#include "python/src/core/module.hpp"
#include "python/src/core/objects.hpp"
#include "saeta/interop/options.hpp"

#include <cstdint>
#include <utility>
#include <vector>

namespace saeta::py {

using column_class = nb::class_<column_object>;

/// Conversions: booleans in both forms, and objects of other libraries.
void bind_conversions(column_class& c);
/// DLPack, and arrays of other libraries.
void bind_tensors(column_class& c);
/// Rows that are chosen, converted, filled or moved.
void bind_rows(column_class& c);
/// DLPack's C exchange API.
void bind_exchange_api(column_class& c);
/// The Arrow PyCapsule interface.
void bind_protocols(column_class& c);

// Columns in several pieces: slices of them, and tables of columns whose pieces end at different rows.

/// Rows [offset, offset + length) of the pieces, without the pieces outside.
/// @throws error out_of_range naming the numbers.
std::vector<column> slice_pieces(const std::vector<column>& pieces, std::int64_t offset, std::int64_t length);

/// The only piece of a column, for protocols that carry a single array. For a column without pieces, an empty
/// one.
/// @throws error exchange naming `.chunks` if there are several.
column single_piece(const column_object& source, const char* protocol);

/// The rows of a column in one piece. `owned` is true if pieces were joined, so that the memory is not
/// shared.
struct joined_rows {
  column piece;
  bool owned = false;
};

/// @throws error exchange if a copy is forbidden or the pieces can't be joined into one.
joined_rows join_pieces(const column_object& source, copy_policy copy);

/// A table of these columns, which must have equal lengths. A batch ends wherever a piece of any column ends.
/// No data is copied.
/// @throws error invalid_argument naming the column and the lengths, or the column of another context.
table assemble(const std::shared_ptr<context>& ctx, const std::vector<column_object>& columns,
               const metadata_list& metadata);

/// A table of this column only, without its name and nullability.
table as_table(const column_object& source);

/// Whether both are views of the same rows of the same memory.
bool same_view(const std::vector<column>& a, const std::vector<column>& b);
/// @throws error unsupported, for an `==` that would have to compare values.
[[noreturn]] void refuse_comparison(const char* what);

} // namespace saeta::py
