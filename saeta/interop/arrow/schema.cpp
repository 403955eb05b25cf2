#include "saeta/base/checked.hpp"
#include "saeta/interop/arrow/array.hpp"
#include "saeta/interop/arrow/c_data.hpp"
#include "saeta/interop/arrow/export.hpp"
#include "saeta/interop/arrow/owned.hpp"
#include "saeta/symbols/symbol_arrays.hpp"

#include <nanoarrow.h>

#include <cstring>

namespace saeta {
namespace {

/// Reads the parts of an encoded metadata string. The string has no total size, so only signs can be checked.
class metadata_reader {
public:
  metadata_reader(const char* at, const array_place& place) : at_(at), place_(place) {}

  std::int32_t number(std::string_view part) {
    std::int32_t value = 0;
    std::memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    if (value < 0) {
      throw error(errc::format, concat(place_, ": ", part, " of the metadata is ", value));
    }
    return value;
  }
  std::string text(std::string_view part) {
    const auto size = static_cast<std::size_t>(number(part));
    std::string value(at_, size);
    at_ += size;
    return value;
  }

private:
  const char* at_;
  const array_place& place_;
};

metadata_list read_metadata(const char* encoded, const array_place& place) {
  metadata_list list;
  if (encoded == nullptr) {
    return list;
  }
  metadata_reader reader(encoded, place);
  for (std::int32_t left = reader.number("the number of keys"); left > 0; --left) {
    std::string key = reader.text("the size of a key");
    list.emplace_back(std::move(key), reader.text("the size of a value"));
  }
  return list;
}

/// Names, time zones and other text of the standard are UTF-8. Python can't show anything else.
void require_utf8(std::string_view text, std::string_view part, const array_place& place) {
  if (!is_utf8(text)) {
    throw error(errc::format, concat(place, ": ", part, " is not UTF-8: '", text, "'"));
  }
}

data_type with_extension_of(const data_type& storage, metadata_list& metadata, const array_place& place) {
  const data_type type = take_extension(storage, metadata);
  require_utf8(type.extension_name(), extension_name_key, place);
  return type;
}

void require_valid(const ArrowSchema& source, const array_place& place) {
  if (source.release == nullptr) {
    throw error(errc::closed, concat(place, ": the ArrowSchema was released already"));
  }
  if (source.format == nullptr) {
    throw error(errc::format, concat(place, ": format is null"));
  }
  require_utf8(source.format, "format", place);
  require_utf8(source.name == nullptr ? "" : source.name, "name", place);
  if (source.n_children < 0 || (source.n_children > 0 && source.children == nullptr)) {
    throw error(errc::format, concat(place, ": n_children is ", source.n_children,
                                     source.children == nullptr ? " and children is null" : ""));
  }
  constexpr std::int64_t known_flags =
      ARROW_FLAG_DICTIONARY_ORDERED | ARROW_FLAG_NULLABLE | ARROW_FLAG_MAP_KEYS_SORTED;
  if ((source.flags & ~known_flags) != 0) {
    throw error(errc::format,
                concat(place, ": flags ", source.flags, " have bits that the standard does not define"));
  }
  if ((source.flags & ARROW_FLAG_DICTIONARY_ORDERED) != 0 && source.dictionary == nullptr) {
    throw error(errc::format, concat(place, ": flag DICTIONARY_ORDERED without a dictionary"));
  }
}

/// Reads nested types. An ArrowSchema may refer to the same child many times, or to itself, so the number of
/// levels and the number of fields are limited.
class type_reader {
public:
  /// The type without its extension.
  data_type storage(const ArrowSchema& source, const array_place& place, int depth = 0) {
    require_valid(source, place);
    if (depth > data_type::max_depth) {
      throw error(errc::unsupported, concat(place, ": the type has more than ", data_type::max_depth,
                                            " levels, the most that are supported"));
    }
    if (++fields_ > max_fields) {
      throw error(errc::unsupported, concat(place, ": the type has more than ", max_fields,
                                            " fields, the most that are supported"));
    }
    if (source.dictionary == nullptr && source.n_children == 0 && source.format == last_.format()) {
      return last_;
    }
    const data_type parsed = parsed_type(source, place, depth);
    if (source.dictionary == nullptr) {
      if (source.format[0] != '+') {
        last_ = parsed;
      }
      return parsed;
    }
    const array_place inner = place.dictionary();
    data_type values = storage(*source.dictionary, inner, depth + 1);
    metadata_list metadata = read_metadata(source.dictionary->metadata, inner);
    values = with_extension_of(values, metadata, inner);
    if (!parsed.is_integer()) {
      throw error(errc::format,
                  concat(place, ": dictionary indices are of type ", parsed.name(), ", expected an integer"));
    }
    return data_type::dictionary(parsed, values, (source.flags & ARROW_FLAG_DICTIONARY_ORDERED) != 0);
  }

