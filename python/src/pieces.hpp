// Columns in pieces: windows of them, and tables made of columns whose pieces end at different rows.
#pragma once

#include "objects.hpp"
#include "saeta/interop/copy_policy.hpp"

#include <cstdint>
#include <utility>
#include <vector>

namespace saeta::py {

std::int64_t total_rows(const std::vector<column>& pieces) noexcept;

/// Rows [offset, offset + length) of the pieces; pieces outside are left out.
/// @throws error out_of_range naming the numbers.
std::vector<column> slice_pieces(const std::vector<column>& pieces, std::int64_t offset, std::int64_t length);

/// The one piece of a column, for protocols that carry a single array; of a column without pieces an empty one.
/// @throws error exchange naming `.chunks` when there are several.
column single_piece(const column_object& source, const char* protocol);

/// The rows of a column in one piece, joined where several have rows: then nobody else has its memory.
struct joined_rows {
  column piece;
  bool owned = false;
};

/// @throws error exchange where a copy was forbidden, and where the pieces can't be joined into one.
joined_rows join_pieces(const column_object& source, copy_policy copy);

/// A table of these columns, all of one length. Its batches end wherever a piece of some column ends; slices are free.
/// @throws error invalid_argument naming the column and the lengths, or the column of another context.
table assemble(const std::shared_ptr<context>& ctx, const std::vector<column_object>& columns,
               const metadata_list& metadata);

/// The column alone, without its name and nullability.
table as_table(const column_object& source);

/// Whether both show the same rows of the same memory.
bool same_view(const std::vector<column>& a, const std::vector<column>& b);
/// @throws error unsupported, for `==` where only the values can tell.
[[noreturn]] void refuse_comparison(const char* what);
/// @throws error invalid_argument: slices are views.
void require_unit_step(std::int64_t step);

} // namespace saeta::py
