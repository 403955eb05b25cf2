// Whether two types or schemas describe the same data, and the common type of rows that are joined.
//
// What      `==` compares all properties of a type or schema. `same_type` and `same_schema` compare as
//           `equals` of Arrow's types and schemas does: the metadata of fields and schemas, and the names of
//           children of lists, maps and run-end encoded types, count only if the caller requests it. The name
//           and metadata of an extension belong to the type and always count.
// Together  Rows of tables that are joined, of files that are read as one and of tables that one file gets
//           have one type. It is the one that all have by `same_type`, with two exceptions, at every depth: a
//           field allows nulls if one of them does, and type null goes with any type, because its rows are
//           nulls of that type. Names of children and metadata are those of the first.
//           compute/cast.hpp converts.
// Thread    Pure functions.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/column/schema.hpp"

#include <optional>
#include <string_view>

namespace SAETA_EXPORT saeta {

[[nodiscard]] bool same_type(const data_type& a, const data_type& b, bool check_metadata = false);
[[nodiscard]] bool same_schema(const schema& a, const schema& b, bool check_metadata = false);

/// The common type of rows of both types, by the rules above; nullopt if there is none.
[[nodiscard]] std::optional<data_type> united_type(const data_type& first, const data_type& other);

/// The common schema of rows of both schemas, by the rules above.
/// @param first_name, other_name  name the owners of the schemas in messages: a file, "table 1"
/// @throws error type_mismatch naming `other_name`, the column and both types.
[[nodiscard]] schema united_schema(const schema& first, std::string_view first_name, const schema& other,
                                   std::string_view other_name);

/// Requires that rows of a schema can be rows of `meant`, which allows all nulls that they may have.
/// @throws error type_mismatch naming `name`, the column and both types.
void require_fits(const schema& given, std::string_view name, const schema& meant);

} // namespace saeta
