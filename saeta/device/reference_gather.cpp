#include "saeta/device/reference_gather.hpp"

#include "saeta/base/half.hpp"
#include "saeta/base/text.hpp"
#include "saeta/device/number_kinds.hpp"

#include <algorithm>
#include <type_traits>

namespace saeta {
namespace {

struct half {
  std::uint16_t bits;
};

/// A byte; any value except 0 is true.
struct truth {
  std::uint8_t byte;
};

template <class Target, class Source>
Target convert_number(Source value) {
  if constexpr (std::is_same_v<Source, half> && std::is_same_v<Target, half>) {
    return value;
  } else if constexpr (std::is_same_v<Source, half>) {
    return convert_number<Target>(half_value(value.bits));
  } else if constexpr (std::is_same_v<Source, truth>) {
    return convert_number<Target>(static_cast<std::uint8_t>(value.byte != 0));
  } else if constexpr (std::is_same_v<Target, half>) {
    return {half_bits(static_cast<double>(value))};
  } else if constexpr (std::is_same_v<Target, truth>) {
    return {static_cast<std::uint8_t>(value != 0)};
  } else {
    return static_cast<Target>(value);
  }
}

bool is_set(const std::uint8_t* bits, std::int64_t position) {
  return (bits[position / 8] >> (position % 8) & 1) != 0;
}

/// Gathers rows [first, end) of one column.
template <class Target, class Source>
void gather_rows(const gathered_column& column, const gather_target& shape, std::int64_t first,
                 std::int64_t end, Target* to) {
  const auto* const from = static_cast<const Source*>(column.values);
  Target fill{};
  std::copy_n(reinterpret_cast<const std::uint8_t*>(&shape.fill), sizeof fill,
              reinterpret_cast<std::uint8_t*>(&fill));
  for (std::int64_t row = first; row < end; ++row) {
    const bool valid =
        column.validity == nullptr || is_set(column.validity, column.bit_offset + row / shape.rows_a_bit);
    to[row * shape.row_step] = !valid            ? fill
                               : from == nullptr ? convert_number<Target>(truth{1})
                                                 : convert_number<Target>(from[row]);
  }
}

} // namespace

void gather_columns(stream_handle /*stream*/, std::span<const gathered_column> columns,
                    const gather_target& shape, void* target) {
  // A tile of rows of every column comes before the next tile of the first column. So the rows of a row-major
  // matrix are still in the cache.
  constexpr std::int64_t tile = 512;
  for (std::int64_t first = 0; first < shape.rows; first += tile) {
    const std::int64_t end = std::min(first + tile, shape.rows);
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const gathered_column& column = columns[i];
      if (!converts(column.kind, shape.kind)) {
        throw error(errc::invalid_argument,
                    concat("gather_columns: numbers of kind ", static_cast<int>(column.kind),
                           " don't convert to kind ", static_cast<int>(shape.kind)));
      }
      with_number<half, truth>(shape.kind, [&]<class Target>(Target) {
        with_number<half, truth>(column.kind, [&]<class Source>(Source) {
          gather_rows<Target, Source>(column, shape, first, end,
                                      static_cast<Target*>(target) +
                                          static_cast<std::int64_t>(i) * shape.column_step);
        });
      });
    }
  }
}

} // namespace saeta
