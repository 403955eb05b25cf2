#include "saeta/base/text.hpp"
#include "saeta/interop/detail/arrow_array.hpp"
#include "saeta/transfer/host_window.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace saeta {
namespace {

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

} // namespace

void check_values(const host_array& source, const dictionary_cache& known, std::string_view label) {
  if (source.dictionary != nullptr && known.find(*source.dictionary) == nullptr) {
    check_values(*source.dictionary, known, concat("dictionary of ", label));
  }
  if (source.length == 0) {
    return;
  }
  switch (source.type.layout()) {
  case layout_kind::offsets32:
    return check_offsets<std::int32_t>(source, label);
  case layout_kind::offsets64:
    return check_offsets<std::int64_t>(source, label);
  default:
    break;
  }
  if (source.dictionary != nullptr) {
    check_indices_of(source, label);
  }
}

} // namespace saeta
