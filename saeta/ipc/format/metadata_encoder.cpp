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

flat_description integer(std::int32_t bits, bool is_signed) {
  return {flat_type::integer, {number(int_bits, bits), number(int_signed, std::uint8_t{is_signed})}};
}

flat_description floating_point(std::int16_t precision) {
  return {flat_type::floating_point, {number(float_precision, precision)}};
}

flat_description with_unit(flat_type kind, std::int16_t unit) { return {kind, {number(time_unit, unit)}}; }

/// Seconds, milliseconds, microseconds, nanoseconds.
std::int16_t unit_of(char letter) { return static_cast<std::int16_t>(std::string_view("smun").find(letter)); }

/// "tdD", "tts", "tsu:UTC", "tDn", "tiM"
flat_description time_of(std::string_view format) {
  const char unit = format[2];
  switch (format[1]) {
  case 'd':
    return with_unit(flat_type::date, unit == 'D' ? 0 : 1);
  case 'D':
    return with_unit(flat_type::duration, unit_of(unit));
  case 'i':
    return with_unit(flat_type::interval, static_cast<std::int16_t>(std::string_view("MDn").find(unit)));
  case 't': {
    flat_description description = with_unit(flat_type::time, unit_of(unit));
    description.numbers.push_back(number(time_bits, unit_of(unit) <= 1 ? 32 : 64));
    return description;
  }
  default: {
    flat_description result = with_unit(flat_type::timestamp, unit_of(unit));
    result.zone = format.substr(format.find(':') + 1);
    if (!result.zone.empty()) {
      result.numbers.push_back(flat_builder::offset(timestamp_zone));
    }
    return result;
  }
  }
}

/// "d:38,10", "d:18,2,64"
flat_description decimal_of(std::string_view format) {
  format.remove_prefix(2);
  const std::int32_t precision = take_number(format);
  const std::int32_t scale = take_number(format);
  const std::int32_t bits = format.empty() ? 128 : take_number(format);
  return {flat_type::decimal,
          {number(decimal_precision, precision), number(decimal_scale, scale), number(decimal_bits, bits)}};
}

flat_description sized(flat_type kind, std::string_view format) {
  format.remove_prefix(format.find(':') + 1);
  return {kind, {number(type_size, take_number(format))}};
}

flat_description union_of(type_id id) {
  const std::int16_t mode = id == type_id::dense_union ? 1 : 0;
  return {flat_type::either, {number(union_mode, mode), flat_builder::offset(union_type_ids)}};
}

