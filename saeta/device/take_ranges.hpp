// The bytes and child rows that rows of lists, strings, unions and runs refer to, in the kernels of the host
// and of a GPU. Both compile these functions.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/device/take_rows.hpp"

#include <cstdint>

namespace SAETA_EXPORT saeta {
namespace take_rows {

/// The bytes or child rows that one row of a counted step contributes to the result.
struct taken_range {
  std::int64_t first = 0; ///< byte, row of the child, or offset in the child of a union
  std::int64_t count = 0;
  bool is_good = true;
};

SAETA_ANY_DEVICE inline taken_range checked_range(std::int64_t first, std::int64_t count,
                                                  std::int64_t limit) noexcept {
  taken_range range;
  range.is_good = first >= 0 && count >= 0 && first <= limit && count <= limit - first;
  if (range.is_good) {
    range.first = first;
    range.count = count;
  }
  return range;
}

SAETA_ANY_DEVICE inline bool mask_at(const take_step& step, std::int64_t at) noexcept {
  const std::int64_t entry = step.from.first + at;
  const auto* const values = static_cast<const std::uint8_t*>(step.from.values);
  return is_valid(step.from, entry) && (step.width == 0 ? bit(values, entry) : values[entry] != 0);
}

/// A string view as it is stored. A string of up to 12 bytes lies in the view itself, from `prefix` on.
struct stored_view {
  std::int32_t length = 0;
  std::int32_t prefix = 0;
  std::int32_t buffer = 0;
  std::int32_t offset = 0;

