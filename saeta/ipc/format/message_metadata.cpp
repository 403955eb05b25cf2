#include "saeta/ipc/format/message_metadata.hpp"

#include "saeta/ipc/format/message_fields.hpp"

#include <algorithm>
#include <array>

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

/// The message contains the whole footer and refers to its schema table. Offsets in a FlatBuffer are
/// relative, so they stay valid when the footer is copied behind the message's table.
std::vector<std::byte> schema_message(std::span<const std::byte> footer) {
  constexpr std::size_t front = 32; // keeps the alignment of everything in the footer
  constexpr std::uint32_t table = 16;
  constexpr std::uint32_t vtable = 4;
  constexpr std::uint16_t header_at = 4; // from the table on
  constexpr std::uint16_t version_at = 8;
  constexpr std::uint16_t type_at = 10;
  const std::size_t schema = schema_table(container::file, footer).position();
  const auto version = flat_table::root(footer).scalar<std::int16_t>(footer_version, 0);
  std::vector<std::byte> made(front + footer.size());
  const auto put = [&](std::size_t at, auto value) { std::memcpy(made.data() + at, &value, sizeof value); };
  put(0, table);
  put(vtable, std::array<std::uint16_t, 5>{10, 12, version_at, type_at, header_at});
  put(table, std::int32_t{table - vtable});
  put(table + header_at, static_cast<std::uint32_t>(front + schema - table - header_at));
  put(table + version_at, std::max(version, version_4));
  put(table + type_at, header_of_schema);
  std::ranges::copy(footer, made.begin() + front);
  return made;
}

std::set<std::int64_t> dictionary_ids(const flat_table& schema) {
  std::set<std::int64_t> ids;
  append_ids(schema.tables(schema_fields), ids);
  return ids;
}

void place_buffers(std::span<std::byte> message, std::span<const buffer_place> places,
                   std::int64_t body_bytes) {
  const auto root = flat_table::root(message);
  const auto batch = root.table(message_table);
  const auto length = root.place(message_body_bytes);
  const auto there = batch ? batch->view<buffer_place>(batch_buffers) : flat_structs<buffer_place>();
  if (there.size() != places.size() || !length) {
    throw error(errc::format, concat("the record batch message has ", there.size(),
                                     " buffers in its body, expected ", places.size()));
  }
  const auto put = [&](std::size_t at, const auto& value) {
    std::memcpy(message.data() + at, &value, sizeof value); // little-endian
  };
  for (std::size_t i = 0; i < places.size(); ++i) {
    put(static_cast<std::size_t>(there.place(i) - message.data()), places[i]);
  }
  put(*length, body_bytes);
}

} // namespace saeta::ipc::detail
