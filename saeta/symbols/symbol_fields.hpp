// Symbols in the fields of Arrow schemas: which metadata marks them, and how they are described to others.
//
// Failure   type_mismatch and exchange, naming the column.
// Standard  XLOG's metadata of fields: xlog.symbol=true, xlog.symbol_encoding=u32.
#pragma once

#include "saeta/column/schema.hpp"

#include <memory>
#include <optional>

namespace saeta {

/// The symbol type of a uint32 field whose metadata marks its values as symbols of a table that it names. The
/// symbol keys are removed from the metadata. Returns nullopt and leaves the metadata unchanged if the field
/// is not marked, or if no table is named, as in XLOG's own arrays, or one that is not in this process: the
/// numbers then stay numbers, because in another table they mean other names.
std::optional<data_type> symbols_by_metadata(const data_type& storage, metadata_list& metadata);

/// True if an import turns this dictionary into symbols.
bool becomes_symbols(const field& described);

/// The schema of the imported columns: a dictionary that the metadata marks as symbols becomes symbols. All
/// other fields stay the same.
schema resolve_symbols(schema described);
field resolve_symbols(const field& described);

/// The field of a column that becomes symbols of `table`. Earlier symbol keys are removed from its metadata.
/// @param table  null: the process's, unless the metadata marks numbers as symbols of a table that it does
///               not name. That table has to be given.
/// @throws error type_mismatch for a type that can't become symbols, exchange if the metadata says that the
///         numbers are symbols of another table, or of one that is not given.
field as_symbols(const field& described, const std::shared_ptr<symbol_table>& table);

/// How symbols are exported.
enum class symbol_form {
  dictionary, ///< names, for consumers on the host
  numbers,    ///< the symbols themselves (uint32), for devices; the metadata names their table
};
/// The field as an export describes it: symbols in that form, and every other type unchanged.
field described_as(const field& source, symbol_form form);

} // namespace saeta
