// Finds and compares one row of each side, in the kernels of the host and of a GPU.
//
// Both compile these functions: what a row is depends on a dozen layouts, and must not depend on the device.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/device/equal.hpp"
#include "saeta/device/equal_values.hpp"

#include <cstdint>

namespace SAETA_EXPORT saeta {
namespace equal_rows {

inline constexpr std::int64_t null_row = -1;

SAETA_ANY_DEVICE inline std::int64_t run_of(const equal_step& step, std::int64_t row) noexcept {
  return first_index(step.count,
                     [&](std::int64_t run) { return load_signed(step.values, step.width, run) > row; });
}

/// The row that a step leads to, or null_row.
SAETA_ANY_DEVICE inline std::int64_t step_from(const equal_step& step, std::int64_t row) noexcept {
  if ((step.validity != nullptr && !bit(step.validity, row)) ||
      (step.ids != nullptr && step.ids[row] != step.code)) {
    return null_row;
  }
  switch (step.kind) {
  case equal_step_kind::add:
    return row + step.first;
  case equal_step_kind::offsets:
    return load<std::int32_t>(step.values, row) + step.first;
  case equal_step_kind::indices: {
    const std::uint64_t index = load_unsigned(step.values, step.width, row);
    return index < static_cast<std::uint64_t>(step.count) ? static_cast<std::int64_t>(index) + step.first
                                                          : null_row;
  }
  case equal_step_kind::runs: {
    const std::int64_t run = run_of(step, row);
    return run < step.count ? run + step.first : null_row;
  }
  }
  return null_row;
}

/// The list that task row `at` comes from, within [low, high]: the last one that starts at or before it.
SAETA_ANY_DEVICE inline std::int64_t list_of(const equal_task& task, std::int64_t low, std::int64_t high,
                                             std::int64_t at) noexcept {
  return low + first_index(high - low, [&](std::int64_t i) { return task.starts[low + 1 + i] > at; });
}

/// The row of a side for task row `at` of list `list`, or null_row if it is null.
SAETA_ANY_DEVICE inline std::int64_t row_of(const equal_side& side, std::int64_t at,
                                            std::int64_t list) noexcept {
  std::int64_t row = side.first + at + (side.shifts == nullptr ? 0 : side.shifts[list]);
  for (std::int64_t i = 0; i < side.step_count; ++i) {
    row = step_from(side.steps[i], row);
    if (row == null_row) {
      return null_row;
    }
  }
  return side.validity == nullptr || bit(side.validity, row) ? row : null_row;
}

/// The range of a list's values in its child, or of a string's bytes.
struct list_range {
  std::int64_t first;
  std::int64_t count;
};

SAETA_ANY_DEVICE inline list_range range_of(const equal_task& task, const equal_side& side,
                                            std::int64_t row) noexcept {
  if (task.kind == equal_kind::fixed_lists) {
    return {row * task.units, task.units};
  }
  const std::int64_t first = load_signed(side.values, task.width, row);
  return {first, task.kind == equal_kind::list_views ? load_signed(side.second, task.width, row)
                                                     : load_signed(side.values, task.width, row + 1) - first};
}

/// Rows of dictionaries are often the same string at the same address, so that is checked first.
SAETA_ANY_DEVICE inline bool same_strings(const equal_task& task, std::int64_t left,
                                          std::int64_t right) noexcept {
  if (left == right && task.left.values == task.right.values && task.left.second == task.right.second) {
    return true;
  }
  const list_range a = range_of(task, task.left, left);
  const list_range b = range_of(task, task.right, right);
  return a.count == b.count &&
         same_bytes(static_cast<const std::uint8_t*>(task.left.second) + a.first,
                    static_cast<const std::uint8_t*>(task.right.second) + b.first, a.count);
}

SAETA_ANY_DEVICE inline const std::uint8_t* bytes_of_view(const equal_side& side, std::int64_t row) noexcept {
  constexpr std::int32_t inline_bytes = 12;
  if (load<std::int32_t>(side.values, 4 * row) <= inline_bytes) {
    return static_cast<const std::uint8_t*>(side.values) + 16 * row + 4;
  }
  const auto address = static_cast<std::uintptr_t>(side.table[load<std::int32_t>(side.values, 4 * row + 2)]);
  return reinterpret_cast<const std::uint8_t*>(address) + load<std::int32_t>(side.values, 4 * row + 3);
}

/// The view itself has the first four bytes, whatever its length.
SAETA_ANY_DEVICE inline bool same_views(const equal_task& task, std::int64_t left,
                                        std::int64_t right) noexcept {
  const auto size = load<std::int32_t>(task.left.values, 4 * left);
  constexpr std::int32_t prefix_bytes = 4;
  if (size != load<std::int32_t>(task.right.values, 4 * right)) {
    return false;
  }
  if (size >= prefix_bytes && load<std::uint32_t>(task.left.values, 4 * left + 1) !=
                                  load<std::uint32_t>(task.right.values, 4 * right + 1)) {
    return false;
  }
  return same_bytes(bytes_of_view(task.left, left), bytes_of_view(task.right, right), size);
}

SAETA_ANY_DEVICE inline bool same_values(const equal_task& task, std::int64_t left,
                                         std::int64_t right) noexcept {
  for (std::int64_t i = 0; i < task.units; ++i) {
    if (!same_number(load_unsigned(task.left.values, task.width, left * task.units + i),
                     load_unsigned(task.right.values, task.width, right * task.units + i), task.width,
                     task.infinity)) {
      return false;
    }
  }
  return true;
}

/// True if the values of two valid rows are equal. For lists: if their lengths are equal.
SAETA_ANY_DEVICE inline bool same_content(const equal_task& task, std::int64_t left,
                                          std::int64_t right) noexcept {
  switch (task.kind) {
  case equal_kind::bits:
    return bit(static_cast<const std::uint8_t*>(task.left.values), left) ==
           bit(static_cast<const std::uint8_t*>(task.right.values), right);
  case equal_kind::values:
  case equal_kind::flat_values:
    return same_values(task, left, right);
  case equal_kind::bytes:
    return same_strings(task, left, right);
  case equal_kind::views:
    return same_views(task, left, right);
  case equal_kind::offsets:
  case equal_kind::list_views:
    return range_of(task, task.left, left).count == range_of(task, task.right, right).count;
  default:
    return true;
  }
}

/// Sets `extent.scattered` if, on either side, the values of the lists at task rows `at` and `at + 1` are not
/// contiguous, or if a null list has values. The first and the last row store the range of all values.
SAETA_ANY_DEVICE inline void note_extent(const equal_task& task, std::int64_t at, bool null,
                                         equal_extent& extent) noexcept {
  const list_range left = range_of(task, task.left, task.left.first + at);
  const list_range right = range_of(task, task.right, task.right.first + at);
  bool scattered = null && (left.count != 0 || right.count != 0);
  if (task.kind == equal_kind::list_views && at + 1 < task.count) {
    const list_range left_next = range_of(task, task.left, task.left.first + at + 1);
    const list_range right_next = range_of(task, task.right, task.right.first + at + 1);
    scattered = scattered || left_next.first != left.first + left.count ||
                right_next.first != right.first + right.count;
  }
  if (scattered) {
    extent.scattered = 1;
  }
  if (at == 0) {
    extent.left_first = left.first;
    extent.right_first = right.first;
  }
  if (at + 1 == task.count) {
    extent.left_end = left.first + left.count;
  }
}

/// Compares one row of a task that is not flat. Returns true if both sides are equal.
/// @param list  the list that the row comes from, if any.
SAETA_ANY_DEVICE inline bool same_row(const equal_task& task, std::int64_t at, std::int64_t list,
                                      equal_extent* extents) noexcept {
  const std::int64_t left = row_of(task.left, at, list);
  const std::int64_t right = row_of(task.right, at, list);
  if ((left == null_row) != (right == null_row)) {
    return false;
  }
  if (task.extent != 0) {
    note_extent(task, at, left == null_row, extents[task.extent]);
  }
  return left == null_row || same_content(task, left, right);
}

/// The number of values of the list at a task row, and where they start on both sides.
struct expanded_list {
  std::int64_t count = 0;
  std::int64_t left = 0;
  std::int64_t right = 0;
};

SAETA_ANY_DEVICE inline expanded_list expand_row(const equal_task& task, std::int64_t at,
                                                 std::int64_t list) noexcept {
  const std::int64_t left = row_of(task.left, at, list);
  const std::int64_t right = row_of(task.right, at, list);
  if (left == null_row || right == null_row) {
    return {};
  }
  const list_range values = range_of(task, task.left, left);
  if (values.count <= 0) {
    return {};
  }
  return {values.count, values.first, range_of(task, task.right, right).first};
}

} // namespace equal_rows
} // namespace saeta
