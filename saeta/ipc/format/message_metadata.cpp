#include "saeta/ipc/format/message_metadata.hpp"

#include "saeta/ipc/format/message_fields.hpp"

#include <algorithm>

namespace saeta::ipc::detail {
namespace {

static_assert(sizeof(message_block) == 24 && offsetof(message_block, body_bytes) == 16);

void append_ids(const flat_tables& fields, std::set<std::int64_t>& ids) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const flat_table each = fields[i];
    if (const auto encoding = each.table(field_dictionary)) {
      ids.insert(encoding->scalar<std::int64_t>(encoding_id, 0));
    }
    append_ids(each.tables(field_children), ids);
  }
}

} // namespace

file_footer read_footer(std::span<const std::byte> footer) {
  const auto root = flat_table::root(footer);
  static_cast<void>(schema_table(container::file, footer));
  static_cast<void>(read_metadata(root, footer_metadata));
  return {root.structs<message_block>(footer_dictionaries), root.structs<message_block>(footer_batches)};
}

flat_table schema_table(container format, std::span<const std::byte> front) {
  const bool file = format == container::file;
  const auto found = flat_table::root(front).table(file ? footer_schema : message_table);
  if (!found) {
    throw error(errc::format, concat("the ", file ? "footer" : "message", " has no schema"));
  }
  return *found;
}

error unknown_dictionary(std::int64_t id) {
  return error(errc::format, concat("dictionary ", id, " is not in the schema"));
}

void require_known(std::int64_t id, const flat_table& schema, known_ids& ids) {
  if (!ids) {
    append_ids(schema.tables(schema_fields), ids.emplace());
  }
  if (!ids->contains(id)) {
    throw unknown_dictionary(id);
  }
}

} // namespace saeta::ipc::detail
