#include "saeta/column/data_type.hpp"

#include "saeta/base/text.hpp"

#include <nanoarrow.h>

#include <algorithm>
#include <array>

namespace saeta {
namespace {

struct known_type {
  ArrowType source;
  type_id id;
  std::string_view name;   ///< without parameters
  std::string_view format; ///< empty where parameters belong to it
};

constexpr std::array<known_type, 32> known_types{{
    {NANOARROW_TYPE_NA, type_id::null, "null", "n"},
    {NANOARROW_TYPE_BOOL, type_id::boolean, "bool", "b"},
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
    {NANOARROW_TYPE_BINARY, type_id::binary, "binary", "z"},
    {NANOARROW_TYPE_LARGE_BINARY, type_id::large_binary, "large_binary", "Z"},
    {NANOARROW_TYPE_STRING, type_id::string, "string", "u"},
    {NANOARROW_TYPE_LARGE_STRING, type_id::large_string, "large_string", "U"},
    {NANOARROW_TYPE_DICTIONARY, type_id::dictionary, "dictionary", ""},
}};

struct refused_type {
  std::string_view format; ///< exact, or a prefix where it ends in ':'
  std::string_view name;
};

/// Arrow types that are not carried and that nanoarrow refuses without their children.
constexpr std::array<refused_type, 11> refused_types{{
    {"+l", "list"},
    {"+L", "large_list"},
    {"+vl", "list_view"},
    {"+vL", "large_list_view"},
    {"+w:", "fixed_size_list"},
    {"+s", "struct"},
    {"+m", "map"},
    {"+ud:", "dense_union"},
    {"+us:", "sparse_union"},
    {"+r", "run_end_encoded"},
    {"w:0", "fixed_size_binary[0]"},
}};

void refuse_if_not_carried(std::string_view format) {
  for (const auto& refused : refused_types) {
    const bool parametric = refused.format.ends_with(':');
    if ((parametric ? format.starts_with(refused.format) : format == refused.format)) {
      throw error(errc::unsupported, concat("type ", refused.name, " is not carried"));
    }
  }
}

[[noreturn]] void refuse_text(std::string_view format, std::string_view why) {
  throw error(errc::format, concat("'", format, "' is no Arrow type: ", why));
}

/// What nanoarrow reads in a format string without children.
ArrowSchemaView view_of(const std::string& format) {
  ArrowSchema described{};
  described.format = format.c_str();
  described.release = [](ArrowSchema*) {};
  ArrowSchemaView view{};
  ArrowError why{};
  if (ArrowSchemaViewInit(&view, &described, &why) != NANOARROW_OK) {
    refuse_text(format, why.message);
  }
  return view;
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

/// The only spelling of a decimal's format; the parser skips spaces and loses digits that do not fit.
std::string decimal_format(const ArrowSchemaView& view, const std::string& format) {
  const std::string shortest = concat("d:", view.decimal_precision, ",", view.decimal_scale);
  const std::string full = concat(shortest, ",", view.decimal_bitwidth);
  if (format != full && (format != shortest || view.decimal_bitwidth != 128)) {
    refuse_text(format, concat("read as ", full));
  }
  const std::int32_t limit = greatest_precision(view.type);
  if (view.decimal_precision < 1 || view.decimal_precision > limit) {
    refuse_text(format, concat("precision ", view.decimal_precision, " is not in 1 to ", limit));
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
  case type_id::fixed_size_binary:
    return concat(known.name, "[", view.fixed_size, "]");
  default:
    return std::string(known.name);
  }
}

struct value_layout {
  layout_kind kind;
  std::int32_t byte_width;
};

value_layout layout_of(const ArrowLayout& layout) {
  const std::int64_t bits = layout.element_size_bits[1];
  if (layout.buffer_type[1] == NANOARROW_BUFFER_TYPE_NONE) {
    return {layout_kind::none, 0};
  }
  if (layout.buffer_type[1] == NANOARROW_BUFFER_TYPE_DATA_OFFSET) {
    return {bits == 32 ? layout_kind::offsets32 : layout_kind::offsets64, 0};
  }
  if (bits == 1) {
    return {layout_kind::bits, 0};
  }
  return {layout_kind::fixed, static_cast<std::int32_t>(bits / 8)};
}

std::string format_of(type_id simple) {
  const auto* const found = std::find_if(known_types.begin(), known_types.end(),
                                         [&](const known_type& known) { return known.id == simple; });
  if (found == known_types.end() || found->format.empty()) {
    throw error(errc::invalid_argument,
                concat("type ", found == known_types.end() ? "of unknown id" : found->name,
                       " has parameters: make it from its format string"));
  }
  return std::string(found->format);
}

bool same_or_both_null(const data_type* a, const data_type* b) noexcept {
  return a == b || (a != nullptr && b != nullptr && *a == *b);
}

} // namespace

data_type::data_type(type_id simple) : data_type(parse(format_of(simple))) {}

data_type data_type::parse(std::string_view format) {
  if (format.find('\0') != std::string_view::npos) {
    refuse_text(format.substr(0, format.find('\0')), "a zero byte follows");
  }
  refuse_if_not_carried(format);
  data_type parsed;
  parsed.format_ = std::string(format);
  const ArrowSchemaView view = view_of(parsed.format_);
  const auto* const known = std::find_if(known_types.begin(), known_types.end(),
                                         [&](const known_type& entry) { return entry.source == view.type; });
  if (known == known_types.end()) {
    throw error(errc::unsupported, concat("type ", ArrowTypeString(view.type), " is not carried"));
  }
  if (view.decimal_bitwidth != 0) {
    parsed.format_ = decimal_format(view, parsed.format_);
  }
  if (known->id == type_id::fixed_size_binary && concat("w:", view.fixed_size) != format) {
    refuse_text(format, concat("read as w:", view.fixed_size));
  }
  parsed.id_ = known->id;
  parsed.name_ = name_with_parameters(*known, view);
  const auto [kind, width] = layout_of(view.layout);
  parsed.layout_ = kind;
  parsed.byte_width_ = width;
  return parsed;
}

data_type data_type::dictionary(const data_type& index, const data_type& values, bool ordered) {
  if (!index.is_integer()) {
    throw error(errc::type_mismatch,
                concat("dictionary indices are of type ", index.name(), ", expected an integer type"));
  }
  data_type made = index.with_extension({}, {});
  made.id_ = type_id::dictionary;
  made.ordered_ = ordered;
  made.name_ = concat("dictionary<values=", values.name(), ", indices=", index.name(),
                      ", ordered=", ordered ? 1 : 0, ">");
  if (values.id() == type_id::dictionary) {
    throw error(errc::unsupported, concat("type ", made.name_, " is not carried"));
  }
  made.index_ = std::make_shared<const data_type>(index);
  made.value_ = std::make_shared<const data_type>(values);
  return made;
}

data_type data_type::bool8() { return data_type(type_id::int8).with_extension("arrow.bool8", {}); }

data_type data_type::with_extension(std::string name, std::string metadata) const {
  data_type extended = *this;
  extended.extension_metadata_ = name.empty() ? std::string() : std::move(metadata);
  extended.extension_name_ = std::move(name);
  return extended;
}

std::size_t data_type::buffer_count() const noexcept {
  switch (layout_) {
  case layout_kind::none:
    return 0;
  case layout_kind::bits:
  case layout_kind::fixed:
    return 2;
  case layout_kind::offsets32:
  case layout_kind::offsets64:
    return 3;
  }
  return 0;
}

bool data_type::is_signed() const noexcept {
  return id_ == type_id::int8 || id_ == type_id::int16 || id_ == type_id::int32 || id_ == type_id::int64;
}

bool data_type::is_bool8() const noexcept { return id_ == type_id::int8 && extension_name_ == "arrow.bool8"; }

std::string data_type::name() const {
  return extension_name_.empty() ? name_ : concat("extension<", extension_name_, ">");
}

bool operator==(const data_type& a, const data_type& b) noexcept {
  return a.id_ == b.id_ && a.format_ == b.format_ && a.ordered_ == b.ordered_ &&
         a.extension_name_ == b.extension_name_ && a.extension_metadata_ == b.extension_metadata_ &&
         same_or_both_null(a.index_.get(), b.index_.get()) &&
         same_or_both_null(a.value_.get(), b.value_.get());
}

} // namespace saeta
