// Rows that `take` and `count_taken` look up, in the kernels of the host and of a GPU. Both compile these
// functions.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/device/equal_values.hpp"
#include "saeta/device/take.hpp"

#include <cstdint>

namespace SAETA_EXPORT saeta {
namespace take_rows {

using equal_rows::bit;
using equal_rows::load;
using equal_rows::load_signed;
using equal_rows::load_unsigned;

SAETA_ANY_DEVICE inline std::int64_t chosen_row(std::int64_t piece, std::int64_t row) noexcept {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(piece) << row_bits) | row;
}
SAETA_ANY_DEVICE inline std::int64_t row_in_piece(std::int64_t chosen) noexcept {
  return chosen & (most_piece_rows - 1);
}
SAETA_ANY_DEVICE inline std::int64_t number_of_piece(std::int64_t chosen) noexcept {
  return chosen >> row_bits;
}

/// The piece of a chosen row that is not null.
SAETA_ANY_DEVICE inline const take_source& source_of(const take_step& step, const take_source* sources,
                                                     std::int64_t chosen) noexcept {
  return step.pieces == 1 ? step.from : sources[step.first_source + number_of_piece(chosen)];
}

/// A row of the whole source as a chosen row. Pieces have rows.
SAETA_ANY_DEVICE inline std::int64_t row_of_source(const take_step& step, const take_source* sources,
                                                   std::int64_t row) noexcept {
  if (step.pieces == 1) {
    return row;
  }
  const take_source* const pieces = sources + step.first_source;
  std::int64_t low = 0;
  std::int64_t high = step.pieces;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    if (pieces[middle].first <= row) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return chosen_row(low, row - pieces[low].first);
}

SAETA_ANY_DEVICE inline bool is_valid(const take_source& from, std::int64_t entry) noexcept {
  return from.validity == nullptr || bit(from.validity, entry);
}

struct found_index {
  std::int64_t chosen = row_of_null;
  bool is_null = false;
  bool is_bad = false;
};

/// Row `at` of a step of kind `indices`.
SAETA_ANY_DEVICE inline found_index index_at(const take_step& step, const take_source* sources,
                                             std::int64_t at) noexcept {
  found_index index;
  const std::int64_t entry = step.from.first + at;
  if (!is_valid(step.from, entry)) {
    index.is_null = true;
    return index;
  }
  std::uint64_t row = load_unsigned(step.from.values, step.width, entry);
  if (step.is_signed) {
    const int unused = 64 - 8 * step.width;
    row = static_cast<std::uint64_t>(static_cast<std::int64_t>(row << unused) >> unused);
  }
  index.is_bad =
      row >= static_cast<std::uint64_t>(step.limit); // as unsigned numbers, negative ones are too large
  if (!index.is_bad) {
    index.chosen = row_of_source(step, sources, static_cast<std::int64_t>(row));
  }
  return index;
}

/// Row `at` of a step of kind `filled`.
SAETA_ANY_DEVICE inline std::int64_t filled_row_at(const take_step& step, const take_source* sources,
                                                   std::int64_t at) noexcept {
  return is_valid(step.from, step.from.first + at) ? row_of_source(step, sources, step.limit + at)
                                                   : chosen_row(step.pieces - 1, 0);
}

/// Writes row `at` of a step of kind `child_rows` if it belongs to the child.
SAETA_ANY_DEVICE inline void write_child_row(const take_step& step, std::int64_t at) noexcept {
  const std::int64_t entry = step.from.first + at;
  if (load<std::int8_t>(step.from.values, entry) == step.code) {
    const std::int64_t row = step.from.second == nullptr ? at : load<std::int32_t>(step.from.second, entry);
    static_cast<std::int64_t*>(step.target)[at] =
        row >= 0 && row < step.from.limit ? chosen_row(step.limit, row) : row_of_null;
  }
}

/// The run of a row, as a chosen row of the run values.
SAETA_ANY_DEVICE inline std::int64_t run_at(const take_step& step, const take_source* sources,
                                            std::int64_t at) noexcept {
  const std::int64_t chosen = step.rows[at];
  if (chosen == row_of_null) {
    return row_of_null;
  }
  const take_source& from = source_of(step, sources, chosen);
  const std::int64_t row = from.first + row_in_piece(chosen);
  const std::int64_t run =
      first_index(from.limit, [&](std::int64_t i) { return load_signed(from.values, step.width, i) > row; });
  return run == from.limit ? row_of_null : chosen_row(number_of_piece(chosen), run);
}

SAETA_ANY_DEVICE inline std::int64_t fixed_row_at(const take_step& step, std::int64_t at) noexcept {
  const std::int64_t chosen = step.rows[at / step.units];
  return chosen == row_of_null
             ? row_of_null
             : chosen_row(number_of_piece(chosen), row_in_piece(chosen) * step.units + at % step.units);
}

} // namespace take_rows
} // namespace saeta
