#include "saeta/ipc/format/metadata_encoder.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/text.hpp"
#include "saeta/ipc/format/message_fields.hpp"
#include "saeta/symbols/symbol_arrays.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

namespace saeta::ipc::detail {
namespace {

constexpr std::size_t entry_bytes = sizeof(std::uint16_t); // of a vtable
constexpr std::size_t front_entries = 2;                   // the sizes of the vtable and of the table

} // namespace

flat_builder::flat_builder(std::vector<std::byte>& bytes) : bytes_(bytes) { append(std::uint32_t{0}); }

/// Numbers are little-endian, as those of this machine.
template <class T>
void flat_builder::put(std::size_t at, T value) {
  std::memcpy(bytes_.data() + at, &value, sizeof value);
}

template <class T>
void flat_builder::append(T value) {
  const std::size_t at = bytes_.size();
  bytes_.resize(at + sizeof value);
  put(at, value);
}

/// Appends zeros up to a position that leaves `rest` when it is divided by `unit`.
void flat_builder::pad(std::size_t unit, std::size_t rest) {
  const std::size_t over = (bytes_.size() + unit - rest) % unit;
  bytes_.resize(bytes_.size() + (over == 0 ? 0 : unit - over));
}

void flat_builder::link(std::size_t place, std::size_t target) {
  put(place, checked_cast<std::uint32_t>(target - place, "bytes of a schema"));
}

/// The offset of the vtable comes first. Then the widest numbers, so that nothing lies between them: the
/// table begins 4 bytes before a multiple of 8.
flat_builder::table flat_builder::add_table(std::span<const slot> slots) {
  std::vector<slot> widest(slots.begin(), slots.end());
  std::ranges::stable_sort(widest, std::ranges::greater(), &slot::bytes);
  table table;
  std::size_t bytes = sizeof(std::int32_t);
  for (const slot& slot : slots) {
    table.places_.resize(std::max<std::size_t>(table.places_.size(), slot.field + 1), 0);
    bytes += slot.bytes;
  }
  pad(entry_bytes);
  const std::size_t vtable = bytes_.size();
  const std::size_t vtable_bytes = (front_entries + table.places_.size()) * entry_bytes;
  bytes_.resize(vtable + vtable_bytes);
  pad(sizeof(std::uint64_t), sizeof(std::int32_t));
  table.position_ = bytes_.size();
  bytes_.resize(table.position_ + bytes);
  put(vtable, checked_cast<std::uint16_t>(vtable_bytes, "bytes of a vtable"));
  put(vtable + entry_bytes, checked_cast<std::uint16_t>(bytes, "bytes of a table"));
  put(table.position_, static_cast<std::int32_t>(table.position_ - vtable));
  std::size_t at = table.position_ + sizeof(std::int32_t);
  for (const slot& slot : widest) {
    std::memcpy(bytes_.data() + at, &slot.value, slot.bytes);
    put(vtable + (front_entries + slot.field) * entry_bytes,
        static_cast<std::uint16_t>(at - table.position_));
    table.places_[slot.field] = at;
    at += slot.bytes;
  }
  return table;
}

void flat_builder::add_text(std::size_t place, std::string_view text) {
  pad(sizeof(std::uint32_t));
  link(place, bytes_.size());
  append(checked_cast<std::uint32_t>(text.size(), "bytes of a text"));
  const auto* const first = reinterpret_cast<const std::byte*>(text.data());
  bytes_.insert(bytes_.end(), first, first + text.size());
  bytes_.push_back(std::byte{0});
}

void flat_builder::add_numbers(std::size_t place, std::span<const std::int32_t> numbers) {
  const std::size_t first = add_offsets(place, numbers.size()); // offsets have the width of these numbers
  if (!numbers.empty()) {
    std::memcpy(bytes_.data() + first, numbers.data(), numbers.size_bytes());
  }
}

void flat_builder::add_items(std::size_t place, std::size_t count, std::span<const std::byte> items) {
  pad(sizeof(std::uint64_t), sizeof(std::uint32_t));
  link(place, bytes_.size());
  append(checked_cast<std::uint32_t>(count, "items of a list"));
  bytes_.insert(bytes_.end(), items.begin(), items.end());
}

std::size_t flat_builder::add_offsets(std::size_t place, std::size_t count) {
  pad(sizeof(std::uint32_t));
  link(place, bytes_.size());
  append(checked_cast<std::uint32_t>(count, "items of a list"));
  const std::size_t first = bytes_.size();
  bytes_.resize(first + count * sizeof(std::uint32_t));
  return first;
}
namespace {

using slot = flat_builder::slot;
using table = flat_builder::table;

/// A member of the union Type, with the numbers of its table.
struct flat_description {
  flat_type kind = flat_type::none;
  std::vector<slot> numbers{};
  std::string_view zone{}; ///< of a timestamp
};

template <class T>
slot number(unsigned field, T value) {
  return flat_builder::number(field, value);
}

/// The number that a format string has behind its colon or a comma, and what follows it.
std::int32_t take_number(std::string_view& text) {
  std::int32_t value = 0;
  const char* const end = std::from_chars(text.data(), text.data() + text.size(), value).ptr;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  text.remove_prefix(text.starts_with(',') ? 1 : 0);
  return value;
}

const described_type& plain_description_of(const data_type& type) {
  const std::string_view format = type.format();
  const auto* const found = std::ranges::find_if(described_types, [&](const described_type& each) {
    return each.format.ends_with(':') ? format.starts_with(each.format) : format == each.format;
  });
  if (found == described_types.end() ||
      type.value_type() != nullptr) { // of a dictionary, the values are described
    throw error(errc::unsupported, concat("type ", type.name(), " has no description in a file"));
  }
  return *found;
}

flat_description describe(const data_type& type) {
  const described_type& plain = plain_description_of(type);
  flat_description description{plain.kind};
  std::vector<slot>& numbers = description.numbers;
  for (const type_number& each : plain.numbers) {
    if (each.bytes != 0) {
      numbers.push_back({each.field, each.bytes, static_cast<std::uint64_t>(each.value)});
    }
  }
  std::string_view parameters = std::string_view(type.format()).substr(plain.format.size());
  switch (plain.kind) {
  case flat_type::decimal:
    numbers.push_back(number(decimal_precision, take_number(parameters)));
    numbers.push_back(number(decimal_scale, take_number(parameters)));
    numbers.push_back(number(decimal_bits, parameters.empty() ? 128 : take_number(parameters)));
    break;
  case flat_type::fixed_size_binary:
  case flat_type::fixed_size_list:
    numbers.push_back(number(type_size, take_number(parameters)));
    break;
  case flat_type::timestamp:
    description.zone = parameters;
    if (!parameters.empty()) {
      numbers.push_back(flat_builder::offset(timestamp_zone));
    }
    break;
  case flat_type::map:
    numbers.push_back(number(map_sorted, std::uint8_t{type.keys_sorted()}));
    break;
  case flat_type::either:
    numbers.push_back(flat_builder::offset(union_type_ids));
    break;
  default:
    break;
  }
  return description;
}

field field_in_file(const field& of) {
  field shown = described_as(of, symbol_form::dictionary);
  if (shown.type.is_byte_bool()) {
    shown.type = data_type(type_id::boolean);
  }
  return shown;
}

class encoder {
public:
  explicit encoder(flat_builder& to) : to_(to) {}

