// What the Python classes hold. Shared by the modules `_core` and `_ipc`.
//
// Contexts are held in a class of their own, so that no shared pointer of the core ever owns a Python object: the core
// drops its pointers on threads that know nothing of the GIL.
#pragma once

#include "gil.hpp"
#include "saeta/column/table.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace saeta::py {

struct context_object {
  std::shared_ptr<context> value;
};

/// A column of a table: its field and its pieces, one a batch.
struct column_object {
  column_object(field of, std::shared_ptr<context> in, std::vector<column> made_of)
      : described(std::move(of)), where(std::move(in)), pieces(std::move(made_of)) {}

  field described;
  std::shared_ptr<context> where;
  unlocked<std::vector<column>> pieces;
};

struct table_object {
  explicit table_object(table of) : value(std::move(of)) {}

  unlocked<table> value;
};

} // namespace saeta::py
