#include "python/src/column/column_class.hpp"
#include "saeta/base/text.hpp"
#include "saeta/compute/combine.hpp"

#include <algorithm>
#include <set>

namespace saeta::py {
namespace {

std::vector<std::int64_t> lengths_of(const column_object& source) {
  std::vector<std::int64_t> lengths;
  for (const column& piece : *source.pieces) {
    lengths.push_back(piece.length());
  }
  return lengths;
}

void require_same_shape(const std::shared_ptr<context>& ctx, const std::vector<column_object>& columns) {
  const std::int64_t rows = total_rows(*columns.front().pieces);
  for (const column_object& each : columns) {
    if (!each.ctx->shares_with(*ctx)) {
      throw error(errc::invalid_argument,
                  concat("column '", each.described->name, "' is on ", to_string(each.ctx->device()),
                         ", the table on ", to_string(ctx->device()), "; Column.to moves it"));
    }
    const std::int64_t own = total_rows(*each.pieces);
    if (own != rows) {
      throw error(errc::invalid_argument,
                  concat("column '", each.described->name, "' has ", own, " rows, column '",
                         columns.front().described->name, "' has ", rows));
    }
  }
}

/// Lengths of the batches: the piece lengths if all columns have the same, otherwise the distances between
/// the ends of all pieces.
std::vector<std::int64_t> batch_lengths(const std::vector<column_object>& columns) {
  const std::vector<std::int64_t> first = lengths_of(columns.front());
  if (std::ranges::all_of(columns, [&](const column_object& each) { return lengths_of(each) == first; })) {
    return first;
  }
  std::set<std::int64_t> ends;
  for (const column_object& each : columns) {
    std::int64_t end = 0;
    for (const std::int64_t length : lengths_of(each)) {
      ends.insert(end += length);
    }
  }
  std::vector<std::int64_t> lengths;
  std::int64_t start = 0;
  for (const std::int64_t end : ends) {
    if (end > start) {
      lengths.push_back(end - start);
      start = end;
    }
  }
  return lengths;
}

/// Cuts the pieces of a column into batches. Every batch ends no later than the piece in which it starts.
std::vector<column> cut(const std::vector<column>& pieces, const std::vector<std::int64_t>& lengths) {
  std::vector<column> result;
  auto piece = pieces.begin();
  std::int64_t used = 0;
  for (const std::int64_t length : lengths) {
    while (piece->length() == used) {
      ++piece;
      used = 0;
    }
    result.push_back(piece->slice(used, length));
    used += length;
  }
  return result;
}

} // namespace

std::vector<column> slice_pieces(const std::vector<column>& pieces, std::int64_t offset,
                                 std::int64_t length) {
  const std::int64_t rows = total_rows(pieces);
  if (offset < 0 || length < 0 || offset > rows || length > rows - offset) {
    throw error(errc::out_of_range,
                concat("rows [", offset, ", ", offset, " + ", length, ") of a column with ", rows, " rows"));
  }
  std::vector<column> result;
  std::int64_t start = 0; // first row of the piece
  for (const column& piece : pieces) {
    const std::int64_t from = std::max(offset - start, std::int64_t{0});
    const std::int64_t to = std::min(offset + length - start, piece.length());
    if (from < to) {
      result.push_back(piece.slice(from, to - from));
    }
    start += piece.length();
  }
  return result;
}

column single_piece(const column_object& source, const char* protocol) {
  const std::vector<column>& pieces = *source.pieces;
  if (pieces.size() > 1) {
    throw error(
        errc::exchange,
        concat("column '", source.described->name, "' has ", pieces.size(), " chunks and ", protocol,
               " exports one array: .combine_chunks() joins the chunks, .chunks has them one by one"));
  }
  if (pieces.size() == 1) {
    return pieces.front();
  }
  return column::empty(source.ctx, source.described->type);
}

joined_rows join_pieces(const column_object& source, copy_policy copy) {
  const std::vector<column>& pieces = *source.pieces;
  if (pieces.size() <= 1) {
    return {single_piece(source, "an array"), false};
  }
  const auto with_rows =
      std::ranges::count_if(pieces, [](const column& piece) { return piece.length() != 0; });
  if (with_rows > 1 && copy == copy_policy::never) {
    throw error(errc::exchange, concat("column '", source.described->name, "' has ", pieces.size(),
                                       " chunks, which one array can't view, and a copy was forbidden"));
  }
  const std::vector<column> joined = combine_chunks(pieces);
  if (joined.size() > 1) {
    throw error(errc::exchange, concat("column '", source.described->name, "' has ", pieces.size(),
                                       " chunks, which can be joined to ", joined.size(),
                                       " chunks, not to one: its offsets or indices can't count all rows"));
  }
  return {joined.front(), with_rows > 1};
}

table as_table(const column_object& source) {
  std::vector<batch> batches;
  for (const column& piece : *source.pieces) {
    batches.push_back({piece.length(), {piece}});
  }
  schema fields{{{"", source.described->type, true, source.described->metadata}}, {}};
  return table::make(source.ctx, std::move(fields), std::move(batches));
}

bool same_view(const std::vector<column>& a, const std::vector<column>& b) {
  const auto rows = [](const std::vector<column>& pieces) {
    std::vector<const column*> result;
    for (const column& piece : pieces) {
      if (piece.length() > 0) {
        result.push_back(&piece);
      }
    }
    return result;
  };
  // Columns over the same memory share one type object, so its address identifies the memory.
  return std::ranges::equal(rows(a), rows(b), [](const column* left, const column* right) {
    return &left->type() == &right->type() && left->offset() == right->offset() &&
           left->length() == right->length();
  });
}

void refuse_comparison(const char* what) {
  throw error(errc::unsupported,
              concat("== does not compare the values of two ", what, " in different memory: use equals()"));
}

table assemble(const std::shared_ptr<context>& ctx, const std::vector<column_object>& columns,
               const metadata_list& metadata) {
  schema fields{{}, metadata};
  std::vector<batch> batches;
  if (!columns.empty()) {
    require_same_shape(ctx, columns);
    const std::vector<std::int64_t> lengths = batch_lengths(columns);
    for (const std::int64_t length : lengths) {
      batches.push_back({length, {}});
    }
    for (const column_object& each : columns) {
      fields.fields.push_back(*each.described);
      std::vector<column> parts = lengths == lengths_of(each) ? *each.pieces : cut(*each.pieces, lengths);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        batches[i].columns.push_back(std::move(parts[i]));
      }
    }
  }
  return table::make(ctx, std::move(fields), std::move(batches));
}

} // namespace saeta::py
