// What the bindings of types, fields and schemas share.
#pragma once

#include "module.hpp"
#include "saeta/column/schema.hpp"

namespace saeta::py {

/// A type from a DataType, text in Arrow's words, or an object with `__arrow_c_schema__`.
data_type type_from(nb::handle given);

void bind_field(nb::module_& m);
void bind_schema(nb::module_& m);

} // namespace saeta::py
