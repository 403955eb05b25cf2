// Why a check of values failed, in words: one text for imports and for files.
//
// What      The check says which row is wrong (device/value_check.hpp). The numbers of the text are read again, by whoever
//           knows where the values lie.
// Standard  Arrow columnar format, arrow.apache.org/docs/format/Columnar.html.
#pragma once

#include "saeta/column/data_type.hpp"
#include "saeta/device/value_check.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace saeta {

/// Reads the array that was checked. Rows count from the first one that the check looked at.
class checked_values {
public:
  checked_values() = default;
  checked_values(const checked_values&) = delete;
  checked_values& operator=(const checked_values&) = delete;
  virtual ~checked_values() = default;

  /// A signed number: the bytes [row * width, (row + 1) * width) of buffer `buffer`, counted from the first row. Buffer 1 of a
  /// run-end encoded array holds its run ends.
  virtual std::int64_t number(std::size_t buffer, std::int64_t row, std::int32_t width) = 0;
  virtual std::int64_t child_rows(std::size_t child) = 0;
  /// Size of a buffer behind views.
  virtual std::int64_t variadic_bytes(std::size_t buffer) = 0;
  /// The bytes of a string, valid until the next call. Only checks of texts ask for them.
  virtual std::span<const std::byte> text(std::int64_t) { return {}; }
};

/// A check that does not hold.
struct failed_check {
  check_kind kind = check_kind::offsets;
  std::int32_t width = 0;
  std::int64_t limit =
      0; ///< as in value_check; of indices the entries of the dictionary, or the names of the table
  std::int64_t row = 0;
};

/// "offsets fall from 3 to 1 at row 1". @param type  of the array
std::string reason_of(const data_type& type, const failed_check& failed, checked_values& values);

} // namespace saeta
