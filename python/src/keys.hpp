// What Python chooses columns and rows by: names, numbers and slices of any kind.
#pragma once

#include "gil.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace saeta::py {

/// A str as UTF-8. One that has no UTF-8, with lone surrogates, becomes bytes that no name has.
std::string name_of(nb::handle text);

/// An int, or an object with __index__, as the place in a container of `size`; negative numbers count from the end.
/// @param kind  "column", for the message. @throws error out_of_range, for numbers of any size.
std::size_t place_of_number(nb::handle number, std::size_t size, std::string_view kind,
                            std::string_view container);

struct slice_bounds {
  std::int64_t start = 0;
  std::int64_t step = 1;
  std::int64_t length = 0;
};

/// @throws error type_mismatch where a bound is not a number.
slice_bounds bounds_of(const nb::slice& range, std::size_t size);

} // namespace saeta::py
