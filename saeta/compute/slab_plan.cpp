#include "saeta/compute/slab_plan.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/column/column.hpp"
#include "saeta/column/schema.hpp"
#include "saeta/device/kernels.hpp"

namespace saeta {

counted_limit limit_of(const data_type& type) noexcept {
  constexpr std::int64_t most32 = std::numeric_limits<std::int32_t>::max();
  constexpr std::int32_t width32 = sizeof(std::int32_t);
  if (type.mapping() == row_mapping::run_ends) {
    const int bits = 8 * type.children()[0].type.byte_width();
    return {counted_rows::own, static_cast<std::int64_t>((std::uint64_t{1} << (bits - 1)) - 1)};
  }
  const buffer_spec spec = type.buffer(1);
  const bool counts = spec.role == buffer_role::offsets || spec.role == buffer_role::starts ||
                      spec.role == buffer_role::union_rows;
  if (!counts || spec.width != width32) {
    return {};
  }
  return {type.children().empty() ? counted_rows::pointed : counted_rows::of_children, most32};
}

namespace {

/// With more padded places than this the whole slab is zeroed, instead of each padding.
constexpr std::size_t most_padded = 16'384;

std::uint64_t as_byte(std::int64_t number) noexcept { return static_cast<std::uint64_t>(number); }

} // namespace

slab_place slab_plan::add_place(std::size_t bytes, bool bits, bool padded) {
  if (bytes == 0) {
    return {};
  }
  std::uint64_t& used = bits ? bits_bytes_ : other_bytes_;
  const slab_place place{used, bytes, bits};
  used = checked_add(used, std::uint64_t{round_up(bytes, padding)}, what_);
  if (padded) {
    pad(place);
  }
  return place;
}

slab_place slab_plan::add_buffer(const data_type& type, std::size_t index, std::int64_t rows,
                                 std::int64_t pointed, bool padded) {
  const buffer_spec spec = type.buffer(index);
  if (spec.is_bitmap()) {
    return add_place(bitmap_bytes(rows), true);
  }
  return spec.role == buffer_role::bytes ? add_place(static_cast<std::size_t>(pointed), false, padded)
                                         : add_place(required_bytes(type, index, rows));
}

void slab_plan::pad(const slab_place& place) {
  if (place.present() && !place.bits && place.bytes % padding != 0) {
    padded_.push_back(place);
  }
}

void slab_plan::end_layout() {
  made_.counters_at = static_cast<std::size_t>(bits_bytes_);
  bits_bytes_ = checked_add(bits_bytes_,
                            std::uint64_t{round_up(made_.counters * sizeof(std::int64_t), padding)}, what_);
  made_.slab_bytes = static_cast<std::size_t>(checked_add(bits_bytes_, other_bytes_, what_));
  made_.zeroed_bytes =
      static_cast<std::size_t>(padded_.size() > most_padded ? made_.slab_bytes : bits_bytes_);
}

void slab_plan::add_copy(std::uint64_t source, const slab_place& to, std::uint64_t byte, std::int64_t bytes) {
  if (bytes == 0) {
    return;
  }
  const std::uint64_t target = byte_of(to) + byte;
  if (one_source_ && !made_.steps.empty()) {
    scatter_step& before = made_.steps.back();
    const auto copied = static_cast<std::uint64_t>(before.count);
    if (before.kind == join_kind::copy && before.source + copied == source &&
        before.target + copied == target) {
      before.count += bytes;
      return;
    }
  }
  scatter_step& step = made_.steps.emplace_back();
  step.source = source;
  step.target = target;
  step.count = bytes;
}

void slab_plan::add_values(const piece_rows& piece, std::size_t index, std::int32_t width,
                           const slab_place& to) {
  add_copy(piece.at[index] + as_byte(piece.first * width), to, as_byte(piece.row_base * width),
           piece.rows * width);
}

scatter_step& slab_plan::add_changed(join_kind kind, const piece_rows& piece, std::size_t index,
                                     std::int32_t width, const slab_place& to) {
  scatter_step& step = made_.steps.emplace_back();
  step.kind = kind;
  step.width = width;
  step.source = piece.at[index] + as_byte(piece.first * width);
  step.target = byte_of(to) + as_byte(piece.row_base * width);
  step.count = piece.rows;
  return step;
}

void slab_plan::add_bits(const piece_rows& piece, std::size_t index, const slab_place& to,
                         std::uint32_t counter) {
  scatter_step& step = made_.steps.emplace_back();
  step.kind = join_kind::bits;
  step.source = piece.at[index] + as_byte(piece.first / 8);
  step.target = byte_of(to);
  step.count = piece.rows;
  step.bits = {.source_first = piece.first % 8, .target_first = piece.row_base, .counter = counter};
}

void slab_plan::add_unchanged(const piece_rows& piece, const data_type& type, std::size_t index,
                              const slab_place& to) {
  const buffer_spec spec = type.buffer(index);
  if (spec.is_bitmap()) {
    return add_bits(piece, index, to);
  }
  if (spec.role == buffer_role::bytes) {
    return add_copy(piece.at[index] + as_byte(piece.pointed_first), to, as_byte(piece.pointed_base),
                    piece.pointed);
  }
  add_values(piece, index, spec.width, to);
}

void slab_plan::add_ones(const piece_rows& piece, const slab_place& to, std::size_t& last) {
  if (last < made_.fills.size()) {
    scatter_step& before = made_.fills[last];
    if (before.bits.target_first + before.count == piece.row_base) {
      before.count += piece.rows;
      return;
    }
  }
  last = made_.fills.size();
  scatter_step& step = made_.fills.emplace_back();
  step.kind = join_kind::ones;
  step.target = byte_of(to);
  step.bits.target_first = piece.row_base;
  step.count = piece.rows;
}

scatter_step& slab_plan::add_offsets(const piece_rows& piece, std::int32_t width, const slab_place& to,
                                     bool is_last) {
  scatter_step& step = add_changed(join_kind::add, piece, 1, width, to);
  step.count += is_last ? 1 : 0;
  step.add = {piece.pointed_base - piece.pointed_first};
  return step;
}

void slab_plan::add_run_ends(const piece_rows& piece, const piece_rows& ends, std::int32_t width,
                             const slab_place& to) {
  scatter_step& step = add_changed(join_kind::run_ends, ends, 1, width, to);
  step.run_ends = {.first_row = piece.first, .rows = piece.rows, .base = piece.row_base};
}

void slab_plan::clear_steps() noexcept {
  made_.steps.clear();
  made_.fills.clear();
}

void slab_plan::clear_padding() {
  if (made_.zeroed_bytes == made_.slab_bytes) {
    return;
  }
  for (const slab_place& place : padded_) {
    scatter_step& step = made_.fills.emplace_back();
    step.kind = join_kind::zero;
    step.target = byte_of(place) + place.bytes;
    step.count = static_cast<std::int64_t>(padding - place.bytes % padding);
  }
}

} // namespace saeta
