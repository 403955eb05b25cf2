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

std::set<std::int64_t> dictionary_ids(const flat_table& schema) {
  std::set<std::int64_t> ids;
  append_ids(schema.tables(schema_fields), ids);
  return ids;
}

} // namespace saeta::ipc::detail
