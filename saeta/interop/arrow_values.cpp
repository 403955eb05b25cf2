#include "saeta/base/text.hpp"
#include "saeta/interop/detail/arrow_array.hpp"
#include "saeta/transfer/host_window.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace saeta {
namespace {

using range = std::span<const std::byte>;

/// Values looked at between two decisions; the loop over a block has no branch, so that it becomes vector code.
constexpr std::int64_t block_rows = 1024;

/// Buffers of others need not be aligned.
template <class T>
T load(const std::byte* values, std::int64_t index) {
  T value;
  std::memcpy(&value, values + index * static_cast<std::int64_t>(sizeof(T)), sizeof value);
  return value;
}

/// First row of `rows` for which `bad(row)` is not 0; `rows` where there is none.
template <class Bad>
std::int64_t find_bad(std::int64_t rows, Bad bad) {
  std::int64_t row = 0;
  for (; rows - row >= block_rows; row += block_rows) {
    decltype(bad(row)) any = 0;
    for (std::int64_t i = 0; i < block_rows; ++i) {
      any |= bad(row + i);
    }
    if (any != 0) {
      break;
    }
  }
  for (; row < rows; ++row) {
    if (bad(row) != 0) {
      break;
    }
  }
  return row;
}

template <class T>
void check_offsets(const host_array& source, std::string_view label) {
  using flag = std::make_unsigned_t<T>;
  const row_window window = window_of(source.offset, source.length);
  const std::byte* const offsets =
      source.buffers[1].data() + static_cast<std::size_t>(window.first) * sizeof(T);
  const std::int64_t row = find_bad(window.rows, [&](std::int64_t i) {
    return static_cast<flag>(load<T>(offsets, i + 1) < load<T>(offsets, i) ? 1 : 0);
  });
  if (row != window.rows) {
    throw error(errc::format, concat(label, ": offsets fall from ", +load<T>(offsets, row), " to ",
                                     +load<T>(offsets, row + 1), " at row ", row - window.offset));
  }
}

bool valid_row(const host_array& source, std::int64_t row) {
  const std::byte* const validity = source.buffers[0].data();
  const auto bit = static_cast<std::size_t>(source.offset + row);
  return validity == nullptr || (std::to_integer<unsigned>(validity[bit / 8]) >> (bit % 8) & 1u) != 0;
}

template <class T>
void check_indices(const host_array& source, std::string_view label) {
  using index = std::make_unsigned_t<T>; // a negative index is a very large one
  const std::int64_t entries = source.dictionary->length;
  const std::byte* const indices =
      source.buffers[1].data() + static_cast<std::size_t>(source.offset) * sizeof(T);
  constexpr auto greatest = static_cast<std::uint64_t>(std::numeric_limits<T>::max());
  const auto last = static_cast<index>(
      std::min(static_cast<std::uint64_t>(std::max(entries - 1, std::int64_t{0})), greatest));
  const auto outside = [&](std::int64_t row) {
    return static_cast<index>(load<index>(indices, row) > last ? 1 : 0);
  };
  // What stands below a null may be anything, so the second search asks for the validity as well.
  if (entries > 0 && find_bad(source.length, outside) == source.length) {
    return;
  }
  for (std::int64_t row = 0; row < source.length; ++row) {
    if ((entries == 0 || outside(row) != 0) && valid_row(source, row)) {
      throw error(errc::format, concat(label, ": index ", +load<T>(indices, row), " at row ", row,
                                       ", the dictionary has ", entries, " entries"));
    }
  }
}

void check_indices_of(const host_array& source, std::string_view label) {
  switch (source.type.index_type()->id()) {
  case type_id::int8:
    return check_indices<std::int8_t>(source, label);
  case type_id::uint8:
    return check_indices<std::uint8_t>(source, label);
  case type_id::int16:
    return check_indices<std::int16_t>(source, label);
  case type_id::uint16:
    return check_indices<std::uint16_t>(source, label);
  case type_id::int32:
    return check_indices<std::int32_t>(source, label);
  case type_id::uint32:
    return check_indices<std::uint32_t>(source, label);
  case type_id::int64:
    return check_indices<std::int64_t>(source, label);
  default:
    return check_indices<std::uint64_t>(source, label);
  }
}

template <class T>
void check_list_views(const host_array& source, std::string_view label) {
  const std::byte* const offsets =
      source.buffers[1].data() + source.offset * static_cast<std::int64_t>(sizeof(T));
  const std::byte* const sizes =
      source.buffers[2].data() + source.offset * static_cast<std::int64_t>(sizeof(T));
  const auto rows = static_cast<std::uint64_t>(source.children[0].length);
  const std::int64_t row = find_bad(source.length, [&](std::int64_t i) {
    const auto offset = static_cast<std::uint64_t>(load<T>(offsets, i)); // a negative one is very large
    const auto size = static_cast<std::uint64_t>(load<T>(sizes, i));
    return offset > rows || size > rows - std::min(offset, rows) ? 1 : 0;
  });
  if (row != source.length) {
    throw error(errc::format,
                concat(label, ": a list of ", +load<T>(sizes, row), " values from ", +load<T>(offsets, row),
                       " at row ", row, ", its child has ", rows, " rows"));
  }
}

/// The child that a type id stands for; -1 for none.
std::array<std::int16_t, 256> children_of(const data_type& type) {
  std::array<std::int16_t, 256> found;
  found.fill(-1);
  const auto codes = type.type_codes();
  for (std::size_t i = 0; i < codes.size(); ++i) {
    found[static_cast<std::uint8_t>(codes[i])] = static_cast<std::int16_t>(i);
  }
  return found;
}

void check_union(const host_array& source, std::string_view label) {
  const auto known = children_of(source.type);
  const std::byte* const ids = source.buffers[0].data() + source.offset;
  const bool dense = source.type.layout() == layout_kind::dense_union;
  for (std::int64_t row = 0; row < source.length; ++row) {
    const auto id = load<std::uint8_t>(ids, row);
    if (known[id] < 0) {
      throw error(errc::format, concat(label, ": type id ", +static_cast<std::int8_t>(id), " at row ", row,
                                       ", the union has none such"));
    }
    if (!dense) {
      continue;
    }
    const auto child = static_cast<std::size_t>(known[id]);
    const std::int64_t offset = load<std::int32_t>(source.buffers[1].data(), source.offset + row);
    if (offset < 0 || offset >= source.children[child].length) {
      throw error(errc::format, concat(label, ": offset ", offset, " at row ", row, ", child '",
                                       source.type.children()[child].name, "' has ",
                                       source.children[child].length, " rows"));
    }
  }
}

/// One view of 16 bytes: a size, then up to 12 bytes, or 4 bytes, the number of a buffer, and an offset in it.
struct view {
  std::int32_t size;
  std::array<std::byte, 4> prefix;
  std::int32_t index;
  std::int32_t offset;
};
constexpr std::int32_t inline_bytes = 12;

void check_views(const host_array& source, std::string_view label) {
  const std::size_t first = source.type.buffer_count();
  const std::size_t buffers = source.buffers.size() - first;
  for (std::int64_t row = 0; row < source.length; ++row) {
    const auto seen = load<view>(source.buffers[1].data(), source.offset + row);
    if ((seen.size >= 0 && seen.size <= inline_bytes) || !valid_row(source, row)) {
      continue;
    }
    const bool there = seen.size > 0 && seen.index >= 0 && static_cast<std::size_t>(seen.index) < buffers;
    const range bytes = there ? source.buffers[first + static_cast<std::size_t>(seen.index)] : range{};
    if (!there || seen.offset < 0 ||
        std::int64_t{seen.offset} + seen.size > static_cast<std::int64_t>(bytes.size())) {
      throw error(errc::format,
                  concat(label, ": a view of ", seen.size, " bytes from ", seen.offset, " of buffer ",
                         seen.index, " at row ", row, ", there are ", buffers, " buffers",
                         there ? concat(", this one of ", bytes.size(), " bytes") : ""));
    }
    if (std::memcmp(seen.prefix.data(), bytes.data() + seen.offset, seen.prefix.size()) != 0) {
      throw error(errc::format, concat(label, ": the view at row ", row, " does not begin like its bytes"));
    }
  }
}

void check_run_ends(const host_array& ends, std::string_view label) {
  const auto width = static_cast<std::size_t>(ends.type.byte_width());
  std::int64_t last = 0;
  for (std::int64_t run = 0; run < ends.length; ++run) {
    const std::int64_t end = read_offset(ends.buffers[1].data(), width, ends.offset + run);
    if (end <= last) {
      throw error(errc::format,
                  concat(label, ": run ends don't rise: ", end, " after ", last, " at run ", run));
    }
    last = end;
  }
}

/// Everything but children and dictionary; there are rows.
void check_rows(const host_array& source, std::string_view label) {
  const std::size_t width = source.type.offset_width();
  switch (source.type.layout()) {
  case layout_kind::bytes:
  case layout_kind::list:
    return width == sizeof(std::int32_t) ? check_offsets<std::int32_t>(source, label)
                                         : check_offsets<std::int64_t>(source, label);
  case layout_kind::list_view:
    return source.type.id() == type_id::list_view ? check_list_views<std::int32_t>(source, label)
                                                  : check_list_views<std::int64_t>(source, label);
  case layout_kind::dense_union:
  case layout_kind::sparse_union:
    return check_union(source, label);
  case layout_kind::views:
    return check_views(source, label);
  case layout_kind::run_ends:
    return check_run_ends(source.children[0], label);
  default:
    if (source.dictionary != nullptr) {
      check_indices_of(source, label);
    }
  }
}

} // namespace

void check_values(const host_array& source, const dictionary_cache& known, std::string_view label) {
  if (source.dictionary != nullptr && known.find(*source.dictionary) == nullptr) {
    check_values(*source.dictionary, known, concat("dictionary of ", label));
  }
  if (source.length == 0) {
    return;
  }
  check_rows(source, label);
  const row_window window = window_of(source.type, source.offset, source.length);
  for (std::size_t i = 0; i < source.children.size(); ++i) {
    const child_rows named = rows_of_child(source, i, window);
    host_array child = source.children[i];
    child.offset += named.first;
    child.length = named.count;
    check_values(child, known, concat(label, ", child '", source.type.children()[i].name, "'"));
  }
}

} // namespace saeta
