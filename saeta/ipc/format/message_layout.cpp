#include "saeta/ipc/format/message_layout.hpp"

#include "saeta/column/column.hpp"
#include "saeta/ipc/format/message_fields.hpp"

#include <string>

namespace saeta::ipc::detail {
namespace {

static_assert(sizeof(field_node) == 16 && sizeof(buffer_place) == 16);

body_codec codec_of(const flat_table& batch) {
  const auto compression = batch.table(batch_compression);
  if (!compression) {
    return body_codec::none;
  }
  compression->require_place("the compression");
  const auto codec = compression->scalar<std::int8_t>(compression_codec, 0);
  const auto method = compression->scalar<std::int8_t>(compression_method, 0);
  if (codec < 0 || codec > 1 || method != 0) {
    throw error(errc::unsupported, concat("its body is compressed by codec ", +codec, " and method ", +method,
                                          ", expected codec 0 (LZ4) or 1 (ZSTD) and method 0"));
  }
  return codec == 0 ? body_codec::lz4 : body_codec::zstd;
}

bool is_sound(const field_node& node) {
  return node.length >= 0 && node.null_count >= -1 && node.null_count <= node.length;
}

constexpr std::int64_t buffer_unit = 8; // alignment of the buffers in a body

/// Returns what is wrong with the place of a buffer. One without bytes may be anywhere.
std::optional<std::string> fault_of(const buffer_place& place, std::int64_t body_bytes) {
  if (place.length == 0) {
    return std::nullopt;
  }
  if (place.offset < 0 || place.length < 0 || place.offset > body_bytes ||
      place.length > body_bytes - place.offset) {
    return concat("has ", place.length, " bytes at offset ", place.offset, " of a body of ", body_bytes,
                  " bytes");
  }
  if (place.offset % buffer_unit != 0) {
    return concat("is at offset ", place.offset, ", which is not a multiple of ", buffer_unit);
  }
  return std::nullopt;
}

/// Returns the column that a buffer belongs to; empty if the columns are not known, or it is of another one.
std::string label_of_buffer(const column_tree* names, const batch_layout& of, std::size_t number) {
  node_buffers buffers(of);
  for (std::size_t i = 0; names != nullptr && i < names->nodes.size(); ++i) {
    const tree_node& node = names->nodes[i];
    if (of.variadic_counts.size() < node.views_before + (node.type->has_variadic_buffers() ? 1U : 0U)) {
      break;
    }
    const node_buffers::range range = buffers.next(node);
    if (number >= range.first && number < range.first + range.count) {
      return concat(names->label(i), ": ");
    }
  }
  return {};
}

std::string label_of_node(const column_tree* names, std::size_t number) {
  for (std::size_t i = 0; names != nullptr && i < names->nodes.size(); ++i) {
    if (names->nodes[i].row == number) {
      return concat(names->label(i), ": ");
    }
  }
  return {};
}

void check_counts(const batch_layout& of) {
  std::uint64_t left = of.buffers.size();
  for (std::size_t i = 0; i < of.variadic_counts.size(); ++i) {
    const std::int64_t count = of.variadic_counts[i];
    if (count < 0 || static_cast<std::uint64_t>(count) > left) {
      refuse_metadata(concat("a column of views has ", count, " data buffers, the batch has ",
                             of.buffers.size(), " buffers"));
    }
    left -= static_cast<std::uint64_t>(count);
  }
}

void require_count(std::string_view what, std::size_t found, std::size_t needed) {
  if (found < needed) {
    refuse_metadata(concat(found, ' ', what, ", the schema needs ", needed));
  }
}

static_assert(sizeof(message_block) == 24 && offsetof(message_block, body_bytes) == 16);

void append_ids(const flat_tables& fields, std::set<std::int64_t>& ids) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const flat_table table = fields[i];
    if (const auto encoding = table.table(field_dictionary)) {
      ids.insert(encoding->scalar<std::int64_t>(encoding_id, 0));
    }
    append_ids(table.tables(field_children), ids);
  }
}

} // namespace

metadata_list read_metadata(const flat_table& of, unsigned field) {
  metadata_list list;
  const flat_tables entries = of.tables(field);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const flat_table table = entries[i];
    table.require_place("a metadata entry");
    if (!table.place(key_value_key) || !table.place(key_value_value)) {
      refuse_metadata("a metadata entry has no key or no value");
    }
    list.emplace_back(table.text(key_value_key), table.text(key_value_value));
  }
  return list;
}

message_header read_header(std::span<const std::byte> metadata) {
  const flat_table message = flat_table::root(metadata);
  message.require_place("the message");
  const auto version = message.scalar<std::int16_t>(message_version, 0);
  if (version < version_4 || version > version_5) {
    throw error(errc::unsupported, concat("its metadata is of version ", version + 1, ", expected ",
                                          version_4 + 1, " or ", version_5 + 1));
  }
  const auto kind = message.scalar<std::uint8_t>(message_header_type, 0);
  if (kind < header_of_schema || kind > header_of_batch) {
    throw error(kind == 0 ? errc::format : errc::unsupported,
                concat("its message is of kind ", +kind, ", expected a schema, a dictionary or a batch"));
  }
  const auto table = message.table(message_table);
  if (!table) {
    refuse_metadata("the message has no contents");
  }
  table->require_place("its contents");
  // Nobody uses the key-value metadata of the message, but broken ones are an error.
  static_cast<void>(read_metadata(message, message_metadata));
  const auto body_bytes = message.scalar<std::int64_t>(message_body_bytes, 0);
  if (body_bytes < 0) {
    refuse_metadata(concat("its body has ", body_bytes, " bytes"));
  }
  return {version, message_kind{kind}, body_bytes, *table};
}

