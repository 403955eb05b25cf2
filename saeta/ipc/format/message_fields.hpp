// FlatBuffers field numbers of Arrow's metadata, and the values of its enumerations.
//
// Standard  Arrow's File.fbs, Message.fbs and Schema.fbs. A field's number is its position in the declaration
//           of its table.
#pragma once

#include <cstddef>
#include <cstdint>

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

inline constexpr std::int16_t version_4 = 3; ///< the oldest that is read
inline constexpr std::int16_t version_5 = 4;

} // namespace saeta::ipc::detail
