#include "saeta/device/reference_cast.hpp"

#include "saeta/base/half.hpp"
#include "saeta/device/cast_values.hpp"
#include "saeta/device/decimal_values.hpp"
#include "saeta/device/number_kinds.hpp"

#include <cmath>

namespace saeta {
namespace {

using cast_values::convert;
using equal_rows::bit;
using equal_rows::load;

struct half_number {
  std::uint16_t bits;
};

/// Kinds that `cast_work` excludes.
struct excluded_kind {};

template <class Target, class Source>
bool converted(Source value, bool rounds, Target& to) noexcept {
  if constexpr (std::is_same_v<Source, half_number>) {
    return converted(half_value(value.bits), rounds, to);
  } else if constexpr (std::is_same_v<Target, half_number>) {
    const auto number = static_cast<double>(value); // integers beyond it become infinite, so they differ
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

} // namespace

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

} // namespace saeta
