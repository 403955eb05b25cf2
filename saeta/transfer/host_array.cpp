#include "saeta/transfer/host_array.hpp"

#include "saeta/base/text.hpp"
#include "saeta/device/kernels.hpp"
#include "saeta/device/requested_value.hpp"

#include <algorithm>
#include <cstring>

namespace saeta {

dictionary_cache::key dictionary_cache::key_of(const host_array& dictionary) {
  key key;
  append_key(dictionary, key);
  return key;
}

void dictionary_cache::append_key(const host_array& of, key& key) {
  for (const auto& range : of.buffers) {
    key.first.push_back(range.data());
  }
  key.second.insert(key.second.end(), {of.offset, of.length});
  for (const host_array& child : of.children) {
    append_key(child, key);
  }
  if (of.dictionary != nullptr) {
    append_key(*of.dictionary, key);
  }
}

std::shared_ptr<const column> dictionary_cache::find(const host_array& dictionary) const {
  const auto [first, last] = known_.equal_range(key_of(dictionary));
  const auto match = std::find_if(
      first, last, [&](const auto& each) { return each.second.uploaded->type() == dictionary.type; });
  return match != last ? match->second.uploaded : nullptr;
}

void dictionary_cache::remember(const host_array& dictionary, std::shared_ptr<const column> uploaded,
                                std::shared_ptr<void> source) {
  known_.emplace(key_of(dictionary), entry{std::move(uploaded), nullptr, std::move(source)});
}

std::shared_ptr<const symbol_mapping> dictionary_cache::find_symbols(const host_array& dictionary) const {
  const auto entry = known_symbols_.find(key_of(dictionary));
  return entry != known_symbols_.end() ? entry->second.symbols : nullptr;
}

void dictionary_cache::remember(const host_array& dictionary, std::shared_ptr<const symbol_mapping> symbols,
                                std::shared_ptr<void> source) {
  known_symbols_[key_of(dictionary)] = {nullptr, std::move(symbols), std::move(source)};
}

row_window window_of(const data_type& type, std::int64_t offset, std::int64_t length) {
  if (length == 0) {
    return {};
  }
  return type.mapping() == row_mapping::run_ends ? row_window{0, offset + length, offset}
                                                 : row_window{offset, length, 0};
}

namespace {

/// Runs that contain rows [offset, rows): from the first that ends after row `offset` to the first that ends
/// after the last row. Unchecked run ends may be in any order. The result is still a valid range of runs.
child_rows runs_of(const host_array& ends, const row_window& rows) {
  const std::int32_t width = ends.type.byte_width();
  const auto first_past = [&](std::int64_t row) {
    return requested_value({.at = ends.buffers[1].data() + ends.offset * width,
                            .width = width,
                            .search = true,
                            .count = ends.length,
                            .greater = row});
  };
  const std::int64_t first = first_past(rows.offset);
  const std::int64_t last = std::min(first_past(rows.rows - 1), ends.length - 1);
  return first <= last ? child_rows{first, last - first + 1} : child_rows{0, ends.length};
}

} // namespace

child_rows rows_pointed_to(const host_array& of, const row_window& rows) {
  if (rows.rows == 0) {
    return {};
  }
  if (of.type.mapping() == row_mapping::run_ends) {
    return runs_of(of.children[0], rows);
  }
  if (const std::size_t width = of.type.offset_width(); width != 0) {
    const std::byte* const offsets = of.buffers[1].data();
    const std::int64_t first = read_offset(offsets, width, rows.first);
    return {first, read_offset(offsets, width, rows.first + rows.rows) - first};
  }
  return {};
}

int bit_shift(const data_type& type, std::size_t index, const row_window& rows) {
  return type.buffer(index).is_bitmap() ? static_cast<int>(rows.first % 8) : 0;
}

void shift_down(std::byte* bytes, std::size_t count, bool another_follows, int shift) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte above = i + 1 < count || another_follows ? bytes[i + 1] : std::byte{0};
    bytes[i] = bytes[i] >> shift | above << (8 - shift);
  }
}

std::vector<std::uint64_t> shifted_bits(std::span<const std::byte> bits, int shift, std::int64_t rows) {
  std::vector<std::uint64_t> values(bitmap_bytes(rows) / sizeof(std::uint64_t));
  reference_kernels().copy_bitmap(legacy_stream, reinterpret_cast<const std::uint8_t*>(bits.data()), shift,
                                  rows, reinterpret_cast<std::uint8_t*>(values.data()), nullptr);
  return values;
}

byte_window bytes_of(const data_type& type, std::size_t index, const row_window& rows) {
  return bytes_of_rows(type.buffer(index), static_cast<std::size_t>(rows.first),
                       static_cast<std::size_t>(rows.rows));
}

byte_window bytes_of(const data_type& type, std::size_t index, const row_window& rows,
                     const child_rows& pointed, std::size_t whole) {
  if (type.buffer(index).role != buffer_role::bytes) {
    return bytes_of(type, index, rows);
  }
  return type.has_variadic_buffers()
             ? byte_window{0, whole}
             : byte_window{static_cast<std::size_t>(pointed.first), static_cast<std::size_t>(pointed.count)};
}

std::int64_t nulls_of_part(std::int64_t nulls, std::int64_t rows, std::int64_t count) noexcept {
  if (count == rows || nulls == 0) {
    return nulls;
  }
  return nulls == rows || count == 0 ? count : column::unknown_nulls;
}

std::int64_t read_offset(const std::byte* offsets, std::size_t width, std::int64_t index) noexcept {
  const std::byte* at = offsets + static_cast<std::size_t>(index) * width;
  if (width == sizeof(std::int8_t)) {
    return static_cast<std::int8_t>(*at);
  }
  if (width == sizeof(std::int16_t)) {
    std::int16_t value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  if (width == sizeof(std::int32_t)) {
    std::int32_t value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  std::int64_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

bool bit_at(std::span<const std::byte> bits, std::int64_t position) noexcept {
  const auto at = static_cast<std::size_t>(position);
  return (bits[at / 8] >> static_cast<int>(at % 8) & std::byte{1}) != std::byte{0};
}

std::span<const std::byte> bytes_of_value(const host_array& of, std::int64_t row) {
  const auto number = [&](std::size_t width, std::int64_t index) {
    return read_offset(of.buffers[1].data(), width, index);
  };
  if (const std::size_t width = of.type.offset_width(); width != 0) {
    const auto first = static_cast<std::size_t>(number(width, row));
    const auto last = static_cast<std::size_t>(number(width, row + 1));
    // Without bytes there may be no buffer.
    return first == last ? std::span<const std::byte>() : of.buffers[2].subspan(first, last - first);
  }
  const auto width = static_cast<std::size_t>(of.type.buffer(1).width);
  const auto value = of.buffers[1].subspan(static_cast<std::size_t>(row) * width, width);
  if (!of.type.has_variadic_buffers()) {
    return value;
  }
  constexpr std::size_t word = sizeof(std::int32_t);
  constexpr std::size_t inline_bytes = 12;
  const auto size = static_cast<std::size_t>(number(word, 4 * row));
  if (size <= inline_bytes) {
    return value.subspan(word, size);
  }
  const auto buffer = of.type.buffer_count() + static_cast<std::size_t>(number(word, 4 * row + 2));
  return of.buffers[buffer].subspan(static_cast<std::size_t>(number(word, 4 * row + 3)), size);
}

} // namespace saeta
