#include "saeta/column/data_type.hpp"

#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/column/schema.hpp"

#include <nanoarrow.h>

#include <algorithm>
#include <array>
#include <unordered_map>

namespace saeta {
namespace {

struct known_type {
  ArrowType source;
  type_id id;
  std::string_view name;   ///< without parameters
  std::string_view format; ///< empty if the type has parameters
  layout_kind layout = layout_kind::fixed;
};

constexpr std::array<known_type, 44> known_types{{
    {NANOARROW_TYPE_NA, type_id::null, "null", "n", layout_kind::none},
    {NANOARROW_TYPE_BOOL, type_id::boolean, "bool", "b", layout_kind::bits},
    {NANOARROW_TYPE_INT8, type_id::int8, "int8", "c"},
    {NANOARROW_TYPE_UINT8, type_id::uint8, "uint8", "C"},
    {NANOARROW_TYPE_INT16, type_id::int16, "int16", "s"},
    {NANOARROW_TYPE_UINT16, type_id::uint16, "uint16", "S"},
    {NANOARROW_TYPE_INT32, type_id::int32, "int32", "i"},
    {NANOARROW_TYPE_UINT32, type_id::uint32, "uint32", "I"},
    {NANOARROW_TYPE_INT64, type_id::int64, "int64", "l"},
    {NANOARROW_TYPE_UINT64, type_id::uint64, "uint64", "L"},
    {NANOARROW_TYPE_HALF_FLOAT, type_id::half_float, "halffloat", "e"},
    {NANOARROW_TYPE_FLOAT, type_id::float32, "float", "f"},
    {NANOARROW_TYPE_DOUBLE, type_id::float64, "double", "g"},
    {NANOARROW_TYPE_DECIMAL32, type_id::decimal32, "decimal32", ""},
    {NANOARROW_TYPE_DECIMAL64, type_id::decimal64, "decimal64", ""},
    {NANOARROW_TYPE_DECIMAL128, type_id::decimal128, "decimal128", ""},
    {NANOARROW_TYPE_DECIMAL256, type_id::decimal256, "decimal256", ""},
    {NANOARROW_TYPE_DATE32, type_id::date32, "date32[day]", "tdD"},
    {NANOARROW_TYPE_DATE64, type_id::date64, "date64[ms]", "tdm"},
    {NANOARROW_TYPE_TIME32, type_id::time32, "time32", ""},
    {NANOARROW_TYPE_TIME64, type_id::time64, "time64", ""},
    {NANOARROW_TYPE_TIMESTAMP, type_id::timestamp, "timestamp", ""},
    {NANOARROW_TYPE_DURATION, type_id::duration, "duration", ""},
    {NANOARROW_TYPE_INTERVAL_MONTHS, type_id::interval_months, "month_interval", "tiM"},
    {NANOARROW_TYPE_INTERVAL_DAY_TIME, type_id::interval_day_time, "day_time_interval", "tiD"},
    {NANOARROW_TYPE_INTERVAL_MONTH_DAY_NANO, type_id::interval_month_day_nano, "month_day_nano_interval",
     "tin"},
    {NANOARROW_TYPE_FIXED_SIZE_BINARY, type_id::fixed_size_binary, "fixed_size_binary", ""},
    {NANOARROW_TYPE_BINARY, type_id::binary, "binary", "z", layout_kind::bytes},
    {NANOARROW_TYPE_LARGE_BINARY, type_id::large_binary, "large_binary", "Z", layout_kind::bytes},
    {NANOARROW_TYPE_STRING, type_id::string, "string", "u", layout_kind::bytes},
    {NANOARROW_TYPE_LARGE_STRING, type_id::large_string, "large_string", "U", layout_kind::bytes},
    {NANOARROW_TYPE_BINARY_VIEW, type_id::binary_view, "binary_view", "vz", layout_kind::views},
    {NANOARROW_TYPE_STRING_VIEW, type_id::string_view, "string_view", "vu", layout_kind::views},
    {NANOARROW_TYPE_LIST, type_id::list, "list", "", layout_kind::list},
    {NANOARROW_TYPE_LARGE_LIST, type_id::large_list, "large_list", "", layout_kind::list},
    {NANOARROW_TYPE_LIST_VIEW, type_id::list_view, "list_view", "", layout_kind::list_view},
    {NANOARROW_TYPE_LARGE_LIST_VIEW, type_id::large_list_view, "large_list_view", "", layout_kind::list_view},
    {NANOARROW_TYPE_FIXED_SIZE_LIST, type_id::fixed_size_list, "fixed_size_list", "",
     layout_kind::fixed_list},
    {NANOARROW_TYPE_STRUCT, type_id::struct_, "struct", "", layout_kind::structure},
    {NANOARROW_TYPE_MAP, type_id::map, "map", "", layout_kind::list},
    {NANOARROW_TYPE_DENSE_UNION, type_id::dense_union, "dense_union", "", layout_kind::dense_union},
    {NANOARROW_TYPE_SPARSE_UNION, type_id::sparse_union, "sparse_union", "", layout_kind::sparse_union},
    {NANOARROW_TYPE_RUN_END_ENCODED, type_id::run_end_encoded, "run_end_encoded", "", layout_kind::run_ends},
    {NANOARROW_TYPE_DICTIONARY, type_id::dictionary, "dictionary", ""},
}};

[[noreturn]] void refuse_text(std::string_view format, std::string_view why) {
  throw error(errc::format, concat("'", format, "' is not an Arrow type: ", why));
}

/// A schema with two levels of children: nanoarrow reads no deeper to identify a type. Nullability is kept,
/// because maps need it.
class described_schema {
public:
  described_schema(const char* format, std::span<const field> children, bool nullable = true,
                   int levels = 2) {
    schema_.format = format;
    schema_.flags = nullable ? ARROW_FLAG_NULLABLE : 0;
    schema_.release = [](ArrowSchema*) {};
    if (levels == 0) {
      return;
    }
    for (const field& child : children) {
      children_.emplace_back(child.type.format().c_str(), child.type.children(), child.nullable, levels - 1);
    }
    for (described_schema& child : children_) {
      pointers_.push_back(&child.schema_);
    }
    schema_.n_children = static_cast<std::int64_t>(pointers_.size());
    schema_.children = pointers_.data();
  }
  [[nodiscard]] const ArrowSchema& get() const { return schema_; }

private:
  ArrowSchema schema_{};
  std::vector<described_schema> children_;
  std::vector<ArrowSchema*> pointers_;
};

/// The view that nanoarrow parses from a format string; it points into `format`.
ArrowSchemaView view_of(const std::string& format, std::span<const field> children) {
  const described_schema described(format.c_str(), children);
  ArrowSchemaView view{};
  ArrowError why{};
  if (ArrowSchemaViewInit(&view, &described.get(), &why) != NANOARROW_OK) {
    refuse_text(format, why.message);
  }
  view.schema = nullptr;
  return view;
}

const known_type& known_type_of(ArrowType type) {
  const auto* const known =
      std::ranges::find_if(known_types, [&](const known_type& entry) { return entry.source == type; });
  if (known == known_types.end()) {
    throw error(errc::unsupported, concat("type ", ArrowTypeString(type), " is not supported"));
  }
  return *known;
}

std::int32_t greatest_precision(ArrowType decimal) {
  switch (decimal) {
  case NANOARROW_TYPE_DECIMAL32:
    return 9;
  case NANOARROW_TYPE_DECIMAL64:
    return 18;
  case NANOARROW_TYPE_DECIMAL128:
    return 38;
  default:
    return 76;
  }
}

/// Accepts only the canonical spelling of a decimal's format: the parser skips spaces and drops digits that
/// do not fit.
std::string decimal_format(const ArrowSchemaView& view, const std::string& format) {
  const std::string shortest = concat("d:", view.decimal_precision, ",", view.decimal_scale);
  const std::string full = concat(shortest, ",", view.decimal_bitwidth);
  if (format != full && (format != shortest || view.decimal_bitwidth != 128)) {
    refuse_text(format, concat("expected the canonical form ", full));
  }
  const std::int32_t limit = greatest_precision(view.type);
  if (view.decimal_precision < 1 || view.decimal_precision > limit) {
    refuse_text(format, concat("precision is ", view.decimal_precision, ", expected 1 to ", limit));
  }
  return view.decimal_bitwidth == 128 ? shortest : full;
}

std::string name_with_parameters(const known_type& known, const ArrowSchemaView& view) {
  switch (known.id) {
  case type_id::decimal32:
  case type_id::decimal64:
  case type_id::decimal128:
  case type_id::decimal256:
    return concat(known.name, "(", view.decimal_precision, ", ", view.decimal_scale, ")");
  case type_id::time32:
  case type_id::time64:
  case type_id::duration:
    return concat(known.name, "[", ArrowTimeUnitString(view.time_unit), "]");
  case type_id::timestamp: {
    const std::string_view zone = view.timezone == nullptr ? "" : view.timezone;
    return concat(known.name, "[", ArrowTimeUnitString(view.time_unit), zone.empty() ? "" : ", tz=", zone,
                  "]");
  }
  default:
    return std::string(known.name);
  }
}

std::string format_of(type_id simple) {
  const auto* const match = std::find_if(known_types.begin(), known_types.end(),
                                         [&](const known_type& known) { return known.id == simple; });
  if (match == known_types.end() || match->format.empty()) {
    throw error(errc::invalid_argument,
                concat("type ", match == known_types.end() ? "of unknown id" : match->name,
                       " has parameters: make it from its format string"));
  }
  return std::string(match->format);
}

template <class T>
bool same_or_both_null(const T* a, const T* b) noexcept {
  return a == b || (a != nullptr && b != nullptr && *a == *b);
}

/// Arrow allows values of 0 bytes and lists of 0 values, but nanoarrow does not: size 0 is parsed as 1.
std::string without_zero_size(std::string_view format) {
  if (format == "w:0" || format == "+w:0") {
    return concat(format.substr(0, format.size() - 1), 1);
  }
  return std::string(format);
}

/// Accepts only the canonical spelling of a size: the parser takes signs, spaces and digits that do not fit.
std::int32_t size_in(std::string_view format, std::string_view prefix, std::int32_t read) {
  const std::int32_t size = format == concat(prefix, 0) ? 0 : read;
  if (concat(prefix, size) != format) {
    refuse_text(format, concat("expected the canonical form ", prefix, size));
  }
  if (size < 0) {
    refuse_text(format, "its size is negative");
  }
  return size;
}

std::vector<std::int8_t> codes_of(const ArrowSchemaView& view, const std::string& format, std::size_t count) {
  std::vector<std::int8_t> codes;
  std::string_view list = view.union_type_ids;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string item(list.substr(0, list.find(',')));
    list.remove_prefix(std::min(item.size() + 1, list.size()));
    const auto code =
        static_cast<std::int8_t>(std::stoi(item)); // nanoarrow has checked that the id is 0 to 127
    if (std::ranges::find(codes, code) != codes.end()) {
      refuse_text(format, concat("type id ", +code, " is repeated"));
    }
    codes.push_back(code);
  }
  return codes;
}

void require_run_ends(std::span<const field> children, const std::string& format) {
  const field& ends = children[0];
  const type_id id = ends.type.id();
  if (id != type_id::int16 && id != type_id::int32 && id != type_id::int64) {
    refuse_text(format,
                concat("run ends are of type ", ends.type.name(), ", expected int16, int32 or int64"));
  }
}

/// "name: type", as Arrow prints a field.
std::string field_text(const field& of) {
  return concat(of.name, ": ", of.type.name(), of.nullable ? "" : " not null");
}

std::string nested_name(const known_type& known, std::span<const field> children,
                        std::span<const std::int8_t> codes, bool keys_sorted) {
  if (known.id == type_id::map) {
    const auto entries = children[0].type.children();
    return concat("map<", entries[0].type.name(), ", ", entries[1].type.name(),
                  keys_sorted ? ", keys_sorted>" : ">");
  }
  if (known.id == type_id::run_end_encoded) {
    return concat(known.name, "<run_ends: ", children[0].type.name(), ", values: ", children[1].type.name(),
                  ">");
  }
  std::string text(known.name);
  for (std::size_t i = 0; i < children.size(); ++i) {
    text += i == 0 ? "<" : ", ";
    text += field_text(children[i]);
    text += codes.empty() ? "" : concat("=", +codes[i]);
  }
  return text + (children.empty() ? "<>" : ">");
}

void require_no_zero_byte(std::string_view format) {
  if (format.find('\0') != std::string_view::npos) {
    refuse_text(format.substr(0, format.find('\0')), "a zero byte follows");
  }
}

void require_depth(int levels) {
  if (levels > data_type::max_depth) {
    throw error(errc::unsupported,
                concat("the type has ", levels, " levels, at most ", data_type::max_depth, " are supported"));
  }
}

/// Byte bools are packed only when a whole column is exported, so a nested one must be the extension.
data_type check_nested(const data_type& type) {
  if (type.is_symbol()) {
    throw error(errc::unsupported,
                "symbols can't be nested in another type: only a whole column can be of symbols");
  }
  return type.is_byte_bool() ? data_type::bool8() : type;
}

} // namespace

