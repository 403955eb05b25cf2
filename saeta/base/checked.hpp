// Size arithmetic that throws instead of wrapping.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/base/source_location.hpp"
#include "saeta/base/text.hpp"

#include <concepts>
#include <cstddef>
#include <string_view>
#include <utility>

namespace SAETA_EXPORT saeta {

template <std::integral T>
T checked_add(T a, T b, std::string_view part, source_location where = source_location::current()) {
  T sum{};
  if (__builtin_add_overflow(a, b, &sum)) {
    throw error(errc::overflow, concat(part, ": ", +a, " + ", +b, " overflows"), where);
  }
  return sum;
}

template <std::integral T>
T checked_mul(T a, T b, std::string_view part, source_location where = source_location::current()) {
  T product{};
  if (__builtin_mul_overflow(a, b, &product)) {
    throw error(errc::overflow, concat(part, ": ", +a, " x ", +b, " overflows"), where);
  }
  return product;
}

/// Value-preserving conversion between integer types.
template <std::integral To, std::integral From>
To checked_cast(From value, std::string_view part, source_location where = source_location::current()) {
  if (!std::in_range<To>(value)) {
    throw error(errc::overflow, concat(part, ": ", +value, " does not fit"), where);
  }
  return static_cast<To>(value);
}

/// The bytes of `count` values of type T. @throws error invalid_argument for a negative count, overflow.
template <class T, std::integral Count>
std::size_t bytes_of_values(Count count, source_location where = source_location::current()) {
  if constexpr (std::signed_integral<Count>) {
    if (count < 0) {
      throw error(errc::invalid_argument, concat("the number of values is ", +count), where);
    }
  }
  return checked_mul(checked_cast<std::size_t>(count, "number of values", where), sizeof(T),
                     "number of values x bytes of a value", where);
}

/// Rounds `value` up to a multiple of `unit`, which is a power of two.
template <std::unsigned_integral T>
T round_up(T value, T unit) {
  return static_cast<T>(checked_add(value, static_cast<T>(unit - 1), "size rounded up") &
                        ~static_cast<T>(unit - 1));
}

} // namespace saeta
