#include "saeta/staging/chunk_route.hpp"

#include <algorithm>

namespace saeta {
namespace {

bool is_copy(const scatter_step& step) noexcept { return step.kind == join_kind::copy; }

/// True for a chunk of copies that are large on average. Then small copies go without a kernel too: the end
/// of a chunk often cuts off a small part of a large copy, and a kernel for that part alone would cost more.
bool goes_by_copies(const cut_chunk& chunk) noexcept {
  return std::ranges::all_of(chunk.steps, is_copy) &&
         (chunk.steps.size() == 1 || chunk.bytes / chunk.steps.size() >= chunk_route::least_placed);
}

} // namespace

void chunk_route::find(const cut_chunk& chunk) {
  placed.clear();
  joined.clear();
  landed.clear();
  const bool all = goes_by_copies(chunk);
  for (const scatter_step& step : chunk.steps) {
    if (all || (is_copy(step) && source_bytes(step) >= least_placed)) {
      placed.push_back(step);
    } else {
      joined.push_back(step);
      const auto begin = static_cast<std::size_t>(step.source);
      land(begin, begin + source_bytes(step));
    }
  }
}

/// Ranges may overlap, because steps may share bytes of the source.
void chunk_route::land(std::size_t begin, std::size_t end) {
  constexpr std::size_t close = 4096; // a gap this small costs less than another copy
  if (!landed.empty() && begin <= landed.back().end + close) {
    landed.back().end = std::max(landed.back().end, end);
  } else {
    landed.push_back({begin, end});
  }
}

} // namespace saeta
