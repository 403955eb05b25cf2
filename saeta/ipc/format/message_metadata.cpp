#include "saeta/ipc/format/message_metadata.hpp"

#include "saeta/ipc/arrow_status.hpp"
#include "saeta/ipc/format/message_fields.hpp"

#include <arrow/buffer.h>
#include <arrow/ipc/message.h>

#include <algorithm>
#include <array>
#include <memory>

namespace saeta::ipc::detail {
namespace {

static_assert(sizeof(message_block) == 24 && offsetof(message_block, body_bytes) == 16);
static_assert(sizeof(field_node) == 16 && sizeof(buffer_place) == 16);

std::string compression_name(const flat_table& batch) {
  const auto compression = batch.table(batch_compression);
  if (!compression) {
    return "none";
  }
  const auto codec = compression->scalar<std::int8_t>(compression_codec, 0);
  switch (codec) {
  case 0:
    return "lz4";
  case 1:
    return "zstd";
  default:
    return concat("codec ", +codec);
  }
}

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

void require_node(const field_node& node, std::size_t number) {
  if (node.length < 0 || node.null_count < -1 || node.null_count > node.length) {
    throw error(errc::format,
                concat("field ", number, " has ", node.length, " rows and ", node.null_count, " nulls"));
  }
}

void require_place(const buffer_place& place, std::size_t number, std::int64_t body_bytes) {
  constexpr std::int64_t unit = 8;
  if (place.length == 0) {
    return;
  }
  if (place.offset < 0 || place.length < 0 || place.offset > body_bytes ||
      place.length > body_bytes - place.offset) {
    throw error(errc::format, concat("buffer ", number, " has ", place.length, " bytes at offset ",
                                     place.offset, " of a body of ", body_bytes, " bytes"));
  }
  if (place.offset % unit != 0) {
    throw error(errc::format, concat("buffer ", number, " is at offset ", place.offset,
                                     ", which is not a multiple of ", unit));
  }
}

void verify_message(std::span<const std::byte> message) {
  const auto metadata = std::make_shared<arrow::Buffer>(reinterpret_cast<const std::uint8_t*>(message.data()),
                                                        std::ssize(message));
  check(arrow::ipc::Message::Open(metadata, nullptr).status(), "message metadata");
}

std::set<std::int64_t> dictionary_ids(const flat_table& schema) {
  std::set<std::int64_t> ids;
  append_ids(schema.tables(schema_fields), ids);
  return ids;
}

std::int64_t read_body_length(std::span<const std::byte> message) {
  return flat_table::root(message).scalar<std::int64_t>(message_body_bytes, 0);
}

dictionary_metadata read_dictionary_metadata(std::span<const std::byte> message) {
  const auto header = flat_table::root(message).table(message_table);
  const auto data = header ? header->table(dictionary_data) : std::nullopt;
  if (!data) {
    throw error(errc::format, "the dictionary message has no values");
  }
  return {header->scalar<std::int64_t>(dictionary_id, 0), data->scalar<std::int64_t>(batch_length, 0),
          header->scalar<std::uint8_t>(dictionary_delta, 0) != 0};
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

batch_metadata read_batch_metadata(std::span<const std::byte> message) {
  const auto root = flat_table::root(message);
  auto batch = root.table(message_table);
  if (batch && root.scalar<std::uint8_t>(message_header_type, 0) == header_of_dictionary) {
    batch = batch->table(dictionary_data);
  }
  if (!batch) {
    throw error(errc::format, "the record batch message has no record batch");
  }
  return {root.scalar<std::int16_t>(message_version, 0),
          batch->scalar<std::int64_t>(batch_length, 0),
          batch->structs<field_node>(batch_nodes),
          batch->structs<buffer_place>(batch_buffers),
          batch->structs<std::int64_t>(batch_variadic_counts),
          compression_name(*batch)};
}

} // namespace saeta::ipc::detail
