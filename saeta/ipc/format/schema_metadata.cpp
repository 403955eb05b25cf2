#include "saeta/ipc/format/schema_metadata.hpp"

#include "saeta/ipc/format/message_fields.hpp"
#include "saeta/ipc/format/message_metadata.hpp"
#include "saeta/symbols/symbol_fields.hpp"

#include <arrow/extension_type.h>

#include <array>
#include <utility>

namespace saeta::ipc::detail {
namespace {

struct left_to_libarrow {};

void require(bool usual) {
  if (!usual) {
    throw left_to_libarrow();
  }
}

/// Text that is shown to people and passes through C strings.
std::string_view plain_text(const flat_table& of, unsigned field) {
  const std::string_view text = of.text(field);
  require(is_utf8(text) && text.find('\0') == std::string_view::npos);
  return text;
}

metadata_list metadata_of(const flat_table& of, unsigned field) {
  metadata_list found;
  const flat_tables entries = of.tables(field);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const flat_table each = entries[i];
    require(each.is_placed_well() && each.place(key_value_key) && each.place(key_value_value));
    found.emplace_back(each.text(key_value_key), each.text(key_value_value));
  }
  return found;
}

/// Returns the item of a list by a number of the metadata.
template <class Item, std::size_t Size>
Item item_of(const std::array<Item, Size>& items, std::int64_t number) {
  require(std::in_range<std::size_t>(number) && static_cast<std::size_t>(number) < Size);
  return items[static_cast<std::size_t>(number)];
}

std::string_view integer_format(const flat_table& type) {
  const bool is_signed = type.scalar<std::uint8_t>(int_signed, 0) != 0;
  switch (type.scalar<std::int32_t>(int_bits, 0)) {
  case 8:
    return is_signed ? "c" : "C";
  case 16:
    return is_signed ? "s" : "S";
  case 32:
    return is_signed ? "i" : "I";
  case 64:
    return is_signed ? "l" : "L";
  default:
    throw left_to_libarrow();
  }
}

std::int16_t unit_of(const flat_table& type, std::int16_t missing) {
  return type.scalar<std::int16_t>(time_unit, missing);
}

constexpr std::array time_units{'s', 'm', 'u', 'n'};
constexpr std::int16_t milliseconds = 1;

std::string time_format(const flat_table& type) {
  const std::int16_t unit = unit_of(type, milliseconds);
  const char letter = item_of(time_units, unit);
  require(type.scalar<std::int32_t>(time_bits, 32) == (unit <= milliseconds ? 32 : 64));
  return concat("tt", letter);
}

std::string union_format(const flat_table& type, std::size_t children) {
  std::string format =
      concat("+u", item_of(std::array{'s', 'd'}, type.scalar<std::int16_t>(union_mode, 0)), ":");
  const auto ids = type.view<std::int32_t>(union_type_ids);
  const bool numbered = type.place(union_type_ids).has_value();
  for (std::size_t i = 0; i < (numbered ? ids.size() : children); ++i) {
    format += concat(i == 0 ? "" : ",", numbered ? ids[i] : static_cast<std::int32_t>(i));
  }
  return format;
}

/// The format string of the C Data Interface.
std::string format_of(flat_type kind, const flat_table& type, std::size_t children) {
  switch (kind) {
  case flat_type::null:
    return "n";
  case flat_type::integer:
    return std::string(integer_format(type));
  case flat_type::floating_point:
    return {item_of(std::array{'e', 'f', 'g'}, type.scalar<std::int16_t>(float_precision, 0))};
  case flat_type::binary:
    return "z";
  case flat_type::utf8:
    return "u";
  case flat_type::boolean:
    return "b";
  case flat_type::decimal:
    return concat("d:", type.scalar<std::int32_t>(decimal_precision, 0), ",",
                  type.scalar<std::int32_t>(decimal_scale, 0), ",",
                  type.scalar<std::int32_t>(decimal_bits, 128));
  case flat_type::date:
    return item_of(std::array{"tdD", "tdm"}, unit_of(type, milliseconds));
  case flat_type::time:
    return time_format(type);
  case flat_type::timestamp:
    return concat("ts", item_of(time_units, unit_of(type, 0)), ":", plain_text(type, timestamp_zone));
  case flat_type::interval:
    return item_of(std::array{"tiM", "tiD", "tin"}, unit_of(type, 0));
  case flat_type::duration:
    return concat("tD", item_of(time_units, unit_of(type, milliseconds)));
  case flat_type::list:
    return "+l";
  case flat_type::structure:
    return "+s";
  case flat_type::either:
    return union_format(type, children);
  case flat_type::fixed_size_binary:
    return concat("w:", type.scalar<std::int32_t>(type_size, 0));
  case flat_type::fixed_size_list:
    return concat("+w:", type.scalar<std::int32_t>(type_size, 0));
  case flat_type::map:
    return "+m";
  case flat_type::large_binary:
    return "Z";
  case flat_type::large_utf8:
    return "U";
  case flat_type::large_list:
    return "+L";
  case flat_type::run_end_encoded:
    return "+r";
  case flat_type::binary_view:
    return "vz";
  case flat_type::utf8_view:
    return "vu";
  case flat_type::list_view:
    return "+vl";
  case flat_type::large_list_view:
    return "+vL";
  case flat_type::none:
    break;
  }
  throw left_to_libarrow();
}

/// Names the children of a map as libarrow does.
void name_entries(std::vector<field>& children) {
  require(children.size() == 1 && !children.front().nullable &&
          children.front().type.extension_name().empty());
  const auto entries = children.front().type.children();
  require(children.front().type.id() == type_id::struct_ && entries.size() == 2 && !entries.front().nullable);
  field key = entries[0];
  field value = entries[1];
  key.name = "key";
  value.name = "value";
  children = {{"entries", data_type::nested("+s", {std::move(key), std::move(value)}), false, {}}};
}

/// The same for the children of a run-end encoded column, of which libarrow keeps only the types.
void name_runs(std::vector<field>& children) {
  require(children.size() == 2);
  for (const field& each : children) {
    require(each.metadata.empty() && each.type.extension_name().empty());
  }
  children = {{"run_ends", children[0].type, false, {}}, {"values", children[1].type, true, {}}};
}

/// Reads fields. Tables may share their children, so the number of fields is limited like the levels.
class field_reader {
public:
  field read(const flat_table& described, int depth = 0) {
    require(depth <= data_type::max_depth && ++fields_ <= max_fields && described.is_placed_well());
    field made{.name = std::string(plain_text(described, field_name)),
               .type = type_of(described, depth),
               .nullable = described.scalar<std::uint8_t>(field_nullable, 0) != 0,
               .metadata = {}};
    if (!described.place(field_metadata)) {
      return made;
    }
    made.metadata = metadata_of(described, field_metadata);
    made.type = take_extension(made.type, made.metadata);
    const std::string& extension = made.type.extension_name();
    if (!extension
             .empty()) { // libarrow checks the storage of types that it knows, and may rewrite their text
      require(is_utf8(extension) && arrow::GetExtensionType(extension) == nullptr);
    }
    if (depth == 0) { // inside another type, symbols keep their storage type
      made.type = symbols_by_metadata(made.type, made.metadata).value_or(made.type);
    }
    return made;
  }

private:
  static constexpr std::int64_t max_fields = std::int64_t{1} << 20;

