#include "saeta/ipc/format/message_fields.hpp"
#include "saeta/ipc/format/message_layout.hpp"
#include "saeta/symbols/symbol_arrays.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace saeta::ipc::detail {
namespace {

void require(bool usual, std::string_view why) {
  if (!usual) {
    refuse_metadata(why);
  }
}

std::int32_t read_number(const flat_table& type, const type_number& of) {
  switch (of.bytes) {
  case 1:
    return type.scalar<std::uint8_t>(of.field, 0) != 0 ? 1 : 0;
  case 2:
    return type.scalar(of.field, static_cast<std::int16_t>(of.missing));
  case 4:
    return type.scalar(of.field, of.missing);
  default:
    return of.value;
  }
}

/// The format string of the C Data Interface, without parameters.
std::string_view plain_format_of(flat_type kind, const flat_table& type) {
  const auto first = std::ranges::find(described_types, kind, &described_type::kind);
  if (first == described_types.end()) {
    throw error(errc::unsupported, concat("a type with number ", +static_cast<std::uint8_t>(kind),
                                          " in Arrow's format is not supported"));
  }
  std::array<std::int32_t, 2> found{}; // types of one kind have the same numbers
  std::ranges::transform(first->numbers, found.begin(),
                         [&](const type_number& each) { return read_number(type, each); });
  const auto match = std::find_if(first, described_types.end(), [&](const described_type& each) {
    return each.kind == kind && std::ranges::equal(each.numbers, found, {}, &type_number::value);
  });
  if (match != described_types.end()) {
    return match->format;
  }
  std::string numbers;
  for (std::size_t i = 0; i < found.size() && !first->numbers[i].name.empty(); ++i) {
    numbers += concat(i == 0 ? "" : " and ", first->numbers[i].name, ' ', found[i]);
  }
  refuse_metadata(concat("no type with number ", +static_cast<std::uint8_t>(kind), " has ", numbers));
}

std::string type_ids_of(const flat_table& type, std::size_t children) {
  std::string text;
  const auto ids = type.view<std::int32_t>(union_type_ids);
  const bool numbered = type.place(union_type_ids).has_value();
  for (std::size_t i = 0; i < (numbered ? ids.size() : children); ++i) {
    text += concat(i == 0 ? "" : ",", numbered ? ids[i] : static_cast<std::int32_t>(i));
  }
  return text;
}

/// @param zone  of a timestamp
std::string format_of(flat_type kind, const flat_table& type, std::string_view zone, std::size_t children) {
  require(kind != flat_type::none, "the field has no type");
  const std::string_view plain = plain_format_of(kind, type);
  switch (kind) {
  case flat_type::decimal:
    return concat(plain, type.scalar<std::int32_t>(decimal_precision, 0), ",",
                  type.scalar<std::int32_t>(decimal_scale, 0), ",",
                  type.scalar<std::int32_t>(decimal_bits, 128));
  case flat_type::fixed_size_binary:
  case flat_type::fixed_size_list:
    return concat(plain, type.scalar<std::int32_t>(type_size, 0));
  case flat_type::timestamp:
    return concat(plain, zone);
  case flat_type::either:
    return concat(plain, type_ids_of(type, children));
  default:
    return std::string(plain);
  }
}

/// Names the children of a map as libarrow does.
void name_entries(std::vector<field>& children) {
  require(children.size() == 1 && children.front().type.id() == type_id::struct_ &&
              children.front().type.children().size() == 2,
          "a map whose child is not a struct of keys and values");
  const auto entries = children.front().type.children();
  require(!children.front().nullable && !entries.front().nullable, "a map with nullable entries or keys");
  field key = entries[0];
  field value = entries[1];
  key.name = "key";
  value.name = "value";
  children = {{"entries", data_type::nested("+s", {std::move(key), std::move(value)}), false, {}}};
}

/// The same for the children of a run-end encoded column, of which libarrow keeps only the types.
void name_runs(std::vector<field>& children) {
  require(children.size() == 2, "a run-end encoded column without run ends and values");
  children = {{"run_ends", children[0].type, false, {}}, {"values", children[1].type, true, {}}};
}

/// Reads fields. Tables may share their children, so the number of fields is limited like the levels.
class field_reader {
public:
  field column(const flat_table& described) {
    obstacle_.clear();
    path_.clear();
    try {
      return read(described, 0);
    } catch (const error& failure) {
      rethrow(failure, path());
    }
  }

  /// Why no context can hold the last column; empty if one can.
  [[nodiscard]] const std::string& obstacle() const noexcept { return obstacle_; }

private:
  static constexpr std::int64_t max_fields = std::int64_t{1} << 20;

  field read(const flat_table& described, int depth) {
    described.require_place("a field");
    path_.push_back(described.text(field_name));
    if (depth > data_type::max_depth) {
      throw error(errc::unsupported, concat("the type has more than ", data_type::max_depth,
                                            " levels, the most that are supported"));
    }
    if (++fields_ > max_fields) {
      throw error(errc::unsupported,
                  concat("the schema has more than ", max_fields, " fields, the most that are supported"));
    }
    field field{.name = std::string(plain_text(path_.back(), "name", depth == 0 ? "name" : "type")),
                .type = type_of(described, depth),
                .nullable = described.scalar<std::uint8_t>(field_nullable, 0) != 0,
                .metadata = {}};
    path_.resize(static_cast<std::size_t>(depth) + 1);
    if (!described.place(field_metadata)) {
      return field;
    }
    field.metadata = read_metadata(described, field_metadata);
    field.type = take_extension(field.type, field.metadata);
    require_utf8(field.type.extension_name(), extension_name_key);
    if (depth == 0) { // inside another type, symbols keep their storage type
      field.type = symbols_by_metadata(field.type, field.metadata).value_or(field.type);
    }
    return field;
  }