data_type::data_type(parts made) : parts_(std::make_shared<const parts>(std::move(made))) {}

/// Without a reference count, so that threads that copy a type do not contend.
data_type::data_type(const parts* of_the_process) noexcept
    : parts_(std::shared_ptr<const void>(), of_the_process) {}

data_type::data_type() noexcept
    : data_type([] {
        static const parts* const null = find_simple("n");
        return null;
      }()) {}

data_type::data_type(type_id simple) : data_type(parse(format_of(simple))) {}

const data_type::parts* data_type::find_simple(std::string_view format) {
  using list = std::unordered_map<std::string_view, parts>;
  static const list& all = *new list([] { // never destroyed: types may outlive static objects
    list list;
    for (const known_type& known_type : known_types) {
      if (!known_type.format.empty()) {
        list.emplace(known_type.format, parse_simple(known_type.format));
      }
    }
    return list;
  }());
  const auto entry = all.find(format);
  return entry == all.end() ? nullptr : &entry->second;
}

data_type data_type::parse(std::string_view format) {
  if (const parts* const simple = find_simple(format)) {
    return data_type(simple);
  }
  return format.starts_with('+') ? nested(format, {}) : data_type(parse_simple(format));
}

data_type::parts data_type::parse_simple(std::string_view format) {
  require_no_zero_byte(format);
  parts parts;
  parts.format = without_zero_size(format);
  const ArrowSchemaView view = view_of(parts.format, {});
  const known_type& known = known_type_of(view.type);
  parts.id = known.id;
  take_layout(known.layout, view.layout, parts);
  parts.name = name_with_parameters(known, view);
  if (view.decimal_bitwidth != 0) {
    parts.format = decimal_format(view, parts.format);
    parts.decimal_scale = view.decimal_scale;
  }
  if (known.id == type_id::fixed_size_binary) {
    const std::int32_t size = size_in(format, "w:", view.fixed_size);
    parts.buffers[1].width = size;
    parts.name = concat(known.name, "[", size, "]");
    parts.format = format;
  }
  return parts;
}

