#include "saeta/base/half.hpp"
#include "saeta/base/text.hpp"
#include "saeta/device/bit_run.hpp"
#include "saeta/device/cast_values.hpp"
#include "saeta/device/compression.hpp"
#include "saeta/device/decimal_values.hpp"
#include "saeta/device/gather.hpp"
#include "saeta/device/handles.hpp"
#include "saeta/device/kernels.hpp"
#include "saeta/device/permutation.hpp"
#include "saeta/device/take.hpp"
#include "saeta/device/with_width.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace saeta {
namespace {

using cast_values::convert;
using equal_rows::bit;
using equal_rows::load;

struct half_number {
  std::uint16_t bits;
};

/// Stands for booleans, which `cast_work` excludes.
struct excluded_kind {};

template <class Target, class Source>
bool converted(Source value, bool rounds, Target& to) noexcept {
  if constexpr (std::is_same_v<Source, half_number>) {
    return converted(half_value(value.bits), rounds, to);
  } else if constexpr (std::is_same_v<Target, half_number>) {
    // Integers beyond the range of half become infinite, so they differ.
    const auto number = static_cast<double>(value);
    to.bits = half_bits(number);
    const double found = half_value(to.bits);
    return rounds || found == number || std::isnan(number);
  } else {
    return convert(value, rounds, to);
  }
}

/// @param convert_row  converts a row as `convert_row(row, to)`, and returns false if there is no such number
template <class Target, class ConvertRow>
void cast_rows(const cast_work& work, ConvertRow convert_row) noexcept {
  *work.bad_row = -1;
  auto* const target = static_cast<Target*>(work.target);
  for (std::int64_t row = 0; row < work.count; ++row) {
    target[row] = Target{};
    const bool valid = work.validity == nullptr || bit(work.validity, work.bit_offset + row);
    if (valid && !convert_row(row, target[row]) && *work.bad_row < 0) {
      *work.bad_row = row;
    }
  }
}

void cast_numbers(stream_handle /*stream*/, const cast_work& work) {
  with_number<half_number, excluded_kind>(work.to, [&]<class Target>(Target) {
    if constexpr (!std::is_same_v<Target, excluded_kind>) {
      if (work.decimal.bytes != 0) {
        return cast_rows<Target>(work, [&](std::int64_t row, Target& to) {
          return decimal_values::convert_row(work, row, to, converted<Target, double>);
        });
      }
    }
    with_number<half_number, excluded_kind>(work.from, [&]<class Source>(Source) {
      if constexpr (!std::is_same_v<Source, excluded_kind> && !std::is_same_v<Target, excluded_kind>) {
        cast_rows<Target>(work, [&](std::int64_t row, Target& to) {
          return converted(load<Source>(work.source, row), work.rounds, to);
        });
      }
    });
  });
}

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

template <class Row>
void permute_into(const permute_work& work) noexcept {
  auto* target = static_cast<Row*>(work.target);
  std::int64_t left = work.batches.count;
  for (std::int64_t turn = 0; left > 0; ++turn) {
    const batch_place at = place_of(work.batches, turn);
    const permutation order = order_of(work, at);
    const std::int64_t rows = std::min(left, work.batches.batch_rows);
    for (std::int64_t row = 0; row < rows; ++row) {
      *target++ = static_cast<Row>(static_cast<std::uint64_t>(at.first_row) +
                                   permute(order, static_cast<std::uint64_t>(at.number + row)));
    }
    left -= rows;
  }
}

void permute_rows(stream_handle /*stream*/, const permute_work& work) {
  if (work.width == sizeof(std::uint32_t)) {
    permute_into<std::uint32_t>(work);
  } else {
    permute_into<std::uint64_t>(work);
  }
}

/// Bit i of the result is set where byte i of `bytes` is not 0.
std::uint64_t gather_bytes(std::uint64_t bytes) {
  constexpr std::uint64_t low_seven = 0x7f7f7f7f7f7f7f7f;
  const std::uint64_t high_bits = (((bytes & low_seven) + low_seven) | bytes) & ~low_seven;
  return ((high_bits >> 7) * 0x0102040810204080) >> 56;
}

/// Byte i of the result is bit i of `bits`, 0 or 1.
std::uint64_t spread_bits(std::uint64_t bits) {
  const std::uint64_t selected = ((bits & 0xff) * 0x0101010101010101) & 0x8040201008040201;
  return ((selected + 0x7f7f7f7f7f7f7f7f) >> 7) & 0x0101010101010101;
}

/// Zeroes `target` from byte `written` on to the end of a bitmap of `length` bits.
void zero_padding(std::uint8_t* target, std::int64_t length, std::int64_t written) {
  const auto done = static_cast<std::size_t>(written);
  if (bitmap_bytes(length) > done) {
    std::memset(target + done, 0, bitmap_bytes(length) - done);
  }
}

void pack_bool(stream_handle, const std::uint8_t* source, std::int64_t length, std::uint8_t* target) {
  const std::int64_t whole = length / 8;
  for (std::int64_t i = 0; i < whole; ++i) {
    target[i] = static_cast<std::uint8_t>(gather_bytes(load_word(source + i * 8)));
  }
  if (whole * 8 == length) {
    return zero_padding(target, length, whole);
  }
  std::uint64_t rest = 0;
  std::memcpy(&rest, source + whole * 8, static_cast<std::size_t>(length % 8));
  target[whole] = static_cast<std::uint8_t>(gather_bytes(rest));
  zero_padding(target, length, whole + 1);
}

void unpack_bool(stream_handle, const std::uint8_t* source, std::int64_t bit_offset, std::int64_t length,
                 std::uint8_t* target) {
  const bit_run bits(source, bit_offset, length);
  for (std::int64_t i = 0; i < bits.whole_words(); ++i) {
    const std::uint64_t word = bits.word(i);
    for (int byte = 0; byte < 8; ++byte) {
      store_word(target + i * word_bits + byte * 8, spread_bits(word >> (8 * byte)));
    }
  }
  if (bits.tail_bits() != 0) {
    const std::uint64_t tail = bits.tail();
    std::uint8_t* const rest = target + bits.whole_words() * word_bits;
    for (std::int64_t i = 0; i < bits.tail_bits(); ++i) {
      rest[i] = static_cast<std::uint8_t>((tail >> i) & 1);
    }
  }
}

void copy_bitmap(stream_handle, const std::uint8_t* source, std::int64_t bit_offset, std::int64_t length,
                 std::uint8_t* target, std::int64_t* null_count) {
  const bit_run bits(source, bit_offset, length);
  std::int64_t valid = 0;
  std::int64_t words = bits.whole_words();
  for (std::int64_t i = 0; i < words; ++i) {
    const std::uint64_t word = bits.word(i);
    valid += count_ones(word);
    store_word(target + i * 8, word);
  }
  if (bits.tail_bits() != 0) {
    const std::uint64_t tail = bits.tail();
    valid += count_ones(tail);
    store_word(target + words * 8, tail);
    ++words;
  }
  zero_padding(target, length, words * 8);
  if (null_count != nullptr) {
    *null_count = length - valid;
  }
}

void count_nulls(stream_handle, const std::uint8_t* source, std::int64_t bit_offset, std::int64_t length,
                 std::int64_t* null_count) {
  const bit_run bits(source, bit_offset, length);
  std::int64_t valid = bits.tail_bits() == 0 ? 0 : count_ones(bits.tail());
  for (std::int64_t i = 0; i < bits.whole_words(); ++i) {
    valid += count_ones(bits.word(i));
  }
  *null_count = length - valid;
}

/// Unsigned, so that offsets that were never validated wrap. Signed overflow would be undefined.
template <class Offset, class Unsigned>
void rebase_offsets(const Offset* source, std::int64_t count, Offset* target) {
  if (count == 0) {
    return;
  }
  const auto base = static_cast<Unsigned>(source[0]);
  for (std::int64_t i = 0; i < count; ++i) {
    target[i] = static_cast<Offset>(static_cast<Unsigned>(source[i]) - base);
  }
}

void rebase_offsets32(stream_handle, const std::int32_t* source, std::int64_t count, std::int32_t* target) {
  rebase_offsets<std::int32_t, std::uint32_t>(source, count, target);
}

void rebase_offsets64(stream_handle, const std::int64_t* source, std::int64_t count, std::int64_t* target) {
  rebase_offsets<std::int64_t, std::uint64_t>(source, count, target);
}

void fill_nulls(stream_handle, const std::uint8_t* validity, std::int64_t bit_offset, const void* source,
                std::int32_t width, std::int64_t length, std::uint64_t fill, void* target) {
  with_width(width, [&]<class Value>(Value) {
    const bit_run bits(validity, bit_offset, length);
    const auto* from = static_cast<const Value*>(source);
    auto* to = static_cast<Value*>(target);
    const auto write = [&](std::uint64_t word, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) {
        to[i] = ((word >> i) & 1) != 0 ? from[i] : static_cast<Value>(fill);
      }
      from += count;
      to += count;
    };
    for (std::int64_t i = 0; i < bits.whole_words(); ++i) {
      write(bits.word(i), word_bits);
    }
    if (bits.tail_bits() != 0) {
      write(bits.tail(), bits.tail_bits());
    }
  });
}