  static void require_utf8(std::string_view text, std::string_view part) {
    if (!is_utf8(text)) {
      refuse_metadata(concat(part, " is not UTF-8: '", text, "'"));
    }
  }

  /// Text for messages and C strings. Notes an obstacle to the column if the text can't be one.
  std::string_view plain_text(std::string_view text, std::string_view part, std::string_view of_column) {
    if (text.find('\0') == std::string_view::npos) {
      require_utf8(text, part);
    } else if (obstacle_.empty()) {
      obstacle_ =
          concat("has a zero byte in its ", of_column, ", which can't pass the Arrow C Data Interface");
    }
    return text;
  }

  data_type type_of(const flat_table& described, int depth) {
    const data_type type = values_of(described, depth);
    const auto encoding = described.table(field_dictionary);
    if (!encoding) {
      return type;
    }
    const auto indices = encoding->table(encoding_indices);
    encoding->require_place("a dictionary");
    require(indices.has_value(), "a dictionary without a type of its indices");
    indices->require_place("a type of indices");
    static_cast<void>(encoding->scalar<std::int64_t>(encoding_id, 0)); // checks the id, which is read later
    return data_type::dictionary(data_type::parse(plain_format_of(flat_type::integer, *indices)), type,
                                 encoding->scalar<std::uint8_t>(encoding_ordered, 0) != 0);
  }

  data_type values_of(const flat_table& described, int depth) {
    const auto kind = flat_type{described.scalar<std::uint8_t>(field_type_kind, 0)};
    const auto type = described.table(field_type);
    require(type.has_value(), "the field has no type");
    type->require_place("a type");
    const flat_tables below = described.tables(field_children);
    std::vector<field> children;
    for (std::size_t i = 0; i < below.size(); ++i) {
      children.push_back(read(below[i], depth + 1));
      path_.resize(static_cast<std::size_t>(depth) + 1);
    }
    const std::string format = format_of(kind, *type, zone_of(kind, *type), children.size());
    if (kind == flat_type::run_end_encoded) {
      name_runs(children);
    }
    if (format.front() == '+') {
      const bool map = kind == flat_type::map;
      if (map) {
        name_entries(children);
      }
      const bool sorted = map && type->scalar<std::uint8_t>(map_sorted, 0) != 0;
      return data_type::nested(format, std::move(children), sorted);
    }
    require(children.empty(), "a type without children has some");
    if (format != last_.format()) {
      last_ = data_type::parse(format);
    }
    return last_;
  }

  std::string_view zone_of(flat_type kind, const flat_table& type) {
    if (kind != flat_type::timestamp) {
      return {};
    }
    const std::string_view zone = plain_text(type.text(timestamp_zone), "time zone", "type");
    return zone.substr(0, zone.find('\0'));
  }

  /// The path of the field at which reading has stopped.
  [[nodiscard]] std::string path() const {
    std::string text;
    for (const std::string_view name : path_) {
      text += concat(text.empty() ? "column '" : ", child '", name, "'");
    }
    return text.empty() ? "a column" : text;
  }

  std::int64_t fields_ = 0;
  std::string obstacle_;
  std::vector<std::string_view> path_; ///< names of the field and of its ancestors
  data_type last_; ///< last type without children: columns of one type often follow each other
};

} // namespace

source_schema read_schema(container format, std::span<const std::byte> front) {
  static_assert(footer_version == message_version);
  const flat_table root = flat_table::root(front);
  const flat_table described = schema_table(format, front);
  root.require_place(format == container::file ? "the footer" : "the schema message");
  const auto version = root.scalar<std::int16_t>(footer_version, 0);
  if (version > version_5) {
    throw error(errc::unsupported, concat("its metadata is of version ", version + 1,
                                          ", the latest that is supported is ", version_5 + 1));
  }
  described.require_place("the schema");
  require(described.place(schema_fields).has_value(), "the schema has no list of fields");
  const auto order = described.scalar<std::int16_t>(schema_endianness, 0);
  if (order > 1) {
    refuse_metadata(concat("its byte order is ", order, ", expected 0 or 1"));
  }
  source_schema schema;
  const flat_tables fields = described.tables(schema_fields);
  schema.fields.fields.reserve(fields.size());
  field_reader reader;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    schema.fields.fields.push_back(reader.column(fields[i]));
    if (!reader.obstacle().empty()) {
      schema.obstacles.emplace(i, reader.obstacle());
    }
  }
  schema.fields.metadata = read_metadata(described, schema_metadata);
  static_cast<void>(described.view<std::int64_t>(schema_features));
  return schema;
}

void source_schema::require_supported(std::size_t number) const {
  if (const auto entry = obstacles.find(number); entry != obstacles.end()) {
    throw error(errc::unsupported,
                concat("column '", fields.fields[number].name.c_str(), "' ", entry->second));
  }
}

} // namespace saeta::ipc::detail
