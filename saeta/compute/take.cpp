#include "saeta/compute/take.hpp"

#include "saeta/base/text.hpp"
#include "saeta/compute/combine.hpp"
#include "saeta/compute/take_level.hpp"

#include <algorithm>
#include <iterator>

namespace saeta {
namespace {

/// The pieces of columns. Every column has the same number of pieces, of the same lengths.
using pieces_of_columns = std::vector<std::vector<column>>;

bool share_dictionaries(std::span<const column* const> pieces) {
  const column& first = *pieces.front();
  if (first.dictionary() != nullptr && !std::ranges::all_of(pieces, [&](const column* each) {
        return each->dictionary() == first.dictionary() ||
               same_memory(*each->dictionary(), *first.dictionary());
      })) {
    return false;
  }
  for (std::size_t i = 0; i < first.children().size(); ++i) {
    std::vector<const column*> children;
    std::ranges::transform(pieces, std::back_inserter(children),
                           [&](const column* each) { return &each->children()[i]; });
    if (!share_dictionaries(children)) {
      return false;
    }
  }
  return true;
}

/// The same pieces with one dictionary, if they have several.
std::vector<column> with_one_dictionary(std::vector<column> pieces) {
  if (pieces.size() == 1) {
    return pieces;
  }
  std::vector<const column*> all;
  for (const column& each : pieces) {
    if (each.length() != 0) {
      all.push_back(&each);
    }
  }
  if (all.size() < 2 || share_dictionaries(all)) {
    return pieces;
  }
  const std::vector<column> whole = combine_chunks(pieces);
  if (whole.size() != 1) {
    throw error(errc::overflow, concat("taking rows of a column of ", pieces.front().type().name(),
                                       ": its indices can't count the values of all dictionaries"));
  }
  std::int64_t first = 0;
  for (column& each : pieces) {
    each = whole.front().slice(first, each.length());
    first += each.length();
  }
  return pieces;
}

/// Adds the memory of a column whose rows are copied. Dictionaries are only shared, and so are the bytes
/// behind views unless the result owns its bytes.
void append_sources(const column& of, bool owns_bytes, storage_reads& to) {
  const auto buffers = of.buffers();
  for (const buffer& each : owns_bytes ? buffers : buffers.first(of.type().buffer_count())) {
    to.add(each);
  }
  for (const column& child : of.children()) {
    append_sources(child, owns_bytes, to);
  }
}

/// @throws error overflow if the values of the rows can't be counted by the types
batch take_whole(const std::shared_ptr<context>& ctx, const pieces_of_columns& columns,
                 const selected_rows& rows, bool owns_bytes = false) {
  const auto shared = std::make_shared<const selected_rows>(rows);
  std::vector<taken_node> nodes;
  nodes.reserve(columns.size());
  for (const std::vector<column>& pieces : columns) {
    nodes.push_back(node_of(pieces, shared, owns_bytes));
  }
  storage_reads sources;
  for (const std::vector<column>& pieces : columns) {
    for (const column& piece : pieces) {
      append_sources(piece, owns_bytes, sources);
    }
  }
  use_token token(ctx->work_stream(), sources.uses()); // keeps the addresses valid
  std::vector<taken_node*> level;
  std::ranges::transform(nodes, std::back_inserter(level), [](taken_node& node) { return &node; });
  while (!level.empty()) {
    take_level current(ctx);
    for (taken_node* const node : level) {
      current.add(*node);
    }
    level = current.run();
  }
  token.finish();
  batch made{rows.count, {}};
  made.columns.reserve(nodes.size());
  for (const taken_node& node : nodes) {
    made.columns.push_back(column_of(ctx, node));
  }
  return made;
}

/// Appends one batch, or two halves if it is too large.
void append_taken(const std::shared_ptr<context>& ctx, const pieces_of_columns& columns,
                  const selected_rows& rows, std::vector<batch>& made) {
  try {
    made.push_back(take_whole(ctx, columns, rows));
    return;
  } catch (const error& why) {
    if (why.code() != errc::overflow || rows.count < 2) {
      throw;
    }
  }
  const std::int64_t half = rows.count / 2;
  append_taken(ctx, columns, rows.slice(0, half), made);
  append_taken(ctx, columns, rows.slice(half, rows.count - half), made);
}

} // namespace

std::vector<std::int64_t> rows_of_pieces(const table& source) {
  std::vector<std::int64_t> made;
  std::ranges::transform(source.batches(), std::back_inserter(made), &batch::rows);
  return made;
}

std::vector<std::int64_t> rows_of_pieces(std::span<const column> source) {
  std::vector<std::int64_t> made;
  std::ranges::transform(source, std::back_inserter(made), &column::length);
  return made;
}

std::vector<column> take(std::span<const column> source, const selected_rows& rows) {
  const std::shared_ptr<context>& ctx = source.front().ctx();
  std::vector<batch> batches;
  append_taken(ctx, {with_one_dictionary({source.begin(), source.end()})}, rows, batches);
  std::vector<column> made;
  made.reserve(batches.size());
  for (batch& each : batches) {
    made.push_back(std::move(each.columns.front()));
  }
  return made;
}

table take(const table& source, const selected_rows& rows) {
  pieces_of_columns columns;
  columns.reserve(source.column_count());
  for (std::size_t i = 0; i < source.column_count(); ++i) {
    std::vector<column> pieces = source.pieces(i);
    if (pieces.empty()) {
      pieces.push_back(column::empty(source.ctx(), source.fields().fields[i].type));
    }
    columns.push_back(with_one_dictionary(std::move(pieces)));
  }
  schema fields = source.fields();
  for (field& each : fields.fields) {
    each.nullable = each.nullable || rows.nullable;
  }
  std::vector<batch> batches;
  append_taken(source.ctx(), columns, rows, batches);
  return table::make(source.ctx(), std::move(fields), std::move(batches));
}

std::vector<column> gather(std::span<const column> source) {
  const std::shared_ptr<context>& ctx = source.front().ctx();
  pieces_of_columns columns;
  columns.reserve(source.size());
  for (const column& each : source) {
    columns.push_back({each});
  }
  return take_whole(ctx, columns, all_rows(ctx, source.front().length()), true).columns;
}

table take(const table& source, std::span<const column> indices) {
  constexpr std::int64_t few_rows = 1 << 16; // a device takes them sooner than the host queues their kernels
  queued_rows queued = queue_rows(source.ctx(), rows_of_pieces(source), indices);
  const bool has_nulls = std::ranges::any_of(
      indices, [](const column& each) { return each.validity().present() && each.known_null_count() != 0; });
  if (has_nulls || queued.rows.count > few_rows) {
    queued.rows.nullable = check_rows(queued, indices);
    return take(source, queued.rows);
  }
  table made = take(source, queued.rows);
  check_rows(queued, indices);
  return made;
}

} // namespace saeta