data_type data_type::nested(std::string_view format, std::vector<field> children, bool keys_sorted) {
  require_no_zero_byte(format);
  parts parts;
  parts.format = without_zero_size(format);
  const ArrowSchemaView view = view_of(parts.format, children);
  const known_type& known = known_type_of(view.type);
  parts.id = known.id;
  take_layout(known.layout, view.layout, parts);
  parts.format = format;
  parts.keys_sorted = keys_sorted;
  if (known.id == type_id::fixed_size_list) {
    parts.list_size = size_in(format, "+w:", view.fixed_size);
  } else if (view.union_type_ids != nullptr) {
    parts.type_codes = codes_of(view, parts.format, children.size());
  } else if (known.id == type_id::run_end_encoded) {
    require_run_ends(children, parts.format);
  }
  if (keys_sorted && known.id != type_id::map) {
    refuse_text(format, "only the keys of a map can be sorted");
  }
  for (field& child : children) {
    child.type = check_nested(child.type);
    parts.depth = std::max(parts.depth, child.type.depth() + 1);
  }
  require_depth(parts.depth);
  parts.name = nested_name(known, children, parts.type_codes, keys_sorted);
  if (known.id == type_id::fixed_size_list) {
    parts.name += concat("[", parts.list_size, "]");
  }
  parts.children = std::make_shared<const std::vector<field>>(std::move(children));
  return data_type(std::move(parts));
}

