#include "saeta/staging/chunk_cutter.hpp"

#include <algorithm>

namespace saeta {
namespace {

constexpr std::size_t part_alignment = 64;
constexpr std::size_t step_alignment = alignof(join_step);

/// @param unit  a power of two; a division would take longer than the rest of a step
constexpr std::size_t offset_in(std::uint64_t value, std::size_t unit) noexcept {
  return static_cast<std::size_t>(value) & (unit - 1);
}

constexpr std::size_t aligned_up(std::size_t value, std::size_t unit) noexcept {
  return (value + unit - 1) & ~(unit - 1);
}

/// Bytes of one value in the source. For bits: one byte, which holds eight values.
std::size_t value_bytes(const scatter_step& of) noexcept {
  switch (of.kind) {
  case join_kind::copy:
  case join_kind::bits:
    return 1;
  case join_kind::views:
    return 16;
  default:
    return static_cast<std::size_t>(of.width);
  }
}

/// Alignment that the kernel needs for the address of a value (device/join.hpp).
std::size_t alignment_of(const scatter_step& step) noexcept {
  return std::min<std::size_t>(value_bytes(step), 8);
}

/// The rest of a step after its first `done` values.
scatter_step rest_of(const scatter_step& step, std::int64_t done) noexcept {
  scatter_step rest = step;
  rest.count -= done;
  if (step.kind == join_kind::bits) {
    const std::int64_t first = step.bits.source_first + done;
    rest.source += static_cast<std::uint64_t>(first / 8);
    rest.bits.source_first = first % 8;
    rest.bits.target_first += done;
  } else {
    rest.source += static_cast<std::uint64_t>(done) * value_bytes(step);
    rest.target += static_cast<std::uint64_t>(done) * value_bytes(step);
  }
  return rest;
}

/// Number of values of a step that lie in the first `bytes` of its source.
std::int64_t values_in(const scatter_step& step, std::size_t bytes) noexcept {
  if (bytes >= source_bytes(step)) {
    return step.count;
  }
  const auto values = static_cast<std::int64_t>(bytes / value_bytes(step));
  return step.kind == join_kind::bits ? values * 8 - step.bits.source_first : values;
}

} // namespace

std::size_t source_bytes(const scatter_step& step) noexcept {
  return step.kind == join_kind::bits
             ? static_cast<std::size_t>((step.bits.source_first + step.count + 7) / 8)
             : static_cast<std::size_t>(step.count) * value_bytes(step);
}

std::size_t chunk_cutter::steps_at(const cut_chunk& chunk) noexcept {
  return aligned_up(chunk.bytes, step_alignment);
}

/// Returns the offset in the chunk for a byte of the source: in the last part at the same distance, or in a
/// new part. A part keeps the source's position within 64 bytes if the values are aligned in the source.
std::size_t chunk_cutter::place(const cut_chunk& chunk, std::uint64_t source,
                                std::size_t alignment) const noexcept {
  if (!chunk.parts.empty()) {
    const chunk_part& last = chunk.parts.back();
    const std::uint64_t end = last.source + last.bytes;
    if (source >= last.source && source <= end + max_gap) {
      const std::size_t at = last.at + static_cast<std::size_t>(source - last.source);
      if (offset_in(at, alignment) == 0) {
        return at;
      }
    }
  }
  const std::size_t phase = offset_in(source, alignment) == 0 ? offset_in(source, part_alignment) : 0;
  return aligned_up(chunk.bytes, part_alignment) + phase;
}

std::size_t chunk_cutter::direct_bytes(const scatter_step& step) const noexcept {
  if (step.kind != join_kind::copy) {
    return 0;
  }
  const auto bytes = static_cast<std::size_t>(step.count);
  if (whole_ && ordered(step)) {
    return bytes >= least_whole ? std::min(bytes, most_whole) : 0;
  }
  return bytes >= chunk_bytes_ ? chunk_bytes_ : 0;
}

chunk_cursor chunk_cutter::cut(chunk_cursor at, cut_chunk& chunk) const {
  chunk.parts.clear();
  chunk.steps.clear();
  chunk.bytes = 0;
  chunk.read = 0;
  scatter_step step = rest_of(steps_[at.step], at.done);
  const std::size_t direct = direct_bytes(step);
  chunk.direct = direct != 0;
  const auto add_part = [&](std::uint64_t source, std::size_t place, std::size_t bytes) {
    const std::size_t end = place + bytes;
    if (chunk.parts.empty() || place < chunk.parts.back().at ||
        place - chunk.parts.back().at != source - chunk.parts.back().source) {
      chunk.parts.push_back({source, place, bytes});
      chunk.read += bytes;
    } else if (chunk_part& last = chunk.parts.back(); end > last.at + last.bytes) {
      chunk.read += end - last.at - last.bytes;
      last.bytes = end - last.at;
    }
    chunk.bytes = std::max(chunk.bytes, end);
  };
  if (chunk.direct) {
    add_part(step.source, 0, direct);
    step.source = 0;
    step.count = static_cast<std::int64_t>(direct);
    chunk.steps.push_back(step);
    at.done += step.count;
  }
  while (!chunk.direct) {
    const std::size_t place_of = place(chunk, step.source, alignment_of(step));
    const std::size_t taken = (chunk.steps.size() + 1) * sizeof(join_step) + step_alignment;
    const std::size_t room = chunk_bytes_ > taken + place_of ? chunk_bytes_ - taken - place_of : 0;
    const std::int64_t count = values_in(step, room);
    if (count <= 0) {
      break;
    }
    const bool whole = count == step.count;
    if (!chunk.steps.empty() && ordered(step) && (!whole || direct_bytes(step) != 0)) {
      break;
    }
    step.count = count;
    add_part(step.source, place_of, source_bytes(step));
    step.source = place_of;
    chunk.steps.push_back(step);
    at.done += count;
    if (!whole) {
      break;
    }
    at = {at.step + 1, 0};
    if (done(at)) {
      break;
    }
    step = steps_[at.step];
  }
  if (!done(at) && at.done == steps_[at.step].count) {
    at = {at.step + 1, 0};
  }
  return at;
}

} // namespace saeta
