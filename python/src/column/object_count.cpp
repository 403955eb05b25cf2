#include "python/src/column/object_count.hpp"

#include <algorithm>
#include <limits>

namespace saeta::py {

void object_count::add_objects(std::int64_t rows, std::uint64_t times) noexcept {
  std::uint64_t objects = 0;
  if (__builtin_mul_overflow(static_cast<std::uint64_t>(rows), times, &objects) ||
      __builtin_add_overflow(total_, objects, &total_)) {
    total_ = std::numeric_limits<std::uint64_t>::max();
  }
}

void object_count::add(const host_array& of, std::int64_t first, std::int64_t rows, std::uint64_t times) {
  require_rows(of, first, rows);
  add_objects(rows, times);
  const bool flat = of.children.empty() && of.dictionary == nullptr;
  if (flat || rows == 0) {
    return;
  }
  const std::int64_t begin = of.offset + first;
  const std::int64_t end = begin + rows;
  if (!has_nulls(of)) {
    return add_children(of, begin, rows, times);
  }
  for (std::int64_t row = begin; row < end && total_ < enough_;) { // loops over runs of valid rows
    const std::int64_t from = row;
    while (row < end && reader_.bit(of, 0, row)) {
      ++row;
    }
    if (row > from) {
      add_children(of, from, row - from, times);
    }
    while (row < end && !reader_.bit(of, 0, row)) {
      ++row;
    }
  }
}

void object_count::add_children(const host_array& of, std::int64_t row, std::int64_t rows,
                                std::uint64_t times) {
  switch (of.type.mapping()) {
  case row_mapping::offsets:
  case row_mapping::fixed_size: {
    const child_range items = reader_.items(of, row, rows);
    return add(of.children[0], items.first, items.count, times);
  }
  case row_mapping::same:
    if (!of.type.type_codes().empty()) { // a union shows one child for each row
      return add_each(of, row, rows, times);
    }
    for (const host_array& child : of.children) {
      add(child, row, rows, times);
    }
    return;
  case row_mapping::run_ends:
    return add_runs(of, row, rows, times);
  case row_mapping::none: // a dictionary
  case row_mapping::scattered:
    return add_each(of, row, rows, times);
  }
}

/// For rows that may share values: list views, unions, dictionary indices.
void object_count::add_each(const host_array& of, std::int64_t row, std::int64_t rows, std::uint64_t times) {
  for (const std::int64_t end = row + rows; row < end && total_ < enough_; ++row) {
    if (of.dictionary != nullptr) {
      add(*of.dictionary, reader_.integer(of, 1, row), 1, times);
    } else if (of.type.type_codes().empty()) {
      const child_range items = reader_.items(of, row);
      add(of.children[0], items.first, items.count, times);
    } else {
      const union_place place = reader_.place_in_union(of, row);
      add(of.children[place.child], place.row, 1, times);
    }
  }
}

void object_count::add_runs(const host_array& of, std::int64_t row, std::int64_t rows, std::uint64_t times) {
  const host_array& ends = of.children[0];
  const host_array& values = of.children[1];
  const std::int64_t last = row + rows;
  for (std::int64_t run = reader_.run(of, row); row < last && run < ends.length && total_ < enough_; ++run) {
    const std::int64_t end = std::clamp(reader_.integer(ends, 1, ends.offset + run), row, last);
    std::uint64_t rows_of_run = 0;
    if (__builtin_mul_overflow(static_cast<std::uint64_t>(end - row), times, &rows_of_run)) {
      rows_of_run = std::numeric_limits<std::uint64_t>::max();
    }
    add(values, run, 1, rows_of_run);
    row = end;
  }
}

} // namespace saeta::py
