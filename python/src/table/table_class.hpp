// The parts of the class Table, one function each.
#pragma once

#include "python/src/core/module.hpp"
#include "python/src/core/objects.hpp"

namespace saeta::py {

using table_class = nb::class_<table_object>;

/// Rows and columns by name, number and slice.
void bind_access(table_class& c);
/// Tensors of rows and columns.
void bind_tensors(table_class& c);
/// Rows that are chosen, filled or moved.
void bind_rows(table_class& c);
/// Tables with other columns.
void bind_changes(nb::module_& m, table_class& c);

/// Column `index`, which must exist.
column_object column_at(const table& self, std::size_t index);
std::vector<column_object> columns_of(const table& self);

} // namespace saeta::py