/// nanoarrow knows how wide the values of each type are.
void data_type::take_layout(layout_kind layout, const ArrowLayout& widths, parts& parts) {
  parts.layout = describe(layout);
  for (std::size_t i = 0; i < parts.layout.buffers.count; ++i) {
    const buffer_role role = parts.layout.buffers.all[i];
    parts.buffers[i] = {role, static_cast<std::int32_t>(widths.element_size_bits[i] / 8), name_of(role)};
  }
}

data_type data_type::dictionary(const data_type& index, const data_type& values, bool ordered) {
  if (!index.is_integer()) {
    throw error(errc::type_mismatch,
                concat("dictionary indices are of type ", index.name(), ", expected an integer type"));
  }
  parts parts = *index.with_extension({}, {}).parts_;
  parts.id = type_id::dictionary;
  parts.ordered = ordered;
  parts.name = concat("dictionary<values=", check_nested(values).name(), ", indices=", index.name(),
                      ", ordered=", ordered ? 1 : 0, ">");
  parts.depth = values.depth() + 1;
  require_depth(parts.depth);
  parts.index = std::make_shared<const data_type>(index);
  parts.value = std::make_shared<const data_type>(check_nested(values));
  return data_type(std::move(parts));
}

data_type data_type::bool8() { return data_type(type_id::int8).with_extension("arrow.bool8", {}); }

