// Explains in words why a check of values failed: one text for imports and for files.
//
// @code
// struct : checked_values { // the offsets 0, 3, 1 of an array of strings
//   std::int64_t number(std::size_t /*buffer*/, std::int64_t row, std::int32_t /*width*/) override {
//     return std::array{0, 3, 1}.at(static_cast<std::size_t>(row));
//   }
//   std::int64_t child_rows(std::size_t /*child*/) override { return 0; }
//   std::int64_t variadic_bytes(std::size_t /*buffer*/) override { return 0; }
// } offsets;
// const failed_check failed{.kind = check_kind::offsets, .width = 4, .limit = 3, .row = 1};
// std::cout << reason_of(data_type(type_id::string), failed,
//                        offsets); // offsets decrease from 3 to 1 at row 1
// @endcode
//
// What      The check reports which row is wrong (device/value_check.hpp). The numbers in the text are read
//           again by the caller's `checked_values`, which knows where the values are stored.
// Standard  Arrow columnar format, arrow.apache.org/docs/format/Columnar.html.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/column/data_type.hpp"
#include "saeta/device/value_check.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace SAETA_EXPORT saeta {

/// Reads the checked array. Rows count from the first checked row.
class checked_values {
public:
  checked_values() = default;
  checked_values(const checked_values&) = delete;
  checked_values& operator=(const checked_values&) = delete;
  virtual ~checked_values() = default;

  /// Reads a signed number: the bytes [row * width, (row + 1) * width) of buffer `buffer`, counted from the
  /// first row. For run-end encoded arrays, buffer 1 means the run ends.
  virtual std::int64_t number(std::size_t buffer, std::int64_t row, std::int32_t width) = 0;
  virtual std::int64_t child_rows(std::size_t child) = 0;
  /// The size of data buffer `buffer` of a column of views.
  virtual std::int64_t variadic_bytes(std::size_t buffer) = 0;
  /// The bytes of a string, valid until the next call. Only checks of text use it.
  [[nodiscard]] virtual std::span<const std::byte> text(std::int64_t /*row*/) { return {}; }
};

/// A check that failed.
struct failed_check {
  check_kind kind = check_kind::offsets;
  std::int32_t width = 0;
  /// As in value_check. For indices: the number of dictionary entries, or of names in the symbol table.
  std::int64_t limit = 0;
  std::int64_t row = 0;
};

/// Returns text such as "offsets decrease from 3 to 1 at row 1". @param type  of the array
[[nodiscard]] std::string reason_of(const data_type& type, const failed_check& failed,
                                    checked_values& values);

} // namespace saeta
