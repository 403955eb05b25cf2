// The C++ object inside the class SymbolTable: a pointer of the core, which never owns a Python object.
#pragma once

#include "saeta/symbols/symbol_table.hpp"

#include <memory>

namespace saeta::py {

struct symbol_table_object {
  std::shared_ptr<symbol_table> value;
};

} // namespace saeta::py
