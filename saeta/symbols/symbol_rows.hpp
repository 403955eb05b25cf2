// Reads rows of strings and of symbols in host memory, one by one.
#pragma once

#include "saeta/symbols/symbol_table.hpp"
#include "saeta/transfer/host_array.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace saeta {

inline constexpr std::size_t symbol_width = sizeof(symbol);
/// The tag of memory that holds symbols.
inline constexpr const char* symbols_tag = "symbols";
/// Number of rows interned at a time.
inline constexpr std::int64_t interned_block = 4096;

inline std::size_t as_size(std::int64_t number) { return static_cast<std::size_t>(number); }

inline bool valid_at(const host_array& of, std::int64_t row) noexcept {
  const std::size_t at = as_size(of.offset + row);
  return of.buffers[0].data() == nullptr ||
         (std::to_integer<unsigned>(of.buffers[0][at / 8]) >> (at % 8) & 1u) != 0;
}

/// The string of a valid row.
inline std::string_view text_at(const host_array& of, std::int64_t row) noexcept {
  const std::int64_t at = of.offset + row;
  const auto base = [](std::span<const std::byte> bytes) {
    return reinterpret_cast<const char*>(bytes.data());
  };
  if (const std::size_t width = of.type.offset_width(); width != 0) {
    const std::int64_t first = read_offset(of.buffers[1].data(), width, at);
    const std::int64_t last = read_offset(of.buffers[1].data(), width, at + 1);
    return first == last ? std::string_view()
                         : std::string_view(base(of.buffers[2]) + first, as_size(last - first));
  }
  std::int32_t view[4]; // size, then up to 12 bytes; or size, prefix, buffer number, offset
  std::memcpy(view, of.buffers[1].data() + as_size(at) * sizeof view, sizeof view);
  const auto bytes = static_cast<std::size_t>(view[0]);
  return bytes <= 12
             ? std::string_view(base(of.buffers[1]) + as_size(at) * sizeof view + sizeof *view, bytes)
             : std::string_view(base(of.buffers[2 + static_cast<std::size_t>(view[2])]) + view[3], bytes);
}

inline symbol symbol_at(const host_array& of, std::int64_t row) noexcept {
  symbol found = 0;
  std::memcpy(&found, of.buffers[1].data() + as_size(of.offset + row) * symbol_width, symbol_width);
  return found;
}

/// Interns the rows that are not null and calls `take(row, symbol)` for each.
/// @param name_of  returns the name of such a row
template <class NameOf, class Take>
void intern_rows(const host_array& of, symbol_table& table, NameOf name_of, Take take) {
  std::vector<std::string_view> names;
  std::vector<std::int64_t> rows;
  std::vector<symbol> values;
  for (std::int64_t first = 0; first < of.length; first += interned_block) {
    names.clear();
    rows.clear();
    for (std::int64_t row = first; row < std::min(first + interned_block, of.length); ++row) {
      if (valid_at(of, row)) {
        names.push_back(name_of(row));
        rows.push_back(row);
      }
    }
    values.resize(names.size());
    table.intern(names, values);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      take(rows[i], values[i]);
    }
  }
}

} // namespace saeta
