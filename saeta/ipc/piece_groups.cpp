#include "saeta/base/checked.hpp"
#include "saeta/ipc/detail/piece_table.hpp"

#include <algorithm>
#include <limits>

namespace saeta::ipc::detail {
namespace {

/// What 32-bit offsets, or short run ends, of some node can count.
struct counted_limit {
  std::size_t node = 0;
  bool pointed = false; ///< what its rows point to, instead of its rows
  std::int64_t most = 0;
};

std::vector<counted_limit> limits_of(const column_tree& tree) {
  constexpr std::int64_t most32 = std::numeric_limits<std::int32_t>::max();
  std::vector<counted_limit> limits;
  for (std::size_t number = 0; number < tree.nodes.size(); ++number) {
    const tree_node& node = tree.nodes[number];
    switch (node.type->layout()) {
    case layout_kind::bytes:
    case layout_kind::list:
      if (node.type->offset_width() == sizeof(std::int32_t)) {
        limits.push_back({number, true, most32});
      }
      break;
    case layout_kind::list_view:
      if (node.type->buffer(1).width == sizeof(std::int32_t)) {
        limits.push_back({number + 1, false, most32});
      }
      break;
    case layout_kind::dense_union:
      for (std::size_t child = number + 1; child != node.end; child = tree.nodes[child].end) {
        limits.push_back({child, false, most32});
      }
      break;
    case layout_kind::run_ends: {
      const int bits = 8 * tree.nodes[number + 1].type->byte_width();
      limits.push_back({number, false, static_cast<std::int64_t>((std::uint64_t{1} << (bits - 1)) - 1)});
      break;
    }
    default:
      break;
    }
  }
  return limits;
}

} // namespace

std::vector<piece_group> take_groups(piece_table& pieces, const std::function<bool(std::size_t piece)>& cut) {
  const std::size_t nodes = pieces.tree->nodes.size();
  const std::vector<counted_limit> limits = limits_of(*pieces.tree);
  std::vector<piece_group> groups;
  for (std::size_t piece = 0; piece < pieces.messages.size(); ++piece) {
    bool fresh = groups.empty() || cut(piece);
    for (const counted_limit& limit : limits) {
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