  table add(const schema& described) {
    std::vector<slot> slots{flat_builder::offset(schema_fields)};
    if (!described.metadata.empty()) {
      slots.push_back(flat_builder::offset(schema_metadata));
    }
    table table = to_.add_table(slots);
    std::size_t place = to_.add_offsets(table.place(schema_fields), described.fields.size());
    for (const field& field : described.fields) {
      to_.link(place, add(field_in_file(field)));
      place += sizeof(std::uint32_t);
    }
    if (!described.metadata.empty()) {
      add(table.place(schema_metadata), described.metadata);
    }
    return table;
  }

private:
  table add(const field& of) {
    const data_type* const values = of.type.value_type();
    const std::int64_t id = values == nullptr ? 0 : next_dictionary_++;
    const data_type& stored = values == nullptr ? of.type : *values;
    const flat_description type = describe(stored);
    const metadata_list metadata = metadata_of(of);
    std::vector<slot> slots{flat_builder::offset(field_name),
                            number(field_nullable, std::uint8_t{of.nullable}),
                            number(field_type_kind, static_cast<std::uint8_t>(type.kind)),
                            flat_builder::offset(field_type), flat_builder::offset(field_children)};
    if (values != nullptr) {
      slots.push_back(flat_builder::offset(field_dictionary));
    }
    if (!metadata.empty()) {
      slots.push_back(flat_builder::offset(field_metadata));
    }
    table table = to_.add_table(slots);
    to_.add_text(table.place(field_name), of.name);
    add_type(table.place(field_type), stored, type);
    if (values != nullptr) {
      add_dictionary(table.place(field_dictionary), of.type, id);
    }
    std::size_t place = to_.add_offsets(table.place(field_children), stored.children().size());
    for (const field& child : stored.children()) {
      to_.link(place, add(child));
      place += sizeof(std::uint32_t);
    }
    if (!metadata.empty()) {
      add(table.place(field_metadata), metadata);
    }
    return table;
  }

