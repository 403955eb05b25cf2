// Shared by the bindings of types, fields and schemas.
#pragma once

#include "python/src/core/module.hpp"
#include "saeta/column/schema.hpp"

namespace saeta::py {

/// Converts a DataType, a type name of Arrow or an object with `__arrow_c_schema__` to a type.
data_type type_from(nb::handle given);

void bind_field(nb::module_& m);
void bind_schema(nb::module_& m);

} // namespace saeta::py