void require_bytes(std::size_t number, std::uint64_t there, std::size_t needed, std::string_view name) {
  if (there < needed) {
    refuse_metadata(concat("its ", name, " take ", needed, " bytes, buffer ", number, " has ", there));
  }
}

child_rows pointed_by(std::int64_t first, std::int64_t last, std::int64_t limit, const data_type& type) {
  if (first < 0 || last < first || last > limit) {
    refuse_metadata(concat("the offsets of its first and last value are ", first, " and ", last,
                           ", there are ", limit, type.children().empty() ? " bytes" : " values"));
  }
  return {first, last - first};
}

node_buffers::range node_buffers::next(const tree_node& node) {
  for (; views_ < node.views_before; ++views_) {
    variadic_ += static_cast<std::size_t>(of_.variadic_counts[views_]);
  }
  const std::size_t more =
      node.type->has_variadic_buffers() ? static_cast<std::size_t>(of_.variadic_counts[views_]) : 0;
  return {node.buffer + variadic_, node.type->buffer_count() + more};
}

error mixed_messages() {
  return error(errc::format, "its metadata is of another version than that of the messages before it, or its "
                             "prefix is of another form");
}

error delta_of_nothing(std::int64_t dictionary) {
  return error(errc::format,
               concat("values are added to dictionary ", dictionary, ", which no message before has given"));
}

std::int64_t id_of_dictionary(const message_header& header) {
  return header.table.scalar<std::int64_t>(dictionary_id, 0);
}

batch_layout read_layout(const message_header& header, const column_tree* names) {
  batch_layout layout;
  layout.version = header.version;
  layout.body_bytes = header.body_bytes;
  flat_table batch = header.table;
  if (header.kind == message_kind::dictionary_batch) {
    layout.dictionary = id_of_dictionary(header);
    layout.is_delta = header.table.scalar<std::uint8_t>(dictionary_delta, 0) != 0;
    const auto values = header.table.table(dictionary_data);
    if (!values) {
      refuse_metadata(concat("dictionary ", *layout.dictionary, " has no values"));
    }
    batch = *values;
    batch.require_place("its values");
  } else if (header.kind != message_kind::record_batch) {
    refuse_metadata("its message is a schema, expected a record batch");
  }
  layout.rows = batch.scalar<std::int64_t>(batch_length, 0);
  if (layout.rows < 0) {
    refuse_metadata(concat("a record batch of ", layout.rows, " rows"));
  }
  layout.codec = codec_of(batch);
  layout.nodes = batch.view<field_node>(batch_nodes);
  for (std::size_t i = 0; i < layout.nodes.size(); ++i) {
    if (const field_node node = layout.nodes[i]; !is_sound(node)) {
      refuse_metadata(concat(label_of_node(names, i), "field ", i, " has ", node.length, " rows and ",
                             node.null_count, " nulls"));
    }
  }
  layout.buffers = batch.view<buffer_place>(batch_buffers);
  layout.variadic_counts = batch.view<std::int64_t>(batch_variadic_counts);
  check_counts(layout);
  for (std::size_t i = 0; i < layout.buffers.size(); ++i) {
    if (const auto fault = fault_of(layout.buffers[i], layout.body_bytes)) {
      refuse_metadata(concat(label_of_buffer(names, layout, i), "buffer ", i, " ", *fault));
    }
  }
  return layout;
}

batch_layout read_layout(std::span<const std::byte> metadata) { return read_layout(read_header(metadata)); }

void batch_layout::require_entries(const column_tree& tree) const {
  require_count("field nodes", nodes.size(), tree.rows);
  require_count("counts of data buffers of views", variadic_counts.size(), tree.views);
  std::size_t needed = tree.buffers;
  for (std::size_t i = 0; i < tree.views; ++i) {
    needed += static_cast<std::size_t>(variadic_counts[i]);
  }
  require_count("buffers", buffers.size(), needed);
  for (std::size_t i = 0; i < tree.nodes.size(); ++i) {
    const tree_node& node = tree.nodes[i];
    if (node.parent == no_node) {
      continue;
    }
    const tree_node& above = tree.nodes[node.parent];
    const auto used = rows_of_children(*above.type, 0, nodes[above.row].length);
    if (used && nodes[node.row].length < used->count) {
      refuse_metadata(
          concat(tree.label(i), ": ", nodes[node.row].length, " rows, its parent refers to ", used->count));
    }
  }
}

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

void require_honest_sizes(const batch_layout& batch, const column_tree& tree,
                          std::span<const std::byte> body) {
  node_buffers buffers(batch);
  for (const tree_node& node : tree.nodes) {
    const auto [first, count] = buffers.next(node);
    const bool unread_validity = node.type->has_validity() && batch.nodes[node.row].null_count == 0;
    for (std::size_t i = first + (unread_validity ? 1 : 0); i < first + count; ++i) {
      const buffer_place place = batch.buffers[i];
      if (place.length != 0) {
        const auto packed =
            body.subspan(static_cast<std::size_t>(place.offset), static_cast<std::size_t>(place.length));
        static_cast<void>(read_claim(i, batch.codec, packed.size(), [&](std::uint64_t at, std::size_t bytes) {
          return packed.subspan(at, bytes);
        }));
      }
    }
  }
}

} // namespace saeta::ipc::detail