  field one(const ArrowSchema& source, const array_place& place, int depth = 0) {
    field field;
    field.type = storage(source, place, depth);
    if (source.metadata != nullptr) {
      field.metadata = read_metadata(source.metadata, place);
      field.type = with_extension_of(field.type, field.metadata, place);
      if (depth == 0) { // inside another type, symbols keep their storage type
        field.type = symbols_by_metadata(field.type, field.metadata).value_or(field.type);
      }
    }
    field.name = source.name == nullptr ? "" : source.name;
    field.nullable = (source.flags & ARROW_FLAG_NULLABLE) != 0;
    return field;
  }

private:
  static constexpr std::int64_t max_fields = std::int64_t{1} << 20;

  data_type parsed_type(const ArrowSchema& source, const array_place& place, int depth) {
    std::vector<field> children;
    for (std::int64_t i = 0; i < source.n_children; ++i) {
      if (source.children[i] == nullptr) {
        throw error(errc::format, concat(place, ": children[", i, "] is null"));
      }
      const ArrowSchema& child = *source.children[i];
      const array_place inner =
          place.child(child.release == nullptr || child.name == nullptr ? "" : child.name);
      children.push_back(one(child, inner, depth + 1));
    }
    const bool nested = source.format[0] == '+';
    if (!nested && source.n_children != 0) {
      throw error(errc::format, concat(place, ": n_children is ", source.n_children,
                                       ", expected 0 for format '", source.format, "'"));
    }
    try {
      return nested ? data_type::nested(source.format, std::move(children),
                                        (source.flags & ARROW_FLAG_MAP_KEYS_SORTED) != 0)
                    : data_type::parse(source.format);
    } catch (const error& why) {
      throw error(why.code(), concat(place, ": ", why.message()));
    }
  }

