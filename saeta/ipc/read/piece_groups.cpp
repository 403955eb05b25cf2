#include "saeta/base/checked.hpp"
#include "saeta/ipc/read/piece_table.hpp"

namespace saeta::ipc::detail {
namespace {

/// The most rows or values that the 32-bit offsets or the short run ends of a node can count.
struct node_limit {
  std::size_t node = 0;
  bool pointed = false; ///< limits what the rows point to, not the rows
  std::int64_t most = 0;
};

std::vector<node_limit> limits_of(const column_tree& tree) {
  std::vector<node_limit> limits;
  for (std::size_t number = 0; number < tree.nodes.size(); ++number) {
    const tree_node& node = tree.nodes[number];
    const counted_limit limit = limit_of(*node.type);
    switch (limit.what) {
    case counted_rows::nothing:
      break;
    case counted_rows::own:
    case counted_rows::pointed:
      limits.push_back({number, limit.what == counted_rows::pointed, limit.most});
      break;
    case counted_rows::of_children:
      for (std::size_t child = number + 1; child != node.end; child = tree.nodes[child].end) {
        limits.push_back({child, false, limit.most});
      }
      break;
    }
  }
  return limits;
}

} // namespace

std::vector<piece_group> take_groups(piece_table& pieces, const std::function<bool(std::size_t piece)>& cut) {
  const std::size_t nodes = pieces.tree->nodes.size();
  const std::vector<node_limit> limits = limits_of(*pieces.tree);
  std::vector<piece_group> groups;
  for (std::size_t piece = 0; piece < pieces.messages.size(); ++piece) {
    bool fresh = groups.empty() || cut(piece);
    for (const node_limit& limit : limits) {
      if (fresh) {
        break;
      }
      const piece_span& added = pieces.span(piece, limit.node);
      const node_sums& sums = groups.back().sums[limit.node];
      const std::int64_t known = limit.pointed ? sums.pointed : sums.rows;
      fresh = (limit.pointed ? added.pointed : added.rows) > limit.most - known;
    }
    if (fresh) {
      groups.push_back({piece, piece, std::vector<node_sums>(nodes)});
    }
    piece_group& group = groups.back();
    group.end = piece + 1;
    for (std::size_t node = 0; node < nodes; ++node) {
      piece_span& span = pieces.span(piece, node);
      node_sums& sums = group.sums[node];
      span.row_base = sums.rows;
      span.pointed_base = sums.pointed;
      sums.rows = checked_add(span.row_base, span.rows, "rows of a column");
      sums.pointed = checked_add(span.pointed_base, span.pointed, "bytes of a column");
      sums.counts_nulls = sums.counts_nulls || span.nulls != 0;
    }
  }
  return groups;
}

} // namespace saeta::ipc::detail