  void add_type(std::size_t place, const data_type& type, const flat_description& described) {
    const table table = to_.add_table(described.numbers);
    to_.link(place, table);
    if (!described.zone.empty()) {
      to_.add_text(table.place(timestamp_zone), described.zone);
    } else if (described.kind == flat_type::either) {
      const auto codes = type.type_codes();
      to_.add_numbers(table.place(union_type_ids), std::vector<std::int32_t>(codes.begin(), codes.end()));
    }
  }

  void add_dictionary(std::size_t place, const data_type& type, std::int64_t id) {
    const table table = to_.add_table({number(encoding_id, id), flat_builder::offset(encoding_indices),
                                       number(encoding_ordered, std::uint8_t{type.ordered()})});
    to_.link(place, table);
    to_.link(table.place(encoding_indices), to_.add_table(describe(*type.index_type()).numbers));
  }

  static metadata_list metadata_of(const field& of) {
    metadata_list list = of.metadata;
    if (!of.type.extension_name().empty()) {
      list.insert(list.begin(), {{std::string(extension_name_key), of.type.extension_name()},
                                 {std::string(extension_metadata_key), of.type.extension_metadata()}});
    }
    return list;
  }

  void add(std::size_t place, const metadata_list& metadata) {
    std::size_t entry = to_.add_offsets(place, metadata.size());
    for (const auto& [key, value] : metadata) {
      const table table =
          to_.add_table({flat_builder::offset(key_value_key), flat_builder::offset(key_value_value)});
      to_.link(entry, table);
      to_.add_text(table.place(key_value_key), key);
      to_.add_text(table.place(key_value_value), value);
      entry += sizeof(std::uint32_t);
    }
  }