/// Copies the dimensions from `level` on. Returns the end of what it wrote.
template <class Value>
Value* gather_from(const std::byte* first, const strided_values& source, int level, Value* to) {
  const std::int64_t count = level < source.dimensions ? source.extents[level] : 1;
  const std::int64_t stride = level < source.dimensions ? source.strides[level] : 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::byte* const at = first + i * stride;
    if (level + 1 < source.dimensions) {
      to = gather_from(at, source, level + 1, to);
    } else {
      *to++ = *reinterpret_cast<const Value*>(at);
    }
  }
  return to;
}

void gather_strided(stream_handle, const strided_values& source, std::int32_t width, void* target) {
  with_width(width, [&]<class Value>(Value) {
    gather_from(static_cast<const std::byte*>(source.first), source, 0, static_cast<Value*>(target));
  });
}

void join(stream_handle, std::span<const join_step> steps, const join_step* uploaded) {
  join_now({uploaded, steps.size()});
}

void read_values(stream_handle, std::span<const value_request> requests, const value_request* uploaded,
                 std::int64_t* values) {
  read_values_now({uploaded, requests.size()}, values);
}

void check_values(stream_handle, std::span<const value_check> checks, const value_check* uploaded,
                  std::int64_t* bad_rows) {
  check_values_now({uploaded, checks.size()}, bad_rows);
}

