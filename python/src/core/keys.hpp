// The keys with which Python selects columns and rows: names, numbers and slices.
#pragma once

#include "python/src/core/gil.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace saeta::py {

/// A str as UTF-8. A str with lone surrogates has no UTF-8 form and becomes bytes that match no name.
std::string name_of(nb::handle text);

/// Converts an int, or an object with __index__, to a place in a container of `size`. Negative numbers count
/// from the end.
/// @param kind  "column", for the message. @throws error out_of_range, even for numbers of more than 64 bits.
std::size_t place_of_number(nb::handle number, std::size_t size, std::string_view kind,
                            std::string_view container);

struct slice_bounds {
  std::int64_t start = 0;
  std::int64_t step = 1;
  std::int64_t length = 0;
};

/// @throws error type_mismatch if a bound is not a number.
slice_bounds bounds_of(const nb::slice& range, std::size_t size);

} // namespace saeta::py
