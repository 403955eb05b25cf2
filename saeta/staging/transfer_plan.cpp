#include "saeta/staging/transfer_plan.hpp"

#include "saeta/base/checked.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace saeta {
namespace {

constexpr std::size_t slab_alignment = 64;
/// Alignment that kernels need: a device faults on a load from an address that is not a multiple of its
/// width.
constexpr std::size_t value_alignment = 8;

std::uintptr_t begin_of(std::span<const std::byte> range) {
  return reinterpret_cast<std::uintptr_t>(range.data());
}
std::uintptr_t end_of(std::span<const std::byte> range) { return begin_of(range) + range.size(); }

/// The host addresses that one segment will carry.
struct run {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  std::size_t ranges = 0; ///< if more than one, the phase of the addresses must be kept
  bool even = true;       ///< all begin at a multiple of `value_alignment` from the first
};

} // namespace

std::size_t transfer_plan::add(std::span<const std::byte> range) {
  ranges_.push_back(range);
  return ranges_.size() - 1;
}

std::size_t transfer_plan::add_own(std::span<const std::byte> range) {
  own_.push_back(ranges_.size());
  return add(range);
}

std::vector<std::size_t> transfer_plan::take_overlapping(std::vector<std::size_t>& order) const {
  std::vector<std::size_t> taken;
  if (own_.empty()) {
    return taken;
  }
  std::uintptr_t end_before = 0; // latest end of the ranges that begin earlier
  for (std::size_t at = 0; at < order.size(); ++at) {
    const std::size_t i = order[at];
    const bool overlaps = begin_of(ranges_[i]) < end_before ||
                          (at + 1 < order.size() && begin_of(ranges_[order[at + 1]]) < end_of(ranges_[i]));
    if (overlaps && std::ranges::binary_search(own_, i)) {
      taken.push_back(i);
    }
    end_before = std::max(end_before, end_of(ranges_[i]));
  }
  std::ranges::sort(taken);
  std::erase_if(order, [&](std::size_t i) { return std::ranges::binary_search(taken, i); });
  return taken;
}

void transfer_plan::finish() {
  if (ranges_.size() == 1 && !ranges_[0].empty()) { // without the lists that many ranges need
    segments_.push_back({ranges_[0].data(), ranges_[0].size(), 0});
    targets_.push_back(0);
    slab_bytes_ = round_up(ranges_[0].size(), slab_alignment);
    return;
  }
  std::vector<std::size_t> order(ranges_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::erase_if(order, [&](std::size_t i) { return ranges_[i].empty(); });
  const auto earlier = [&](std::size_t a, std::size_t b) {
    return begin_of(ranges_[a]) < begin_of(ranges_[b]);
  };
  if (!std::ranges::is_sorted(order, earlier)) {
    std::ranges::sort(order, earlier);
  }
  const std::vector<std::size_t> alone = take_overlapping(order);

  const auto joins = [&](const run& before, std::uintptr_t next) {
    if (next < before.end) {
      return true;
    }
    if (next == before.end && (next - before.begin) % value_alignment == 0) {
      return true;
    }
    return next - before.end <= max_gap && before.end >= begin_of(readable_) && next <= end_of(readable_);
  };
  const auto lay_out = [&](const run& r) {
    // Ranges that travel together keep their alignment relative to each other. A lone range starts on a fresh
    // boundary, and so do ranges that are all misaligned by the same amount.
    const bool shifted = r.even && r.begin % value_alignment != 0;
    const std::size_t phase = r.ranges > 1 && !shifted ? r.begin % slab_alignment : 0;
    const std::size_t target =
        checked_add(round_up(slab_bytes_, slab_alignment), phase, "slab of a transfer");
    segments_.push_back({reinterpret_cast<const std::byte*>(r.begin), r.end - r.begin, target});
    slab_bytes_ = checked_add(target, r.end - r.begin, "slab of a transfer");
  };
  segments_.reserve(order.size());
  run last;
  for (const std::size_t i : order) {
    if (last.ranges == 0 || !joins(last, begin_of(ranges_[i]))) {
      if (last.ranges != 0) {
        lay_out(last);
      }
      last = {begin_of(ranges_[i]), end_of(ranges_[i])};
    }
    last.even &= (begin_of(ranges_[i]) - last.begin) % value_alignment == 0;
    last.end = std::max(last.end, end_of(ranges_[i]));
    ++last.ranges;
  }
  if (last.ranges != 0) {
    lay_out(last);
  }
  targets_.resize(ranges_.size());
  // Segments of runs do not overlap and are in the order of the ranges.
  const segment* carrier = segments_.begin();
  for (const std::size_t i : order) {
    while (begin_of(ranges_[i]) >= end_of({carrier->source, carrier->bytes})) {
      ++carrier;
    }
    targets_[i] = carrier->target + (begin_of(ranges_[i]) - begin_of({carrier->source, carrier->bytes}));
  }
  for (const std::size_t i : alone) {
    targets_[i] = round_up(slab_bytes_, slab_alignment);
    segments_.push_back({ranges_[i].data(), ranges_[i].size(), targets_[i]});
    slab_bytes_ = checked_add(targets_[i], ranges_[i].size(), "slab of a transfer");
  }
  slab_bytes_ = round_up(slab_bytes_, slab_alignment);
}

std::size_t transfer_plan::target_of(std::size_t number) const { return targets_[number]; }

std::size_t transfer_plan::bytes_of(std::size_t number) const { return ranges_[number].size(); }

} // namespace saeta