data_type data_type::byte_bool() {
  parts parts = *find_simple("c");
  parts.byte_bool = true;
  parts.name = "bool8";
  return data_type(std::move(parts));
}

data_type data_type::of_symbols(std::shared_ptr<symbol_table> table, std::string name) {
  require_argument(table, "table");
  parts parts = *find_simple("I");
  parts.symbols = std::move(table);
  parts.name = std::move(name);
  return data_type(std::move(parts));
}

data_type data_type::with_extension(std::string name, std::string metadata) const {
  const data_type storage = is_byte_bool() || is_symbol() ? data_type(id()) : *this;
  if (name.empty() && storage.extension_name().empty()) {
    return storage;
  }
  parts extended = *storage.parts_;
  extended.extension_metadata = name.empty() ? std::string() : std::move(metadata);
  extended.extension_name = std::move(name);
  return data_type(std::move(extended));
}

std::span<const field> data_type::children() const noexcept {
  return parts_->children == nullptr ? std::span<const field>() : std::span<const field>(*parts_->children);
}

bool data_type::is_signed() const noexcept {
  return id() == type_id::int8 || id() == type_id::int16 || id() == type_id::int32 || id() == type_id::int64;
}

bool data_type::is_bool8() const noexcept {
  return is_byte_bool() || (id() == type_id::int8 && extension_name() == "arrow.bool8");
}

std::string data_type::name() const {
  return extension_name().empty() ? parts_->name : concat("extension<", extension_name(), ">");
}

bool data_type::same_parts(const parts& a, const parts& b) noexcept {
  return a.id == b.id && a.format == b.format && a.ordered == b.ordered && a.keys_sorted == b.keys_sorted &&
         a.byte_bool == b.byte_bool && a.symbols == b.symbols &&
         same_or_both_null(a.children.get(), b.children.get()) && a.extension_name == b.extension_name &&
         a.extension_metadata == b.extension_metadata && same_or_both_null(a.index.get(), b.index.get()) &&
         same_or_both_null(a.value.get(), b.value.get());
}

} // namespace saeta
