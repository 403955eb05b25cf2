#include "saeta/device/equal.hpp"

#include "saeta/device/equal_rows.hpp"

#include <algorithm>
#include <type_traits>

namespace saeta {
namespace {

using namespace equal_rows;

/// Rows compared between two branches. The loop over a block has no branch, so that it is vectorised.
constexpr std::int64_t compared_rows = 1024;

/// Reads up to 64 bits from bit `first` on, and no byte that has none of them. A missing bitmap is all ones.
std::uint64_t read_bits(const void* bits, std::int64_t first, std::int64_t count) noexcept {
  const std::uint64_t mask = count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
  if (bits == nullptr) {
    return mask;
  }
  const auto* const from = static_cast<const std::uint8_t*>(bits) + first / 8;
  const auto shift = static_cast<unsigned>(first % 8);
  const auto bytes = static_cast<std::size_t>((shift + count + 7) / 8);
  std::uint64_t found = 0;
  std::memcpy(&found, from, std::min(bytes, sizeof found));
  found >>= shift;
  if (bytes > sizeof found) {
    found |= std::uint64_t{from[sizeof found]} << (64 - shift);
  }
  return found & mask;
}

bool same_bits(const equal_task& task) noexcept {
  constexpr std::int64_t word_bits = 64;
  for (std::int64_t at = 0; at < task.count; at += word_bits) {
    const std::int64_t count = std::min(word_bits, task.count - at);
    const std::uint64_t differing = read_bits(task.left.values, task.left.first + at, count) ^
                                    read_bits(task.right.values, task.right.first + at, count);
    if ((differing & read_bits(task.left.validity, task.left.first + at, count)) != 0) {
      return false;
    }
  }
  return true;
}

/// Compares rows [at, end). The values of null rows may be anything and are not compared.
bool same_valid_values(const equal_task& task, std::int64_t at, std::int64_t end) noexcept {
  for (; at < end; ++at) {
    const std::int64_t left = task.left.first + at;
    if (!same_values(task, left, task.right.first + at) &&
        (task.left.validity == nullptr || bit(task.left.validity, left))) {
      return false;
    }
  }
  return true;
}

template <class Bits>
bool same_floats(const equal_task& task, std::int64_t at, std::int64_t end) noexcept {
  Bits differing = 0;
  for (; at < end; ++at) {
    const auto left = load<Bits>(task.left.values, task.left.first + at);
    const auto right = load<Bits>(task.right.values, task.right.first + at);
    differing |= static_cast<Bits>(same_number(left, right, task.infinity) ? 0 : 1);
  }
  return differing == 0;
}

bool same_block(const equal_task& task, std::int64_t at, std::int64_t end) noexcept {
  if (task.infinity == 0) {
    const std::int64_t row_bytes = std::int64_t{task.units} * task.width;
    const auto* const left = static_cast<const std::uint8_t*>(task.left.values);
    const auto* const right = static_cast<const std::uint8_t*>(task.right.values);
    return same_bytes(left + (task.left.first + at) * row_bytes, right + (task.right.first + at) * row_bytes,
                      (end - at) * row_bytes);
  }
  switch (task.width) {
  case 2:
    return same_floats<std::uint16_t>(task, at, end);
  case 4:
    return same_floats<std::uint32_t>(task, at, end);
  default:
    return same_floats<std::uint64_t>(task, at, end);
  }
}

bool same_flat_values(const equal_task& task) noexcept {
  for (std::int64_t at = 0; at < task.count; at += compared_rows) {
    const std::int64_t end = std::min(at + compared_rows, task.count);
    if (!same_block(task, at, end) && !same_valid_values(task, at, end)) {
      return false;
    }
  }
  return true;
}

/// Calls `visit(row, list)` for the rows of a task, in order, until it returns false.
template <class Visit>
bool for_each_row(const equal_task& task, Visit visit) noexcept {
  std::int64_t list = 0;
  for (std::int64_t at = 0; at < task.count; ++at) {
    while (task.starts != nullptr && task.starts[list + 1] <= at) {
      ++list;
    }
    if (!visit(at, list)) {
      return false;
    }
  }
  return true;
}

/// True if the offsets of lists without nulls rise in the same way on both sides, as they usually do. Then
/// all lengths are equal, and the values are contiguous.
template <class Offset>
bool has_equal_steps(const equal_task& task, equal_extent& extent) noexcept {
  using number = std::make_unsigned_t<Offset>;
  const auto left = [&](std::int64_t at) { return load<number>(task.left.values, task.left.first + at); };
  const auto right = [&](std::int64_t at) { return load<number>(task.right.values, task.right.first + at); };
  const auto apart = static_cast<number>(left(0) - right(0));
  for (std::int64_t first = 0; first <= task.count; first += compared_rows) {
    const std::int64_t end = std::min(first + compared_rows, task.count + 1);
    number differing = 0;
    for (std::int64_t at = first; at < end; ++at) {
      differing |= static_cast<number>((left(at) - right(at)) ^ apart);
    }
    if (differing != 0) {
      return false;
    }
  }
  extent.left_first = static_cast<Offset>(left(0));
  extent.left_end = static_cast<Offset>(left(task.count));
  extent.right_first = static_cast<Offset>(right(0));
  return true;
}

bool is_list_without_nulls(const equal_task& task) noexcept {
  return task.kind == equal_kind::offsets && task.extent != 0 && task.left.validity == nullptr &&
         task.right.validity == nullptr;
}

bool same_rows(const equal_task& task, equal_extent* extents) noexcept {
  if (is_list_without_nulls(task)) {
    equal_extent& extent = extents[task.extent];
    if (task.width == 4 ? has_equal_steps<std::int32_t>(task, extent)
                        : has_equal_steps<std::int64_t>(task, extent)) {
      return true;
    }
  }
  switch (task.kind) {
  case equal_kind::flat_bits:
    return same_bits(task);
  case equal_kind::flat_values:
    return same_flat_values(task);
  default:
    return for_each_row(
        task, [&](std::int64_t at, std::int64_t list) { return same_row(task, at, list, extents); });
  }
}

} // namespace

void compare_now(std::span<const equal_task> tasks, const equal_results& results) noexcept {
  std::fill_n(results.extents, results.count, equal_extent{});
  const bool same =
      std::ranges::all_of(tasks, [&](const equal_task& task) { return same_rows(task, results.extents); });
  results.extents[0].scattered = same ? 0 : 1;
}

void expand_now(std::span<const list_expansion> expansions) noexcept {
  for (const list_expansion& expansion : expansions) {
    std::int64_t total = 0;
    for_each_row(expansion.lists, [&](std::int64_t at, std::int64_t list) {
      const expanded_list expanded_list = expand_row(expansion.lists, at, list);
      expansion.starts[at] = total;
      expansion.left_shifts[at] = expanded_list.left - total;
      expansion.right_shifts[at] = expanded_list.right - total;
      total += expanded_list.count;
      return true;
    });
    expansion.starts[expansion.lists.count] = total;
  }
}

} // namespace saeta
