// FlatBuffers field numbers of Arrow's metadata, and the values of its enumerations.
//
// Standard  Arrow's File.fbs, Message.fbs and Schema.fbs. A field's number is its position in the declaration
//           of its table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace saeta::ipc::detail {

inline constexpr std::uint32_t continuation = 0xFFFFFFFF; ///< before the size, since version 0.15
inline constexpr std::size_t prefix_bytes = 8;            ///< the continuation and the size of the metadata

inline constexpr unsigned footer_version = 0;
inline constexpr unsigned footer_schema = 1;
inline constexpr unsigned footer_dictionaries = 2;
inline constexpr unsigned footer_batches = 3;
inline constexpr unsigned footer_metadata = 4;
inline constexpr unsigned message_version = 0;
inline constexpr unsigned message_header_type = 1;
inline constexpr unsigned message_table = 2;
inline constexpr unsigned message_body_bytes = 3;
inline constexpr unsigned message_metadata = 4;
inline constexpr unsigned schema_endianness = 0;
inline constexpr unsigned schema_fields = 1;
inline constexpr unsigned schema_metadata = 2;
inline constexpr unsigned schema_features = 3;
inline constexpr unsigned field_name = 0;
inline constexpr unsigned field_nullable = 1;
inline constexpr unsigned field_type_kind = 2;
inline constexpr unsigned field_type = 3;
inline constexpr unsigned field_dictionary = 4;
inline constexpr unsigned field_children = 5;
inline constexpr unsigned field_metadata = 6;
inline constexpr unsigned key_value_key = 0;
inline constexpr unsigned key_value_value = 1;
inline constexpr unsigned encoding_id = 0;
inline constexpr unsigned encoding_indices = 1;
inline constexpr unsigned encoding_ordered = 2;
inline constexpr unsigned dictionary_id = 0;
inline constexpr unsigned dictionary_data = 1;
inline constexpr unsigned dictionary_delta = 2;
inline constexpr unsigned batch_length = 0;
inline constexpr unsigned batch_nodes = 1;
inline constexpr unsigned batch_buffers = 2;
inline constexpr unsigned batch_compression = 3;
inline constexpr unsigned batch_variadic_counts = 4;
inline constexpr unsigned compression_codec = 0;
inline constexpr unsigned compression_method = 1;

inline constexpr unsigned int_bits = 0;
inline constexpr unsigned int_signed = 1;
inline constexpr unsigned float_precision = 0;
inline constexpr unsigned decimal_precision = 0;
inline constexpr unsigned decimal_scale = 1;
inline constexpr unsigned decimal_bits = 2;
inline constexpr unsigned time_unit = 0; ///< of dates, times, timestamps, durations and intervals
inline constexpr unsigned time_bits = 1;
inline constexpr unsigned timestamp_zone = 1;
inline constexpr unsigned union_mode = 0;
inline constexpr unsigned union_type_ids = 1;
inline constexpr unsigned type_size = 0; ///< of FixedSizeBinary and FixedSizeList
inline constexpr unsigned map_sorted = 0;

// Members of the union MessageHeader.
inline constexpr std::uint8_t header_of_schema = 1;
inline constexpr std::uint8_t header_of_dictionary = 2;
inline constexpr std::uint8_t header_of_batch = 3;

/// Members of the union Type.
enum class flat_type : std::uint8_t {
  none,
  null,
  integer,
  floating_point,
  binary,
  utf8,
  boolean,
  decimal,
  date,
  time,
  timestamp,
  interval,
  list,
  structure,
  either, ///< Union
  fixed_size_binary,
  fixed_size_list,
  map,
  duration,
  large_binary,
  large_utf8,
  large_list,
  run_end_encoded,
  binary_view,
  utf8_view,
  list_view,
  large_list_view,
};

/// A number in the table of a type.
struct type_number {
  std::string_view name{}; ///< for messages; empty: there is none
  unsigned field = 0;
  unsigned bytes = 0;
  std::int32_t missing = 0; ///< meant where the metadata leave it out
  std::int32_t value = 0;
};

