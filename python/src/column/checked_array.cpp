#include "python/src/column/checked_array.hpp"

#include "saeta/base/pages.hpp"
#include "saeta/base/text.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace saeta::py {
namespace {

constexpr std::string_view changed =
    ": the memory has changed since it was checked, as a mapped file that is rewritten does";

} // namespace

std::span<const std::byte> array_reader::bytes(const host_array& of, std::size_t buffer, std::int64_t first,
                                               std::int64_t count) {
  if (buffer >= of.buffers.size()) {
    throw error(errc::format,
                concat(of.type.name(), ": buffer ", buffer, " of ", of.buffers.size(), changed));
  }
  const std::span<const std::byte> whole = of.buffers[buffer];
  const auto size = static_cast<std::int64_t>(whole.size());
  if (first < 0 || count < 0 || first > size || count > size - first) {
    throw error(errc::format, concat(of.type.name(), ": ", count, " bytes at ", first, " of buffer ", buffer,
                                     ", which has ", size, changed));
  }
  const auto read = whole.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
  require_pages(of, read);
  return read;
}

void array_reader::require_pages(const host_array& of, std::span<const std::byte> read) {
  const auto begin = reinterpret_cast<std::uintptr_t>(read.data());
  const std::uintptr_t end = begin + read.size();
  const std::size_t size = page_bytes();
  for (std::uintptr_t page = begin / size; page * size < end; ++page) {
    std::uintptr_t& known = known_[page % known_.size()];
    if (known == page) {
      continue;
    }
    if (!has_pages({reinterpret_cast<const std::byte*>(page * size), size})) {
      throw error(errc::format, concat(of.type.name(), ": ", read.size(),
                                       " bytes of a mapped file are missing: the file was truncated"));
    }
    known = page;
  }
}

std::int64_t array_reader::integer(const host_array& of, std::size_t buffer, std::int64_t row) {
  const auto width = static_cast<std::int64_t>(of.type.buffer(buffer).width);
  const std::span<const std::byte> from = bytes(of, buffer, row * width, width);
  std::int64_t value = 0; // zero-extended, because valid values are never negative
  std::memcpy(&value, from.data(), from.size());
  return value;
}

bool array_reader::bit(const host_array& of, std::size_t buffer, std::int64_t row) {
  const auto byte = static_cast<unsigned>(bytes(of, buffer, row / 8, 1).front());
  return ((byte >> static_cast<unsigned>(row % 8)) & 1U) != 0;
}

child_rows array_reader::items(const host_array& of, std::int64_t row, std::int64_t rows) {
  child_rows found;
  if (const auto known = rows_of_children(of.type, row, rows)) {
    found = *known;
  } else if (of.type.mapping() == row_mapping::scattered) {
    found = {integer(of, 1, row), integer(of, 2, row)};
  } else {
    found.first = integer(of, 1, row);
    found.count = integer(of, 1, row + rows) - found.first;
  }
  for (const host_array& child : of.children) {
    require_rows(child, found.first, found.count);
  }
  return found;
}

union_place array_reader::place_in_union(const host_array& of, std::int64_t row) {
  const auto codes = of.type.type_codes();
  const std::int64_t code = integer(of, 0, row);
  const auto found = std::ranges::find(codes, code);
  if (found == codes.end()) {
    throw error(errc::format, concat(of.type.name(), ": type code ", code, " belongs to no child", changed));
  }
  const bool dense = of.type.mapping() == row_mapping::scattered;
  return {static_cast<std::size_t>(found - codes.begin()), dense ? integer(of, 1, row) : row};
}

std::int64_t array_reader::run(const host_array& of, std::int64_t row) {
  const host_array& ends = of.children[0];
  std::int64_t found = 0;
  for (std::int64_t behind = ends.length; found < behind;) {
    const std::int64_t middle = found + (behind - found) / 2;
    if (integer(ends, 1, ends.offset + middle) > row) {
      behind = middle;
    } else {
      found = middle + 1;
    }
  }
  return found;
}

void require_rows(const host_array& of, std::int64_t first, std::int64_t count) {
  if (first < 0 || count < 0 || first > of.length || count > of.length - first) {
    throw error(errc::format, concat(count, " values at ", first, " of an array of type ", of.type.name(),
                                     " with ", of.length, changed));
  }
}

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
  const data_type& type = of.type;
  if (type.mapping() == row_mapping::run_ends) {
    return add_runs(of, row, rows, times);
  }
  const bool is_union = !type.type_codes().empty(); // shows one child for each row
  if (of.dictionary != nullptr || is_union || type.mapping() == row_mapping::scattered) {
    return add_each(of, row, rows, times);
  }
  const child_rows items = reader_.items(of, row, rows);
  for (const host_array& child : of.children) {
    add(child, items.first, items.count, times);
  }
}

/// For rows that may share values: list views, unions, dictionary indices.
void object_count::add_each(const host_array& of, std::int64_t row, std::int64_t rows, std::uint64_t times) {
  for (const std::int64_t end = row + rows; row < end && total_ < enough_; ++row) {
    if (of.dictionary != nullptr) {
      add(*of.dictionary, reader_.integer(of, 1, row), 1, times);
    } else if (of.type.type_codes().empty()) {
      const child_rows items = reader_.items(of, row);
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