  std::int64_t fields_ = 0;
  data_type last_; ///< last type without children: columns of one type often follow each other
};

array_place place_of(const ArrowSchema& source) {
  return array_place::column(source.release == nullptr || source.name == nullptr ? "" : source.name);
}

void require_done(ArrowErrorCode code, std::string_view part) {
  if (code != NANOARROW_OK) {
    throw error(code == ENOMEM ? errc::out_of_memory : errc::exchange,
                concat("export of ", part, ": ", std::strerror(code)));
  }
}

/// A C string can't hold a zero byte.
const char* c_text(const std::string& text, std::string_view part) {
  if (text.find('\0') != std::string::npos) {
    throw error(errc::exchange, concat("export of ", part, " '", text.c_str(), "': a zero byte follows"));
  }
  return text.c_str();
}

void append(std::string& encoded, std::string_view text) {
  const auto size = checked_cast<std::int32_t>(text.size(), "size of a metadata entry");
  encoded.append(reinterpret_cast<const char*>(&size), sizeof size);
  encoded.append(text);
}

std::string encode_metadata(const metadata_list& metadata) {
  std::string text;
  const auto count = checked_cast<std::int32_t>(metadata.size(), "number of metadata entries");
  text.append(reinterpret_cast<const char*>(&count), sizeof count);
  for (const auto& [key, value] : metadata) {
    append(text, key);
    append(text, value);
  }
  return text;
}

void set_metadata(ArrowSchema& target, const metadata_list& metadata) {
  if (!metadata.empty()) {
    require_done(ArrowSchemaSetMetadata(&target, encode_metadata(metadata).c_str()), "metadata");
  }
}

/// Fills an initialised schema.
void fill_field(const std::string& name, const data_type& type, bool nullable, metadata_list metadata,
                ArrowSchema& target) {
  require_done(ArrowSchemaSetFormat(&target, c_text(type.format(), "format")), "format");
  require_done(ArrowSchemaSetName(&target, c_text(name, "name")), "name");
  if (!type.extension_name().empty()) {
    // In front of all other entries: metadata may repeat the keys, and the first entry counts.
    metadata.insert(metadata.begin(), {{std::string(extension_name_key), type.extension_name()},
                                       {std::string(extension_metadata_key), type.extension_metadata()}});
  }
  set_metadata(target, metadata);
  target.flags = (nullable ? ARROW_FLAG_NULLABLE : 0) | (type.ordered() ? ARROW_FLAG_DICTIONARY_ORDERED : 0) |
                 (type.keys_sorted() ? ARROW_FLAG_MAP_KEYS_SORTED : 0);
  const std::span<const field> children = type.children();
  if (!children.empty()) {
    require_done(ArrowSchemaAllocateChildren(
                     &target, checked_cast<std::int64_t>(children.size(), "number of children")),
                 "children");
  }
  for (std::size_t i = 0; i < children.size(); ++i) {
    ArrowSchemaInit(target.children[i]);
    fill_field(children[i].name, children[i].type, children[i].nullable, children[i].metadata,
               *target.children[i]);
  }
  if (type.value_type() != nullptr) {
    require_done(ArrowSchemaAllocateDictionary(&target), "a dictionary type");
    ArrowSchemaInit(target.dictionary);
    fill_field({}, *type.value_type(), true, {}, *target.dictionary);
  }
}

void fill_exported(const field& source, symbol_form symbols, ArrowSchema& target) {
  const field shown = described_as(source, symbols);
  fill_field(shown.name, arrow_type(shown.type), shown.nullable, shown.metadata, target);
}

} // namespace

schema import_schema(const ArrowSchema& source) {
  const array_place whole("schema");
  require_valid(source, whole);
  if (std::strcmp(source.format, "+s") != 0 || source.dictionary != nullptr) {
    throw error(errc::format, concat("schema: type ", type_reader().one(source, whole).type.name(),
                                     ", expected a struct whose children are the columns"));
  }
  schema schema;
  schema.metadata = read_metadata(source.metadata, whole);
  type_reader reader;
  schema.fields.reserve(static_cast<std::size_t>(source.n_children));
  for (std::int64_t i = 0; i < source.n_children; ++i) {
    if (source.children[i] == nullptr) {
      throw error(errc::format, concat("schema: children[", i, "] is null"));
    }
    schema.fields.push_back(reader.one(*source.children[i], place_of(*source.children[i])));
  }
  return schema;
}

field import_field(const ArrowSchema& source) { return type_reader().one(source, place_of(source)); }

arrow_schema export_schema(const schema& source, symbol_form symbols) {
  arrow_schema schema;
  ArrowSchemaInit(schema.out());
  require_done(ArrowSchemaSetTypeStruct(
                   &schema.get(), checked_cast<std::int64_t>(source.fields.size(), "number of columns")),
               "a struct type");
  require_done(ArrowSchemaSetName(&schema.get(), ""), "name");
  schema.get().flags = 0;
  set_metadata(schema.get(), source.metadata);
  for (std::size_t i = 0; i < source.fields.size(); ++i) {
    fill_exported(source.fields[i], symbols, *schema.get().children[i]);
  }
  return schema;
}

arrow_schema export_field(const field& source, symbol_form symbols) {
  arrow_schema schema;
  ArrowSchemaInit(schema.out());
  fill_exported(source, symbols, schema.get());
  return schema;
}

} // namespace saeta
