// Whether two types or schemas describe the same data, as `equals` of Arrow's types and schemas defines it.
//
// What      `==` compares all properties of a type or schema. Here the metadata of fields and schemas, and
//           the names of children of lists, maps and run-end encoded types, count only if the caller requests
//           it. The name and metadata of an extension belong to the type and always count.
// Thread    Pure functions.
#pragma once

#include "saeta/column/schema.hpp"

namespace saeta {

[[nodiscard]] bool same_type(const data_type& a, const data_type& b, bool check_metadata = false);
[[nodiscard]] bool same_schema(const schema& a, const schema& b, bool check_metadata = false);

} // namespace saeta