flat_description describe(const data_type& type) {
  switch (type.id()) {
  case type_id::null:
    return {flat_type::null};
  case type_id::boolean:
    return {flat_type::boolean};
  case type_id::int8:
    return integer(8, true);
  case type_id::uint8:
    return integer(8, false);
  case type_id::int16:
    return integer(16, true);
  case type_id::uint16:
    return integer(16, false);
  case type_id::int32:
    return integer(32, true);
  case type_id::uint32:
    return integer(32, false);
  case type_id::int64:
    return integer(64, true);
  case type_id::uint64:
    return integer(64, false);
  case type_id::half_float:
    return floating_point(0);
  case type_id::float32:
    return floating_point(1);
  case type_id::float64:
    return floating_point(2);
  case type_id::decimal32:
  case type_id::decimal64:
  case type_id::decimal128:
  case type_id::decimal256:
    return decimal_of(type.format());
  case type_id::date32:
  case type_id::date64:
  case type_id::time32:
  case type_id::time64:
  case type_id::timestamp:
  case type_id::duration:
  case type_id::interval_months:
  case type_id::interval_day_time:
  case type_id::interval_month_day_nano:
    return time_of(type.format());
  case type_id::fixed_size_binary:
    return sized(flat_type::fixed_size_binary, type.format());
  case type_id::binary:
    return {flat_type::binary};
  case type_id::large_binary:
    return {flat_type::large_binary};
  case type_id::string:
    return {flat_type::utf8};
  case type_id::large_string:
    return {flat_type::large_utf8};
  case type_id::binary_view:
    return {flat_type::binary_view};
  case type_id::string_view:
    return {flat_type::utf8_view};
  case type_id::list:
    return {flat_type::list};
  case type_id::large_list:
    return {flat_type::large_list};
  case type_id::list_view:
    return {flat_type::list_view};
  case type_id::large_list_view:
    return {flat_type::large_list_view};
  case type_id::fixed_size_list:
    return sized(flat_type::fixed_size_list, type.format());
  case type_id::struct_:
    return {flat_type::structure};
  case type_id::map:
    return {flat_type::map, {number(map_sorted, std::uint8_t{type.keys_sorted()})}};
  case type_id::dense_union:
  case type_id::sparse_union:
    return union_of(type.id());
  case type_id::run_end_encoded:
    return {flat_type::run_end_encoded};
  case type_id::dictionary:
    break; // the caller describes the type of the values
  }
  throw error(errc::unsupported, concat("type ", type.name(), " has no description in a file"));
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

constexpr std::size_t unit = 8; // alignment of everything in a message

/// Appends the prefix of a message, and zeros for its metadata. Returns where the metadata begins.
std::size_t append_room(std::vector<std::byte>& to, std::size_t bytes) {
  const std::size_t padded = round_up(bytes, unit);
  const auto size = checked_cast<std::int32_t>(padded, "bytes of a message's metadata");
  const std::size_t at = to.size();
  to.resize(at + prefix_bytes + padded);
  std::memcpy(to.data() + at, &continuation, sizeof continuation);
  std::memcpy(to.data() + at + sizeof continuation, &size, sizeof size);
  return at + prefix_bytes;
}

/// A FlatBuffer that is filled at known places. The layout of a message is always the same: tables first, and
/// then the lists. Borrows its bytes.
class flat_buffer {
public:
  explicit flat_buffer(std::span<std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  void put(std::size_t at, const T& value) {
    std::memcpy(bytes_.data() + at, &value, sizeof value); // little-endian
  }
  /// An offset at `at` that leads to `target`.
  void link(std::size_t at, std::size_t target) { put(at, static_cast<std::uint32_t>(target - at)); }
  /// A table whose vtable lies before it. `fields` are the places of its fields in the table, 0 if absent.
  template <std::size_t Fields>
  void put_table(std::size_t vtable, std::size_t table, std::uint16_t table_bytes,
                 const std::array<std::uint16_t, Fields>& fields) {
    put(vtable, static_cast<std::uint16_t>((Fields + 2) * sizeof(std::uint16_t)));
    put(vtable + sizeof(std::uint16_t), table_bytes);
    put(vtable + 2 * sizeof(std::uint16_t), fields);
    put(table, static_cast<std::int32_t>(table - vtable));
  }
  /// A vector of structs. @returns its end.
  template <class T>
  std::size_t put_list(std::size_t at, const std::vector<T>& values) {
    put(at, static_cast<std::uint32_t>(values.size()));
    const std::size_t bytes = values.size() * sizeof(T);
    if (bytes != 0) {
      std::memcpy(bytes_.data() + at + sizeof(std::uint32_t), values.data(), bytes);
    }
    return at + sizeof(std::uint32_t) + bytes;
  }

private:
  std::span<std::byte> bytes_;
};

// Tables with numbers of 8 bytes begin 4 bytes before a multiple of 8: the offset of the vtable comes first.
constexpr std::size_t message_at = 20;
constexpr std::size_t dictionary_at = 60;
constexpr std::size_t table_distance = 40; // from one table to the next, with the vtable between them
constexpr std::size_t list_distance =
    32; // from the table of a batch to its lists, whose items follow 4 bytes
constexpr std::size_t compression_bytes = 16; // bytes of the vtable and the table of a BodyCompression

/// The table of a record batch at `at` and its lists.
void put_batch(flat_buffer& to, std::size_t at, const packed_rows& batch, body_codec codec) {
  const bool views = !batch.variadic_counts.empty();
  const bool packed = codec != body_codec::none;
  to.put_table<5>(
      at - 16, at, 28,
      {4, 12, 16, static_cast<std::uint16_t>(packed ? 20 : 0), static_cast<std::uint16_t>(views ? 24 : 0)});
  to.put(at + 4, batch.rows);
  const std::size_t nodes = at + list_distance;
  to.link(at + 12, nodes);
  const std::size_t buffers = to.put_list(nodes, batch.nodes) + sizeof(std::uint32_t);
  to.link(at + 16, buffers);
  std::size_t end = to.put_list(buffers, batch.buffers) + sizeof(std::uint32_t);
  if (views) {
    to.link(at + 24, end);
    end = to.put_list(end, batch.variadic_counts) + sizeof(std::uint32_t);
  }
  if (packed) {
    // The fields of BodyCompression: codec, method.
    to.put_table<2>(end, end + 8, 8, {4, 5});
    to.link(at + 20, end + 8);
    to.put(end + 12, static_cast<std::int8_t>(codec == body_codec::lz4 ? 0 : 1));
  }
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
  const std::size_t at = append_room(to, flat.size());
  if (!flat.empty()) {
    std::memcpy(to.data() + at, flat.data(), flat.size());
  }
}

void append_batch_message(std::vector<std::byte>& to, const packed_rows& batch, const batch_kind& kind,
                          std::int64_t body_bytes) {
  const bool dictionary = kind.dictionary.has_value();
  const std::size_t batch_at = dictionary ? dictionary_at + table_distance : dictionary_at;
  const std::size_t lists = batch.nodes.size() * sizeof(packed_node) +
                            batch.buffers.size() * sizeof(packed_range) +
                            batch.variadic_counts.size() * sizeof(std::int64_t);
  constexpr std::size_t counts = 3 * 2 * sizeof(std::uint32_t); // with padding before them
  const std::size_t packed = kind.codec == body_codec::none ? 0 : compression_bytes;
  const std::size_t at = append_room(to, batch_at + list_distance + counts + lists + packed);
  flat_buffer buffer{std::span(to).subspan(at)};
  buffer.link(0, message_at);
  // The fields of Message: version, header_type, header, bodyLength.
  buffer.put_table<4>(message_at - 16, message_at, 20, {16, 18, 12, 4});
  buffer.put(message_at + 4, body_bytes);
  buffer.link(message_at + 12, dictionary_at);
  buffer.put(message_at + 16, version_5);
  buffer.put(message_at + 18, dictionary ? header_of_dictionary : header_of_batch);
  if (dictionary) {
    // The fields of DictionaryBatch: id, data, isDelta.
    buffer.put_table<3>(dictionary_at - 16, dictionary_at, 20, {4, 12, 16});
    buffer.put(dictionary_at + 4, *kind.dictionary);
    buffer.link(dictionary_at + 12, batch_at);
    buffer.put(dictionary_at + 16, static_cast<std::uint8_t>(kind.is_delta ? 1 : 0));
  }
  put_batch(buffer, batch_at, batch, kind.codec);
}

void append_end_of_stream(std::vector<std::byte>& to) { append_message(to, {}); }

} // namespace saeta::ipc::detail