/// A type as the C Data Interface and as the metadata describe it. A format that ends with a colon goes on with
/// parameters.
struct described_type {
  std::string_view format;
  flat_type kind = flat_type::none;
  std::array<type_number, 2> numbers{};
};

constexpr described_type integer_type(std::string_view format, std::int32_t bits, bool is_signed) {
  return {format,
          flat_type::integer,
          {{{"bits", int_bits, 4, 0, bits}, {"signed", int_signed, 1, 0, is_signed}}}};
}
constexpr described_type float_type(std::string_view format, std::int32_t precision) {
  return {format, flat_type::floating_point, {{{"precision", float_precision, 2, 0, precision}}}};
}
/// @param missing  1: milliseconds
constexpr described_type unit_type(std::string_view format, flat_type kind, std::int32_t missing,
                                   std::int32_t unit) {
  return {format, kind, {{{"unit", time_unit, 2, missing, unit}}}};
}
constexpr described_type time_type(std::string_view format, std::int32_t unit, std::int32_t bits) {
  return {format, flat_type::time, {{{"unit", time_unit, 2, 1, unit}, {"bits", time_bits, 4, 32, bits}}}};
}
constexpr described_type union_type(std::string_view format, std::int32_t mode) {
  return {format, flat_type::either, {{{"mode", union_mode, 2, 0, mode}}}};
}

/// All types but dictionaries. Types of one kind have the same numbers.
inline constexpr std::array described_types{
    described_type{"n", flat_type::null},
    described_type{"b", flat_type::boolean},
    integer_type("c", 8, true),
    integer_type("C", 8, false),
    integer_type("s", 16, true),
    integer_type("S", 16, false),
    integer_type("i", 32, true),
    integer_type("I", 32, false),
    integer_type("l", 64, true),
    integer_type("L", 64, false),
    float_type("e", 0),
    float_type("f", 1),
    float_type("g", 2),
    described_type{"d:", flat_type::decimal},
    unit_type("tdD", flat_type::date, 1, 0),
    unit_type("tdm", flat_type::date, 1, 1),
    time_type("tts", 0, 32),
    time_type("ttm", 1, 32),
    time_type("ttu", 2, 64),
    time_type("ttn", 3, 64),
    unit_type("tss:", flat_type::timestamp, 0, 0),
    unit_type("tsm:", flat_type::timestamp, 0, 1),
    unit_type("tsu:", flat_type::timestamp, 0, 2),
    unit_type("tsn:", flat_type::timestamp, 0, 3),
    unit_type("tDs", flat_type::duration, 1, 0),
    unit_type("tDm", flat_type::duration, 1, 1),
    unit_type("tDu", flat_type::duration, 1, 2),
    unit_type("tDn", flat_type::duration, 1, 3),
    unit_type("tiM", flat_type::interval, 0, 0),
    unit_type("tiD", flat_type::interval, 0, 1),
    unit_type("tin", flat_type::interval, 0, 2),
    described_type{"w:", flat_type::fixed_size_binary},
    described_type{"z", flat_type::binary},
    described_type{"Z", flat_type::large_binary},
    described_type{"vz", flat_type::binary_view},
    described_type{"u", flat_type::utf8},
    described_type{"U", flat_type::large_utf8},
    described_type{"vu", flat_type::utf8_view},
    described_type{"+s", flat_type::structure},
    described_type{"+l", flat_type::list},
    described_type{"+L", flat_type::large_list},
    described_type{"+vl", flat_type::list_view},
    described_type{"+vL", flat_type::large_list_view},
    described_type{"+w:", flat_type::fixed_size_list},
    described_type{"+m", flat_type::map},
    described_type{"+r", flat_type::run_end_encoded},
    union_type("+us:", 0),
    union_type("+ud:", 1),
};

inline constexpr std::int16_t version_4 = 3; ///< the oldest that is read
inline constexpr std::int16_t version_5 = 4;

} // namespace saeta::ipc::detail