  [[nodiscard]] SAETA_ANY_DEVICE bool refers() const noexcept { return length > 12; }
};

SAETA_ANY_DEVICE inline stored_view view_at(const take_source& from, std::int64_t entry) noexcept {
  stored_view view;
  if (is_valid(from, entry)) { // the view of a null may have arbitrary bytes
    view.length = load<std::int32_t>(from.values, 4 * entry);
    view.prefix = load<std::int32_t>(from.values, 4 * entry + 1);
    view.buffer = load<std::int32_t>(from.values, 4 * entry + 2);
    view.offset = load<std::int32_t>(from.values, 4 * entry + 3);
  }
  return view;
}

/// The bytes that a view refers to in its buffer.
SAETA_ANY_DEVICE inline taken_range range_of_view(const take_source& from, std::int64_t entry) noexcept {
  const stored_view view = view_at(from, entry);
  if (!view.refers()) {
    return {};
  }
  const bool known = view.buffer >= 0 && view.buffer < from.limit;
  return checked_range(view.offset, view.length, known ? load<std::int64_t>(from.second, view.buffer) : -1);
}

/// The source row that becomes row `at` of a counted step's result.
SAETA_ANY_DEVICE inline std::int64_t chosen_at(const take_step& step, std::int64_t at) noexcept {
  return step.rows == nullptr ? at : step.rows[at];
}

/// The bytes or child rows that row `at` of a counted step's result contributes.
SAETA_ANY_DEVICE inline taken_range range_at(const take_step& step, const take_source* sources,
                                             std::int64_t at) noexcept {
  taken_range range;
  if (step.kind == take_kind::mask) {
    range.count = mask_at(step, at) ? 1 : 0;
    return range;
  }
  const std::int64_t chosen = chosen_at(step, at);
  if (step.kind == take_kind::run_ends) {
    range.count = at == 0 || step.rows[at - 1] != chosen ? 1 : 0;
    return range;
  }
  if (chosen == row_of_null) {
    range.count = step.kind == take_kind::union_rows ? step.units : 0;
    return range;
  }
  const take_source& from = source_of(step, sources, chosen);
  const std::int64_t entry = from.first + row_in_piece(chosen);
  switch (step.kind) {
  case take_kind::list_views:
    return checked_range(load_signed(from.values, step.width, entry),
                         load_signed(from.second, step.width, entry), from.limit);
  case take_kind::own_views:
    return range_of_view(from, entry);
  case take_kind::union_rows:
    if (load<std::int8_t>(from.values, entry) != step.code) {
      return range;
    }
    return checked_range(load<std::int32_t>(from.second, entry), 1, from.limit);
  default: {
    const std::int64_t first = load_signed(from.values, step.width, entry);
    return checked_range(first, load_signed(from.values, step.width, entry + 1) - first, from.limit);
  }
  }
}

/// The last of `lists` whose new offset is at most `unit`, not before `from`.
SAETA_ANY_DEVICE inline std::int64_t list_of(const take_step& step, std::int64_t unit, std::int64_t from,
                                             std::int64_t lists) noexcept {
  return from + first_index(lists - from - 1, [&](std::int64_t i) {
           return load_signed(step.starts, step.width, from + 1 + i) > unit;
         });
}

/// The bytes or child rows of list `list` of a step of kind `bytes`, `view_bytes` or `list_rows`.
struct taken_list {
  const std::uint8_t* bytes = nullptr; ///< of the source; null for rows, and for a row without bytes
  std::int64_t limit = 0;              ///< number of these bytes
  std::int64_t piece = 0;
  std::int64_t source = 0; ///< first byte or row in the source
  std::int64_t start = 0;  ///< first byte or row in the target
};

SAETA_ANY_DEVICE inline taken_list list_at(const take_step& step, const take_source* sources,
                                           std::int64_t list) noexcept {
  taken_list result;
  const std::int64_t chosen = step.rows[list];
  result.start = load_signed(step.starts, step.width, list);
  if (chosen == row_of_null) {
    return result;
  }
  result.piece = number_of_piece(chosen);
  const take_source& from = source_of(step, sources, chosen);
  const std::int64_t entry = from.first + row_in_piece(chosen);
  if (step.kind == take_kind::view_bytes) {
    if (const stored_view view = view_at(from, entry); view.refers()) {
      const auto address = load<std::int64_t>(from.second, from.limit + view.buffer);
      result.bytes = reinterpret_cast<const std::uint8_t*>(address);
      result.limit = load<std::int64_t>(from.second, view.buffer);
      result.source = view.offset;
    }
    return result;
  }
  result.source = load_signed(from.values, step.width, entry);
  if (step.kind == take_kind::bytes) {
    result.bytes = static_cast<const std::uint8_t*>(from.second);
    result.limit = from.limit;
  }
  return result;
}

SAETA_ANY_DEVICE inline void store_signed(void* target, std::int32_t width, std::int64_t index,
                                          std::int64_t value) noexcept {
  switch (width) { // targets are aligned
  case 2:
    static_cast<std::int16_t*>(target)[index] = static_cast<std::int16_t>(value);
    return;
  case 4:
    static_cast<std::int32_t*>(target)[index] = static_cast<std::int32_t>(value);
    return;
  default:
    static_cast<std::int64_t*>(target)[index] = value;
  }
}

/// Writes row `at` of a step of kind `own_views`. @param before  where its bytes begin
SAETA_ANY_DEVICE inline void store_view(const take_step& step, const take_source* sources, std::int64_t at,
                                        std::int64_t before) noexcept {
  stored_view view;
  if (const std::int64_t chosen = chosen_at(step, at); chosen != row_of_null) {
    const take_source& from = source_of(step, sources, chosen);
    view = view_at(from, from.first + row_in_piece(chosen));
  }
  auto* const words = static_cast<std::int32_t*>(step.target) + 4 * at;
  words[0] = view.length;
  words[1] = view.prefix;
  words[2] = view.refers() ? 0 : view.buffer;
  words[3] = view.refers() ? static_cast<std::int32_t>(before) : view.offset;
}

/// Writes the result of row `at` of a counted step.
/// @param before  the sum over all rows before it
SAETA_ANY_DEVICE inline void write_counted(const take_step& step, const take_source* sources, std::int64_t at,
                                           const taken_range& range, std::int64_t before) noexcept {
  auto* const rows = static_cast<std::int64_t*>(step.second);
  switch (step.kind) {
  case take_kind::mask:
    if (range.count != 0) {
      static_cast<std::int64_t*>(step.target)[before] = row_of_source(step, sources, step.limit + at);
    }
    return;
  case take_kind::union_rows:
    if (range.count != 0) {
      const std::int64_t chosen = step.rows[at];
      static_cast<std::int32_t*>(step.target)[at] = static_cast<std::int32_t>(before);
      rows[before] = chosen == row_of_null ? row_of_null : chosen_row(number_of_piece(chosen), range.first);
    }
    return;
  case take_kind::run_ends:
    if (range.count != 0) {
      rows[before] = step.rows[at];
    }
    if (at + 1 == step.count || step.rows[at + 1] != step.rows[at]) {
      store_signed(step.target, step.width, before + range.count - 1, at + 1);
    }
    return;
  case take_kind::own_views:
    store_view(step, sources, at, before);
    store_signed(step.second, sizeof(std::int32_t), at, before);
    return;
  case take_kind::list_views:
    store_signed(step.target, step.width, at, before);
    store_signed(step.second, step.width, at, range.count);
    return;
  default:
    store_signed(step.target, step.width, at, before);
    if (at + 1 == step.count) {
      store_signed(step.target, step.width, step.count, before + range.count);
    }
  }
}

} // namespace take_rows
} // namespace saeta
