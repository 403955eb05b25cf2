// Columns of symbols in tests: rows as the names that they stand for.
#pragma once

#include "saeta/symbols/symbol_table.hpp"
#include "support/tables.hpp"

#include <cstring>
#include <vector>

namespace saeta::support {

/// The name of each row, nothing for a null. @throws error out_of_range for a symbol without a name.
inline std::vector<cell> names_of(const column& source) {
  std::vector<cell> rows = cells(source);
  for (cell& each : rows) {
    if (each) {
      symbol number = 0;
      std::memcpy(&number, each->data(), sizeof number);
      each = std::string(source.type().symbols()->name(number));
    }
  }
  return rows;
}

} // namespace saeta::support