  data_type type_of(const flat_table& described, int depth) {
    const data_type made = values_of(described, depth);
    const auto encoding = described.table(field_dictionary);
    if (!encoding) {
      return made;
    }
    const auto indices = encoding->table(encoding_indices);
    require(encoding->is_placed_well() && indices && indices->is_placed_well());
    static_cast<void>(encoding->scalar<std::int64_t>(encoding_id, 0)); // the plan needs it
    return data_type::dictionary(data_type::parse(integer_format(*indices)), made,
                                 encoding->scalar<std::uint8_t>(encoding_ordered, 0) != 0);
  }

  data_type values_of(const flat_table& described, int depth) {
    const auto kind = flat_type{described.scalar<std::uint8_t>(field_type_kind, 0)};
    const auto type = described.table(field_type);
    require(type.has_value() && type->is_placed_well());
    const flat_tables below = described.tables(field_children);
    std::vector<field> children;
    for (std::size_t i = 0; i < below.size(); ++i) {
      children.push_back(read(below[i], depth + 1));
    }
    const std::string format = format_of(kind, *type, children.size());
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
    require(children.empty());
    if (format != last_.format()) {
      last_ = data_type::parse(format);
    }
    return last_;
  }

  std::int64_t fields_ = 0;
  data_type last_; ///< last type without children: columns of one type often follow each other
};

} // namespace

std::optional<schema> read_schema(container format, std::span<const std::byte> front) {
  static_assert(footer_version == message_version);
  try {
    const flat_table root = flat_table::root(front);
    const flat_table described = schema_table(format, front);
    require(root.is_placed_well() && root.scalar<std::int16_t>(footer_version, 0) <= version_5);
    require(described.is_placed_well() && described.place(schema_fields));
    require(described.scalar<std::int16_t>(schema_endianness, 0) <= 1);
    schema made;
    const flat_tables fields = described.tables(schema_fields);
    made.fields.reserve(fields.size());
    field_reader reader;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      made.fields.push_back(reader.read(fields[i]));
    }
    made.metadata = metadata_of(described, schema_metadata);
    return made;
  } catch (const left_to_libarrow&) {
    return std::nullopt;
  } catch (const error&) {
    return std::nullopt;
  }
}

} // namespace saeta::ipc::detail
