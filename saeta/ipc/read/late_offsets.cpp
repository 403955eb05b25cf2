// Compressed strings: their offsets are decoded first, into the slab, and then give the range of their bytes.
#include "saeta/base/checked.hpp"
#include "saeta/ipc/common.hpp"
#include "saeta/ipc/read/whole_plan.hpp"

#include <algorithm>

namespace saeta::ipc::detail {

void sort_by_source(std::vector<scatter_step>& steps) {
  const auto earlier = [](const scatter_step& a, const scatter_step& b) { return a.source < b.source; };
  if (!std::ranges::is_sorted(steps, earlier)) {
    std::ranges::stable_sort(steps, earlier);
  }
}

bool has_deferred_bytes(const piece_table& pieces, const piece_group& group, std::size_t number) {
  if (pieces.tree->nodes[number].type->offset_width() == 0) {
    return false;
  }
  for (std::size_t piece = group.first; piece != group.end; ++piece) {
    if (pieces.span(piece, number).deferred) {
      return true;
    }
  }
  return false;
}

void whole_plan::add_deferred_offsets(const planned_table& table) {
  for (const planned_group& group : table.groups) {
    for (std::size_t number = 0; number < group.nodes.size(); ++number) {
      if (!has_deferred_bytes(table.pieces, group.pieces, number)) {
        continue;
      }
      for (std::size_t piece = group.pieces.first; piece != group.pieces.end; ++piece) {
        const piece_span& span = table.pieces.span(piece, number);
        if (!span.deferred) {
          continue;
        }
        const std::size_t width = table.pieces.tree->nodes[number].type->offset_width();
        const bool last = span.row_base + span.rows == group.pieces.sums[number].rows;
        scatter_step& step = slab_.plan().early.emplace_back();
        step.source = span.at[1] + static_cast<std::uint64_t>(span.first) * width;
        step.target =
            byte_of(group.nodes[number].buffers[1]) + static_cast<std::uint64_t>(span.row_base) * width;
        step.count = (span.rows + (last ? 1 : 0)) * static_cast<std::int64_t>(width);
      }
    }
  }
  sort_by_source(slab_.plan().early);
}

void whole_plan::settle_bytes(planned_table& table, planned_group& group, std::size_t number,
                              const std::function<seen_borders(std::uint64_t at)>& borders) {
  piece_table& pieces = table.pieces;
  const data_type& type = *pieces.tree->nodes[number].type;
  std::int64_t pointed = 0;
  for (std::size_t piece = group.pieces.first; piece != group.pieces.end; ++piece) {
    piece_span& span = pieces.span(piece, number);
    if (span.deferred) {
      try {
        const seen_borders seen = borders(span.at[1]);
        name_pointed(type, span, seen.first, seen.last);
      } catch (const error& failure) {
        rethrow(failure, concat(pieces.place(piece), ": ", pieces.tree->label(number)));
      }
    }
    span.pointed_base = pointed;
    pointed += span.pointed; // at most the size that was laid out
  }
  group.pieces.sums[number].pointed = pointed;
  slab_place& bytes = group.nodes[number].buffers[2];
  bytes = pointed == 0 ? slab_place() : slab_place{bytes.at, static_cast<std::uint64_t>(pointed), bytes.bits};
  slab_.pad(bytes);
}

void whole_plan::settle(planned_table& table, const std::function<seen_borders(std::uint64_t at)>& borders) {
  for (planned_group& group : table.groups) {
    for (std::size_t number = 0; number < group.nodes.size(); ++number) {
      if (has_deferred_bytes(table.pieces, group.pieces, number)) {
        settle_bytes(table, group, number, borders);
      }
    }
  }
}

} // namespace saeta::ipc::detail
