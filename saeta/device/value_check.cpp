#include "saeta/device/value_check.hpp"

#include "saeta/device/unaligned.hpp"
#include "saeta/device/utf8.hpp"

#include <cstring>
#include <type_traits>

namespace saeta {
namespace {

/// Rows checked between two branches. The loop over a block has no branch, so that it is vectorised.
constexpr std::int64_t checked_rows = 1024;

/// The first row from `row` on for which `bad(row)` is not 0, or no_bad_row.
template <class Bad>
std::int64_t find_bad(std::int64_t row, std::int64_t rows, Bad bad) noexcept {
  for (; rows - row >= checked_rows; row += checked_rows) {
    decltype(bad(row)) any = 0;
    for (std::int64_t i = 0; i < checked_rows; ++i) {
      any |= bad(row + i);
    }
    if (any != 0) {
      break;
    }
  }
  for (; row < rows; ++row) {
    if (bad(row) != 0) {
      return row;
    }
  }
  return no_bad_row;
}

bool valid_row(const value_check& check, std::int64_t row) noexcept {
  const std::int64_t bit = check.bit_offset + row;
  return check.validity == nullptr || (check.validity[bit / 8] >> (bit % 8) & 1) != 0;
}

template <class Offset>
std::int64_t find_decrease(const value_check& check) noexcept {
  using flag = std::make_unsigned_t<Offset>;
  return find_bad(0, check.count, [&](std::int64_t i) {
    return static_cast<flag>(
        load_unaligned<Offset>(check.values, i + 1) < load_unaligned<Offset>(check.values, i) ? 1 : 0);
  });
}

/// The value of a null row may be anything, so the validity is checked where an index is out of range.
template <class Index>
std::int64_t find_outside(const value_check& check) noexcept {
  constexpr auto greatest = static_cast<std::uint64_t>(std::numeric_limits<Index>::max());
  const auto limit = static_cast<std::uint64_t>(check.limit);
  if (limit > greatest) {
    return no_bad_row;
  }
  const auto below = static_cast<Index>(limit);
  const auto bad = [&](std::int64_t i) {
    return static_cast<Index>(load_unaligned<Index>(check.values, i) >= below ? 1 : 0);
  };
  for (std::int64_t row = find_bad(0, check.count, bad); row != no_bad_row;
       row = find_bad(row + 1, check.count, bad)) {
    if (valid_row(check, row)) {
      return row;
    }
  }
  return no_bad_row;
}

template <class Offset>
std::int64_t find_beyond_child(const value_check& check) noexcept {
  const auto rows = static_cast<std::uint64_t>(check.limit);
  return find_bad(0, check.count, [&](std::int64_t i) {
    const auto offset = static_cast<std::uint64_t>(
        load_unaligned<Offset>(check.values, i)); // a negative offset becomes very large
    const auto size = static_cast<std::uint64_t>(load_unaligned<Offset>(check.second, i));
    return offset > rows || size > rows - (offset < rows ? offset : rows) ? 1 : 0;
  });
}

std::int64_t find_bad_union(const value_check& check) noexcept {
  return find_bad(0, check.count, [&](std::int64_t i) {
    const std::int64_t rows = check.table[load_unaligned<std::uint8_t>(check.values, i)];
    const std::int64_t offset = check.second == nullptr ? 0 : load_unaligned<std::int32_t>(check.second, i);
    const bool there = check.second == nullptr || (offset >= 0 && offset < rows);
    return rows < 0 || !there ? 1 : 0;
  });
}

bool is_valid_view(const value_check& check, std::int64_t row) noexcept {
  constexpr std::int32_t inline_bytes = 12;
  const auto size = load_unaligned<std::int32_t>(check.values, row * 4);
  const auto index = load_unaligned<std::int32_t>(check.values, row * 4 + 2);
  const auto offset = load_unaligned<std::int32_t>(check.values, row * 4 + 3);
  if ((size >= 0 && size <= inline_bytes) || !valid_row(check, row)) {
    return true;
  }
  if (size < 0 || index < 0 || index >= check.limit || offset < 0 ||
      std::int64_t{offset} + size > check.table[index]) {
    return false;
  }
  const auto address = static_cast<std::uintptr_t>(check.table[check.limit + index]);
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(address) + offset;
  return load_unaligned<std::uint32_t>(check.values, row * 4 + 1) == load_unaligned<std::uint32_t>(bytes, 0);
}

template <class End>
std::int64_t find_not_increasing(const value_check& check) noexcept {
  using flag = std::make_unsigned_t<End>;
  if (load_unaligned<End>(check.values, 0) <= 0) {
    return 0;
  }
  return find_bad(1, check.count, [&](std::int64_t i) {
    return static_cast<flag>(
        load_unaligned<End>(check.values, i) <= load_unaligned<End>(check.values, i - 1) ? 1 : 0);
  });
}

std::int64_t outside_of_width(const value_check& check) noexcept {
  switch (check.width) {
  case 1:
    return find_outside<std::uint8_t>(check);
  case 2:
    return find_outside<std::uint16_t>(check);
  case 4:
    return find_outside<std::uint32_t>(check);
  default:
    return find_outside<std::uint64_t>(check);
  }
}

std::int64_t first_bad(const value_check& check) noexcept {
  switch (check.kind) {
  case check_kind::offsets:
    return check.width == 4 ? find_decrease<std::int32_t>(check) : find_decrease<std::int64_t>(check);
  case check_kind::indices:
    return outside_of_width(check);
  case check_kind::list_views:
    return check.width == 4 ? find_beyond_child<std::int32_t>(check) : find_beyond_child<std::int64_t>(check);
  case check_kind::unions:
    return find_bad_union(check);
  case check_kind::views:
    return find_bad(0, check.count, [&](std::int64_t row) { return is_valid_view(check, row) ? 0 : 1; });
  case check_kind::run_ends:
    return check.width == 2   ? find_not_increasing<std::int16_t>(check)
           : check.width == 4 ? find_not_increasing<std::int32_t>(check)
                              : find_not_increasing<std::int64_t>(check);
  case check_kind::texts:
    return find_bad(0, check.count, [&](std::int64_t row) {
      return valid_row(check, row) && !is_valid_text(check, row) ? 1 : 0;
    });
  case check_kind::text_views:
    return find_bad(0, check.count, [&](std::int64_t row) {
      return valid_row(check, row) && !is_valid_text_view(check, row) ? 1 : 0;
    });
  }
  return no_bad_row;
}

} // namespace

void check_values_now(std::span<const value_check> checks, std::int64_t* bad_rows) noexcept {
  for (std::size_t i = 0; i < checks.size(); ++i) {
    bad_rows[i] = first_bad(checks[i]);
  }
}

} // namespace saeta
