#include "saeta/compute/combine.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/compute/join_node.hpp"
#include "saeta/compute/join_slab.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/transfer/download.hpp"

#include <algorithm>
#include <iterator>

namespace saeta {
namespace {

/// Appends the nodes whose dictionaries must be compared, children included.
void append_compared(std::vector<join_node>& nodes, std::vector<join_node*>& found) {
  for (join_node& node : nodes) {
    if (node.dictionary && !node.dictionary->is_one() && node.dictionary->compares()) {
      found.push_back(&node);
    }
    append_compared(node.children, found);
  }
}

/// Downloads all dictionaries that must be compared, in one transfer. Returns the owner of their values.
std::shared_ptr<void> fetch_dictionaries(const std::shared_ptr<context>& ctx, std::vector<join_node>& nodes) {
  std::vector<join_node*> compared;
  append_compared(nodes, compared);
  batch wanted;
  for (const join_node* const node : compared) {
    const auto& distinct = node->dictionary->distinct();
    wanted.columns.insert(wanted.columns.end(), distinct.begin(), distinct.end());
  }
  if (wanted.columns.empty()) {
    return nullptr;
  }
  host_batch there = download(ctx, wanted);
  if (ctx->on_host()) { // nothing was copied: wait for pending writes
    std::vector<use> uses;
    for (const column& column : wanted.columns) {
      std::ranges::transform(column.buffers(), std::back_inserter(uses), reads);
    }
    const use_token written(ctx->work_stream(), uses);
  }
  std::size_t next = 0;
  for (join_node* const node : compared) {
    std::vector<host_array> values;
    for (std::size_t i = 0; i < node->dictionary->distinct().size(); ++i) {
      values.push_back(std::move(there.arrays[next++]));
    }
    node->dictionary->set_values(std::move(values));
  }
  return there.keepalive;
}

/// Takes pieces from `first` on while all nodes have room. Returns the end of the group.
std::size_t take_group(std::vector<join_node>& nodes, std::size_t first, std::size_t pieces) {
  for (join_node& node : nodes) {
    node.begin_group();
  }
  std::size_t end = first;
  const auto has_room = [&](const join_node& node) { return node.fits(end); };
  while (end < pieces && (end == first || std::ranges::all_of(nodes, has_room))) {
    for (join_node& node : nodes) {
      node.take(end);
    }
    ++end;
  }
  return end;
}

/// @param columns  at least two pieces have rows
std::vector<batch> join(const std::shared_ptr<context>& ctx, std::span<const column_pieces> columns) {
  std::vector<join_node> nodes = join_nodes(ctx, columns);
  const std::shared_ptr<void> dictionaries = fetch_dictionaries(ctx, nodes);
  const std::size_t pieces = columns.front().size();
  std::vector<batch> batches;
  for (std::size_t first = 0; first < pieces;) {
    const std::size_t end = take_group(nodes, first, pieces);
    batch& joined = batches.emplace_back();
    joined.rows = nodes.front().rows;
    if (end - first == 1) {
      for (const column_pieces& of : columns) {
        joined.columns.push_back(*of[first]);
      }
    } else {
      joined.columns = join_slab(ctx, nodes, first, end).columns();
    }
    first = end;
  }
  return batches;
}

void require_same(std::span<const column> pieces) {
  for (const column& piece : pieces) {
    if (piece.type() != pieces.front().type()) {
      throw error(errc::type_mismatch, concat("can't join columns of different types, ",
                                              pieces.front().type().name(), " and ", piece.type().name()));
    }
    if (!piece.ctx()->shares_with(*pieces.front().ctx())) {
      throw error(errc::invalid_argument, concat("can't join columns of different contexts, of ",
                                                 to_string(pieces.front().ctx()->device()), " and of ",
                                                 to_string(piece.ctx()->device())));
    }
  }
}

} // namespace

std::vector<column> combine_chunks(std::span<const column> pieces) {
  if (pieces.empty()) {
    return {};
  }
  require_same(pieces);
  std::vector<column_pieces> columns(1);
  for (const column& piece : pieces) {
    if (piece.length() != 0) {
      columns[0].push_back(&piece);
    }
  }
  if (columns[0].size() <= 1) {
    return {columns[0].empty() ? pieces.front() : *columns[0].front()};
  }
  std::vector<column> result;
  for (batch& batch : join(pieces.front().ctx(), columns)) {
    result.push_back(std::move(batch.columns.front()));
  }
  return result;
}

table combine_chunks(const table& source) {
  std::vector<std::size_t> kept; // batches with rows
  for (std::size_t i = 0; i < source.batches().size(); ++i) {
    if (source.batches()[i].rows != 0) {
      kept.push_back(i);
    }
  }
  if (source.batches().size() <= 1) {
    return source;
  }
  if (kept.size() <= 1) {
    const batch& only = source.batches()[kept.empty() ? 0 : kept.front()];
    return table::make(source.ctx(), source.fields(), {only});
  }
  if (source.column_count() == 0) {
    return table::make(source.ctx(), source.fields(), {batch{source.rows(), {}}});
  }
  std::vector<column_pieces> columns(source.column_count());
  for (column_pieces& pieces : columns) {
    pieces.reserve(kept.size());
  }
  for (const std::size_t i : kept) {
    for (std::size_t c = 0; c < columns.size(); ++c) {
      columns[c].push_back(&source.batches()[i].columns[c]);
    }
  }
  return table::make(source.ctx(), source.fields(), join(source.ctx(), columns));
}

} // namespace saeta
