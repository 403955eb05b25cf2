// Schemas of tables in the packed form, and the tables of fields that their messages follow.
//
// What      Two types of columns are described by others: symbols by dictionaries of names, as in files, and
//           bools of one byte by `arrow.bool8`, which has the same bytes. Metadata of the field says what
//           they were.
// Failure   error unsupported (types that the format can't describe), format.
#pragma once

#include "saeta/column/schema.hpp"
#include "saeta/ipc/format/column_tree.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace saeta::ipc::detail {

/// A schema with the positions of its columns in the messages.
struct packed_schema {
  packed_schema() = default;
  packed_schema(const packed_schema&) = delete; // the trees refer to the types of the fields
  packed_schema& operator=(const packed_schema&) = delete;
  ~packed_schema() = default;

  schema fields;               ///< the columns as messages describe them
  schema shown;                ///< the columns as the table has them
  std::vector<std::byte> flat; ///< the FlatBuffer of the schema message
  column_tree tree;
  dictionary_trees dictionaries;
  bool own_dictionaries = true; ///< no two places have dictionaries of one id
};

/// The packed form of a schema, which is encoded once. Equal schemas that were used last share it.
std::shared_ptr<const packed_schema> packed_form(const schema_index& of);

struct decoded_schema {
  std::shared_ptr<const packed_schema> form; ///< the message
  std::shared_ptr<const schema_index> shown; ///< the schema that the message describes
};

/// Reads a schema message. `packed_form` of its schema is the same message, unless columns share a dictionary
/// there: tables of an equal schema may have different ones. The schemas that were read last are kept,
/// because tables that arrive one after the other often have the same one.
/// @param flat  the FlatBuffer of the message
decoded_schema decode_schema(std::span<const std::byte> flat);

} // namespace saeta::ipc::detail
