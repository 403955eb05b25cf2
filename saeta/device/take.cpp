#include "saeta/device/take.hpp"

#include "saeta/device/take_ranges.hpp"

#include <algorithm>
#include <cstring>

namespace saeta {
namespace {

using namespace take_rows;

/// Values of `bytes` bytes each. A constant number makes the copies single moves. Everything that the loop
/// reads is in local variables, because a store of bytes may change any other memory.
template <class Bytes>
void take_values(const take_step& step, const take_source* sources, Bytes bytes) noexcept {
  const auto size = static_cast<std::size_t>(bytes);
  const auto place = [bytes](const take_source& from, std::int64_t row) {
    return static_cast<const std::byte*>(from.values) + (from.first + row) * bytes;
  };
  const bool single = step.pieces == 1 && step.from.values != nullptr; // null: all rows are null
  const std::byte* const only = single ? place(step.from, 0) : nullptr;
  const take_source* const pieces = sources + step.first_source;
  const std::int64_t* const rows = step.rows;
  const std::int64_t count = step.count;
  const int null_byte = static_cast<unsigned char>(step.code);
  auto* to = static_cast<std::byte*>(step.target);
  for (std::int64_t at = 0; at < count; ++at, to += bytes) {
    const std::int64_t chosen = rows[at];
    if (chosen == row_of_null) {
      std::memset(to, null_byte, size);
    } else if (only != nullptr) {
      std::memcpy(to, only + chosen * bytes, size);
    } else {
      std::memcpy(to, place(pieces[number_of_piece(chosen)], row_in_piece(chosen)), size);
    }
  }
}

template <std::int64_t Bytes>
using constant = std::integral_constant<std::int64_t, Bytes>;

void take_values(const take_step& step, const take_source* sources) noexcept {
  switch (const std::int64_t bytes = std::int64_t{step.width} * step.units) {
  case 1:
    return take_values(step, sources, constant<1>{});
  case 2:
    return take_values(step, sources, constant<2>{});
  case 4:
    return take_values(step, sources, constant<4>{});
  case 8:
    return take_values(step, sources, constant<8>{});
  case 16:
    return take_values(step, sources, constant<16>{});
  default:
    return take_values(step, sources, bytes);
  }
}

bool bit_at(const take_step& step, const take_source* sources, std::int64_t at) noexcept {
  const std::int64_t chosen = step.rows[at];
  if (chosen == row_of_null) {
    return false;
  }
  const take_source& from = source_of(step, sources, chosen);
  const std::int64_t entry = from.first + row_in_piece(chosen);
  return step.kind == take_kind::validity ? is_valid(from, entry)
                                          : bit(static_cast<const std::uint8_t*>(from.values), entry);
}

void take_bits(const take_step& step, const take_source* sources) noexcept {
  constexpr std::int64_t word = 32;
  auto* const target = static_cast<std::uint32_t*>(step.target);
  for (std::int64_t first = 0; first < step.count; first += word) {
    std::uint32_t bits = 0;
    for (std::int64_t at = first; at < std::min(first + word, step.count); ++at) {
      bits |= static_cast<std::uint32_t>(bit_at(step, sources, at)) << (at - first);
    }
    target[first / word] = bits;
  }
}

void take_views(const take_step& step, const take_source* sources) noexcept {
  constexpr std::size_t words = 4;
  constexpr std::int32_t inline_bytes = 12;
  auto* to = static_cast<std::byte*>(step.target);
  for (std::int64_t at = 0; at < step.count; ++at) {
    std::int32_t view[words] = {};
    if (const std::int64_t chosen = step.rows[at]; chosen != row_of_null) {
      const take_source& from = source_of(step, sources, chosen);
      const std::int64_t entry = from.first + row_in_piece(chosen);
      std::memcpy(view, static_cast<const std::byte*>(from.values) + entry * std::int64_t{sizeof view},
                  sizeof view);
      if (view[0] > inline_bytes) {
        view[2] += static_cast<std::int32_t>(from.limit);
      }
    }
    std::memcpy(to + at * std::int64_t{sizeof view}, view, sizeof view);
  }
}

void take_indices(const take_step& step, const take_source* sources) noexcept {
  auto* const target = static_cast<std::int64_t*>(step.target);
  for (std::int64_t at = 0; at < step.count; ++at) {
    const found_index index = index_at(step, sources, at);
    target[at] = index.chosen;
    if (index.is_bad && step.found[0] == no_row) {
      step.found[0] = at;
    }
    if (index.is_null) {
      step.found[1] = 0;
    }
  }
}

/// Whether a step has a mask of bytes without nulls, as those of NumPy are, over one piece. Its loops have no
/// branch for a row, because a random mask would mispredict half of them.
bool is_plain_mask(const take_step& step) noexcept {
  return step.kind == take_kind::mask && step.width != 0 && step.pieces == 1 && step.from.validity == nullptr;
}

std::int64_t count_flags(const take_step& step, std::int64_t first, std::int64_t end) noexcept {
  const auto* const flags = static_cast<const std::uint8_t*>(step.from.values) + step.from.first;
  std::int64_t count = 0;
  for (std::int64_t at = first; at < end; ++at) {
    count += flags[at] != 0 ? 1 : 0;
  }
  return count;
}

void take_plain_mask(const take_step& step) noexcept {
  const auto* const flags = static_cast<const std::uint8_t*>(step.from.values) + step.from.first;
  auto* const target = static_cast<std::int64_t*>(step.target);
  const std::int64_t total = count_flags(step, 0, step.count);
  std::int64_t next = 0;
  for (std::int64_t at = 0; next < total; ++at) { // a row that is not set is overwritten by the next one
    target[next] = step.limit + at;
    next += flags[at] != 0 ? 1 : 0;
  }
}

void take_counted(const take_step& step, const take_source* sources) noexcept {
  if (is_plain_mask(step)) {
    take_plain_mask(step);
    return;
  }
  std::int64_t before = 0;
  for (std::int64_t at = 0; at < step.count; ++at) {
    const taken_range range = range_at(step, sources, at);
    write_counted(step, sources, at, range, before);
    before += range.count;
  }
}

/// Makes each row by itself.
template <class RowAt>
void make_rows(const take_step& step, RowAt row_at) noexcept {
  for (std::int64_t at = 0; at < step.count; ++at) {
    static_cast<std::int64_t*>(step.target)[at] = row_at(at);
  }
}

/// Calls `run(list, first, count)` for each list with `count` bytes or child rows from `first` of the target.
template <class Run>
void for_each_list(const take_step& step, const take_source* sources, Run run) noexcept {
  for (std::int64_t i = 0; i < step.lists; ++i) {
    const taken_list list = list_at(step, sources, i);
    const std::int64_t end = i + 1 == step.lists ? step.count : load_signed(step.starts, step.width, i + 1);
    if (end > list.start) {
      run(list, list.start, end - list.start);
    }
  }
}

void take_bytes(const take_step& step, const take_source* sources) noexcept {
  auto* const target = static_cast<std::byte*>(step.target);
  for_each_list(step, sources, [&](const taken_list& list, std::int64_t first, std::int64_t count) {
    std::memcpy(target + first, list.bytes + list.source, static_cast<std::size_t>(count));
  });
}

void take_list_rows(const take_step& step, const take_source* sources) noexcept {
  auto* const target = static_cast<std::int64_t*>(step.target);
  for_each_list(step, sources, [&](const taken_list& list, std::int64_t first, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      target[first + i] = chosen_row(list.piece, list.source + i);
    }
  });
}

void run(const take_step& step, const take_source* sources) noexcept {
  switch (step.kind) {
  case take_kind::indices:
    return take_indices(step, sources);
  case take_kind::values:
    return take_values(step, sources);
  case take_kind::bits:
  case take_kind::validity:
    return take_bits(step, sources);
  case take_kind::views:
    return take_views(step, sources);
  case take_kind::filled:
    return make_rows(step, [&](std::int64_t at) { return filled_row_at(step, sources, at); });
  case take_kind::runs:
    return make_rows(step, [&](std::int64_t at) { return run_at(step, sources, at); });
  case take_kind::child_rows:
    for (std::int64_t at = 0; at < step.count; ++at) {
      write_child_row(step, at);
    }
    return;
  case take_kind::bytes:
  case take_kind::view_bytes:
    return take_bytes(step, sources);
  case take_kind::list_rows:
    return take_list_rows(step, sources);
  case take_kind::fixed_rows:
    return make_rows(step, [&](std::int64_t at) { return fixed_row_at(step, at); });
  case take_kind::mask:
  case take_kind::own_views:
  case take_kind::offsets:
  case take_kind::list_views:
  case take_kind::union_rows:
  case take_kind::run_ends:
    return take_counted(step, sources);
  }
}

} // namespace

void take_now(std::span<const take_step> steps, const take_source* sources) noexcept {
  for (const take_step& step : steps) {
    run(step, sources);
  }
}

void count_taken_now(std::span<const take_step> steps, const take_source* sources, std::int64_t* sums,
                     taken_count* count) noexcept {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const take_step& step = steps[i];
    taken_count counted;
    if (is_plain_mask(step)) {
      for (std::int64_t first = 0; first < step.count; first += take_tile_rows) {
        *sums++ = counted.total;
        counted.total += count_flags(step, first, std::min(first + take_tile_rows, step.count));
      }
      count[i] = counted;
      continue;
    }
    for (std::int64_t at = 0; at < step.count; ++at) {
      if (at % take_tile_rows == 0) {
        *sums++ = counted.total;
      }
      const taken_range range = range_at(step, sources, at);
      counted.total += range.count;
      if (!range.is_good && counted.bad_row == no_row) {
        counted.bad_row = at;
      }
    }
    count[i] = counted;
  }
}

} // namespace saeta
