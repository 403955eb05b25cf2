#include "saeta/ipc/read/body_ranges.hpp"

#include <algorithm>

namespace saeta::ipc::detail {
namespace {

constexpr std::int64_t small_gap = 4096; // bytes; reading them costs less than another call

} // namespace

std::vector<buffer_place> body_ranges(const batch_layout& batch, const column_tree& tree) {
  std::vector<buffer_place> taken;
  node_buffers buffers(batch);
  for (const tree_node& node : tree.nodes) {
    const auto [first, count] = buffers.next(node);
    for (std::size_t i = first; i < first + count; ++i) {
      if (const buffer_place place = batch.buffers[i]; place.length != 0) {
        taken.push_back(place);
      }
    }
  }
  std::ranges::sort(taken, {}, &buffer_place::offset);
  std::vector<buffer_place> joined;
  for (const buffer_place& place : taken) {
    if (!joined.empty() && place.offset - (joined.back().offset + joined.back().length) <= small_gap) {
      buffer_place& last = joined.back();
      last.length = std::max(last.length, place.offset + place.length - last.offset);
    } else {
      joined.push_back(place);
    }
  }
  return joined;
}

} // namespace saeta::ipc::detail