  flat_builder& to_;
  std::int64_t next_dictionary_ = 0;
};

/// Appends the table of a record batch and its lists.
table add_batch(flat_builder& to, const packed_rows& batch, body_codec codec) {
  std::vector<slot> slots{number(batch_length, batch.rows), flat_builder::offset(batch_nodes),
                          flat_builder::offset(batch_buffers)};
  const bool views = !batch.variadic_counts.empty();
  const bool packed = codec != body_codec::none;
  if (packed) {
    slots.push_back(flat_builder::offset(batch_compression));
  }
  if (views) {
    slots.push_back(flat_builder::offset(batch_variadic_counts));
  }
  table header = to.add_table(slots);
  to.add_structs(header.place(batch_nodes), std::span(batch.nodes));
  to.add_structs(header.place(batch_buffers), std::span(batch.buffers));
  if (views) {
    to.add_structs(header.place(batch_variadic_counts), std::span(batch.variadic_counts));
  }
  if (packed) {
    const std::int8_t number_of_codec = codec == body_codec::lz4 ? 0 : 1;
    to.link(header.place(batch_compression), to.add_table({number(compression_codec, number_of_codec),
                                                           number(compression_method, std::int8_t{0})}));
  }
  return header;
}

} // namespace

schema schema_in_file(schema described) {
  std::ranges::transform(described.fields, described.fields.begin(), field_in_file);
  return described;
}

flat_builder::table add_schema(flat_builder& to, const schema& described) {
  return encoder(to).add(described);
}

std::vector<std::byte> encode_schema(const schema& described) {
  std::vector<std::byte> bytes;
  flat_builder to(bytes);
  const table message =
      to.add_table({number(message_version, version_5), number(message_header_type, header_of_schema),
                    flat_builder::offset(message_table), number(message_body_bytes, std::int64_t{0})});
  to.set_root(message);
  to.link(message.place(message_table), add_schema(to, described));
  return bytes;
}

std::vector<std::byte> encode_footer(const schema& described, const file_footer& blocks) {
  std::vector<std::byte> bytes;
  flat_builder to(bytes);
  const table footer =
      to.add_table({number(footer_version, version_5), flat_builder::offset(footer_schema),
                    flat_builder::offset(footer_dictionaries), flat_builder::offset(footer_batches)});
  to.set_root(footer);
  to.link(footer.place(footer_schema), add_schema(to, described));
  to.add_structs(footer.place(footer_dictionaries), std::span(blocks.dictionaries));
  to.add_structs(footer.place(footer_batches), std::span(blocks.batches));
  return bytes;
}

void append_message(std::vector<std::byte>& to, std::span<const std::byte> flat) {
  constexpr std::size_t unit = 8; // alignment of everything in a message
  const std::size_t padded = round_up(flat.size(), unit);
  const auto size = checked_cast<std::int32_t>(padded, "bytes of a message's metadata");
  const std::array<std::uint32_t, 2> prefix{continuation, static_cast<std::uint32_t>(size)};
  const auto prefix_of = std::as_bytes(std::span(prefix));
  to.insert(to.end(), prefix_of.begin(), prefix_of.end());
  to.insert(to.end(), flat.begin(), flat.end());
  to.resize(to.size() + padded - flat.size());
}

void append_batch_message(std::vector<std::byte>& to, const packed_rows& batch, const batch_kind& kind,
                          std::int64_t body_bytes) {
  constexpr std::size_t tables = 256; // bytes, at most
  std::vector<std::byte> bytes;
  bytes.reserve(tables + batch.nodes.size() * sizeof(packed_node) +
                batch.buffers.size() * sizeof(packed_range) +
                batch.variadic_counts.size() * sizeof(std::int64_t));
  flat_builder flat(bytes);
  const table message =
      flat.add_table({number(message_version, version_5),
                      number(message_header_type, kind.dictionary ? header_of_dictionary : header_of_batch),
                      flat_builder::offset(message_table), number(message_body_bytes, body_bytes)});
  flat.set_root(message);
  std::size_t place = message.place(message_table);
  if (kind.dictionary) {
    const table values =
        flat.add_table({number(dictionary_id, *kind.dictionary), flat_builder::offset(dictionary_data),
                        number(dictionary_delta, std::uint8_t{kind.is_delta})});
    flat.link(place, values);
    place = values.place(dictionary_data);
  }
  flat.link(place, add_batch(flat, batch, kind.codec));
  append_message(to, bytes);
}

void append_end_of_stream(std::vector<std::byte>& to) { append_message(to, {}); }

} // namespace saeta::ipc::detail
