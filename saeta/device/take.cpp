#include "saeta/device/take.hpp"

#include "saeta/device/take_ranges.hpp"
#include "saeta/device/with_width.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace saeta {
namespace {

using namespace take_rows;

/// Rows at random places are asked for so many rows before they are read. A core has more of such requests under
/// way than loads, because it need not keep what comes after them: 1M offsets of 4M in 4 in place of 12 ms.
constexpr std::int64_t rows_ahead = 64;

/// Asks for a cache line, without a fault at any address.
inline void prefetch(const void* address) noexcept { __builtin_prefetch(address); }

/// A source of values that is loaded whole before rows in random order are looked up in it: at most the second
/// level of a core's cache, and no more than a few times what is taken.
constexpr std::int64_t most_loaded_bytes = std::int64_t{4} << 20;
constexpr std::int64_t most_loaded_share = 8;
constexpr std::int64_t cache_line = 64;

/// Whether rows go up and down, as those of a permutation do: a quarter of the first ones are smaller than the
/// one before.
bool is_random(const take_step& step) noexcept {
  constexpr std::int64_t looked_at = 256;
  const std::int64_t count = std::min(step.count, looked_at);
  std::int64_t falls = 0;
  for (std::int64_t at = 1; at < count; ++at) {
    falls += step.rows[at] < step.rows[at - 1] ? 1 : 0;
  }
  return count == looked_at && falls > looked_at / 4;
}

/// Reads the whole source in its order, which brings it into the cache at the rate of the memory. Rows in random
/// order wait for the memory one by one: with values of 8 bytes of 2 MiB they take twice as long.
void load_source(const take_step& step, std::span<const take_source> pieces, std::int64_t bytes) noexcept {
  std::int64_t all = 0;
  for (const take_source& piece : pieces) {
    all += piece.count * bytes;
  }
  if (all > most_loaded_bytes || all > step.count * bytes * most_loaded_share || !is_random(step)) {
    return;
  }
  unsigned sum = 0;
  for (const take_source& piece : pieces) {
    const auto* const begin = static_cast<const unsigned char*>(piece.values) + piece.first * bytes;
    for (std::int64_t at = 0; piece.values != nullptr && at < piece.count * bytes; at += cache_line) {
      sum += begin[at];
    }
  }
  [[maybe_unused]] const volatile unsigned loaded = sum; // so that the loop stays
}

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
  load_source(step,
              step.pieces == 1 ? std::span(&step.from, 1)
                               : std::span(pieces, static_cast<std::size_t>(step.pieces)),
              bytes);
  for (std::int64_t at = 0; at < count; ++at, to += bytes) {
    if (only != nullptr && at + rows_ahead < count) {
      prefetch(only + rows[at + rows_ahead] * bytes);
    }
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

/// Indices without nulls for a source of one piece.
void take_plain_indices(const take_step& step) noexcept {
  with_width(step.width, [&]<class Index>(Index) {
    const void* const values = step.from.values;
    const std::int64_t entry = step.from.first;
    const std::int64_t count = step.count;
    const auto limit = static_cast<std::uint64_t>(step.limit);
    const int unused = step.is_signed ? 64 - 8 * static_cast<int>(sizeof(Index)) : 0;
    auto* const target = static_cast<std::int64_t*>(step.target);
    std::int64_t bad = no_row;
    for (std::int64_t at = 0; at < count; ++at) {
      const auto bits = static_cast<std::uint64_t>(load<Index>(values, entry + at)) << unused;
      const std::int64_t row = static_cast<std::int64_t>(bits) >> unused;
      const bool is_bad = static_cast<std::uint64_t>(row) >= limit; // negative numbers are too large
      target[at] = is_bad ? row_of_null : row;
      if (is_bad && bad == no_row) {
        bad = at;
      }
    }
    if (bad != no_row && step.found[0] == no_row) {
      step.found[0] = bad;
    }
  });
}

void take_indices(const take_step& step, const take_source* sources) noexcept {
  if (step.pieces == 1 && step.from.validity == nullptr) {
    return take_plain_indices(step);
  }
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

/// The sum of everything before a counted step. A part of a step (compute/take.cpp) begins with the sum of the
/// rows before it.
std::int64_t sum_before(const take_step& step) noexcept { return step.sums == nullptr ? 0 : step.sums[0]; }

struct byte_place {
  const std::byte* bytes = nullptr;
  std::int64_t readable = 0; ///< bytes from there on
};

/// What the rows of a step refer to by offsets. It stays in local variables of a loop, because a store may
/// change any other memory, and the width is a constant: one row takes a few instructions.
template <class Offset>
class offset_rows {
public:
  offset_rows(const take_step& step, const take_source* sources) noexcept
      : rows_(step.rows), only_(step.from),
        pieces_(step.pieces == 1 ? nullptr : sources + step.first_source) {}

  /// As `range_at`.
  [[nodiscard]] taken_range range(std::int64_t at) const noexcept {
    const std::int64_t chosen = rows_ == nullptr ? at : rows_[at];
    return chosen == row_of_null ? taken_range() : range_of(piece(chosen), row_in_piece(chosen));
  }

  /// Asks for what `range` and `first` read.
  void prefetch_row(std::int64_t at) const noexcept {
    if (const std::int64_t chosen = rows_ == nullptr ? row_of_null : rows_[at]; chosen != row_of_null) {
      const take_source& from = piece(chosen);
      prefetch(static_cast<const std::byte*>(from.values) +
               (from.first + row_in_piece(chosen)) * static_cast<std::int64_t>(sizeof(Offset)));
    }
  }
  /// Where the bytes of row `at` begin. No bytes are readable for a null row.
  [[nodiscard]] byte_place place_of(std::int64_t at) const noexcept {
    const std::int64_t chosen = rows_[at];
    if (chosen == row_of_null) {
      return {};
    }
    const take_source& from = piece(chosen);
    const std::int64_t first = first_of(from, row_in_piece(chosen));
    return {static_cast<const std::byte*>(from.second) + first, from.limit - first};
  }

private:
  [[nodiscard]] const take_source& piece(std::int64_t chosen) const noexcept {
    return pieces_ == nullptr ? only_ : pieces_[number_of_piece(chosen)];
  }
  static std::int64_t first_of(const take_source& from, std::int64_t row) noexcept {
    return load<Offset>(from.values, from.first + row);
  }
  static taken_range range_of(const take_source& from, std::int64_t row) noexcept {
    const std::int64_t first = first_of(from, row);
    const std::int64_t end = first_of(from, row + 1);
    taken_range range; // as unsigned numbers, negative offsets are too large
    range.is_good = static_cast<std::uint64_t>(first) <= static_cast<std::uint64_t>(end) &&
                    static_cast<std::uint64_t>(end) <= static_cast<std::uint64_t>(from.limit);
    range.first = first;
    range.count = range.is_good ? end - first : 0;
    return range;
  }

  const std::int64_t* rows_;
  take_source only_;
  const take_source* pieces_;
};

template <class Offset>
void take_offsets(const take_step& step, const take_source* sources) noexcept {
  const offset_rows<Offset> rows(step, sources);
  const std::int64_t count = step.count;
  const bool is_last = step.units != 0;
  auto* const target = static_cast<Offset*>(step.target);
  std::int64_t before = sum_before(step);
  for (std::int64_t at = 0; at < count; ++at) {
    if (at + rows_ahead < count) {
      rows.prefetch_row(at + rows_ahead);
    }
    target[at] = static_cast<Offset>(before);
    before += rows.range(at).count;
  }
  if (is_last) {
    target[count] = static_cast<Offset>(before);
  }
}

template <class Offset>
taken_count count_offsets(const take_step& step, const take_source* sources, std::int64_t* sums) noexcept {
  const offset_rows<Offset> rows(step, sources);
  taken_count counted;
  for (std::int64_t first = 0; first < step.count; first += take_tile_rows) {
    *sums++ = counted.total;
    for (std::int64_t at = first; at < std::min(first + take_tile_rows, step.count); ++at) {
      if (at + rows_ahead < step.count) {
        rows.prefetch_row(at + rows_ahead);
      }
      const taken_range range = rows.range(at);
      counted.total += range.count;
      if (!range.is_good && counted.bad_row == no_row) {
        counted.bad_row = at;
      }
    }
  }
  return counted;
}

/// Calls `run` with a value of the type of a step's offsets.
template <class Run>
auto with_offset(const take_step& step, Run run) noexcept {
  return step.width == sizeof(std::int32_t) ? run(std::int32_t{}) : run(std::int64_t{});
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
  const std::int64_t before = sum_before(step);
  const std::int64_t total = before + count_flags(step, 0, step.count);
  std::int64_t next = before;
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
  std::int64_t before = sum_before(step);
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

/// Copies a string. A short one is copied together with bytes behind it, by moves of a constant size, if there
/// are such bytes in the source and the target. The next string overwrites them.
inline void copy_string(std::byte* to, std::int64_t room, const std::byte* from, std::int64_t readable,
                        std::int64_t count) noexcept {
  constexpr std::int64_t short_bytes = 16;
  constexpr std::int64_t medium_bytes = 32;
  if (count <= short_bytes && readable >= short_bytes && room >= short_bytes) {
    std::memcpy(to, from, short_bytes);
  } else if (count <= medium_bytes && readable >= medium_bytes && room >= medium_bytes) {
    std::memcpy(to, from, medium_bytes);
  } else if (count > 0) {
    std::memcpy(to, from, static_cast<std::size_t>(count));
  }
}

template <class Offset>
void take_strings(const take_step& step, const take_source* sources) noexcept {
  constexpr std::int64_t block = 256;
  constexpr std::int64_t ahead = 16; // strings have more bytes than offsets
  const offset_rows<Offset> rows(step, sources);
  auto* const target = static_cast<std::byte*>(step.target);
  const std::int64_t lists = step.lists;
  const std::int64_t all = step.count;
  std::int64_t start = load<Offset>(step.starts, 0);
  for (std::int64_t first = 0; first < lists; first += block) {
    const std::int64_t end = std::min(first + block, lists);
    std::array<byte_place, block> places;
    for (std::int64_t at = first; at < end; ++at) {
      if (at + rows_ahead < lists) {
        rows.prefetch_row(at + rows_ahead);
      }
      places[static_cast<std::size_t>(at - first)] = rows.place_of(at);
    }
    for (std::int64_t at = first; at < end; ++at) {
      if (at + ahead < end) {
        prefetch(places[static_cast<std::size_t>(at + ahead - first)].bytes);
      }
      const byte_place& from = places[static_cast<std::size_t>(at - first)];
      const std::int64_t next = at + 1 == lists ? all : load<Offset>(step.starts, at + 1);
      copy_string(target + start, all - start, from.bytes, from.readable, next - start);
      start = next;
    }
  }
}

void take_view_bytes(const take_step& step, const take_source* sources) noexcept {
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
    return with_offset(step, [&]<class Offset>(Offset) { take_strings<Offset>(step, sources); });
  case take_kind::view_bytes:
    return take_view_bytes(step, sources);
  case take_kind::list_rows:
    return take_list_rows(step, sources);
  case take_kind::fixed_rows:
    return make_rows(step, [&](std::int64_t at) { return fixed_row_at(step, at); });
  case take_kind::offsets:
    return with_offset(step, [&]<class Offset>(Offset) { take_offsets<Offset>(step, sources); });
  case take_kind::mask:
  case take_kind::own_views:
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
    if (step.kind == take_kind::offsets) {
      count[i] =
          with_offset(step, [&]<class Offset>(Offset) { return count_offsets<Offset>(step, sources, sums); });
      sums += count_tiles(step);
      continue;
    }
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