void compare(stream_handle, std::span<const equal_task> tasks, const equal_task* uploaded,
             const equal_results& results) {
  compare_now({uploaded, tasks.size()}, results);
}

void expand(stream_handle, std::span<const list_expansion> expansions, const list_expansion* uploaded) {
  expand_now({uploaded, expansions.size()});
}

void count_taken(stream_handle, const take_work& work, std::int64_t* sums, taken_count* count) {
  count_taken_now({work.uploaded_steps, work.steps.size()}, work.uploaded_sources, sums, count);
}

void take(stream_handle, const take_work& work) {
  const bool passed = work.uploaded_steps == nullptr;
  take_now(passed ? work.steps : std::span(work.uploaded_steps, work.steps.size()), work.uploaded_sources);
}

void compress(stream_handle, const compress_work& work) { compress_now(work); }

void decompress(stream_handle, const decompress_work& work) { decompress_now(work); }

} // namespace

const kernel_table& reference_kernels() noexcept {
  static constexpr kernel_table table{
      .pack_bool = pack_bool,
      .unpack_bool = unpack_bool,
      .copy_bitmap = copy_bitmap,
      .count_nulls = count_nulls,
      .rebase_offsets32 = rebase_offsets32,
      .rebase_offsets64 = rebase_offsets64,
      .fill_nulls = fill_nulls,
      .gather_strided = gather_strided,
      .gather_columns = gather_columns,
      .join = join,
      .read_values = read_values,
      .check_values = check_values,
      .compare = compare,
      .expand = expand,
      .count_taken = count_taken,
      .take = take,
      .cast_numbers = cast_numbers,
      .permute_rows = permute_rows,
      .compress = compress,
      .decompress = decompress,
  };
  return table;
}

} // namespace saeta
