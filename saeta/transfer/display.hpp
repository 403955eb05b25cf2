// Text of schemas, columns and tables, for people and logs.
//
// @code
// std::cout << to_string(orders.fields()) << '\n'; // a line for each column: "city: string not null"
// std::cout << to_string(price, 3) << '\n';        // "<double on host, 500 rows: 1.5, null, 2.5, ...>"
// std::cout << to_string(orders) << '\n';          // the columns with their first values
// @endcode
//
// What      Text in quotes, binary data in hexadecimal, lists in brackets, structs in braces. Decimals of
//           at most 128 bits are numbers; dates, times and symbols are the integers that they are stored as.
//           Long values are cut, and unions and runs are "...". Names and texts are made `printable`.
// Order     Downloads the rows that are shown, in one planned transfer.
// Failure   As `download` (transfer/download.hpp): download_forbidden, busy, device, budget_exceeded.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/column/table.hpp"

#include <cstdint>
#include <string>

namespace SAETA_EXPORT saeta {

[[nodiscard]] std::string to_string(const field& of);
[[nodiscard]] std::string to_string(const schema& of);
[[nodiscard]] std::string to_string(const column& of, std::int64_t rows = 5);
[[nodiscard]] std::string to_string(const table& of, std::int64_t rows = 5);

} // namespace saeta
