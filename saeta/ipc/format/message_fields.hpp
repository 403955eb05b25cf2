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
inline constexpr unsigned message_version = 0;
inline constexpr unsigned message_header_type = 1;
inline constexpr unsigned message_table = 2;
inline constexpr unsigned message_body_bytes = 3;
inline constexpr unsigned schema_endianness = 0;
inline constexpr unsigned schema_fields = 1;
inline constexpr unsigned field_dictionary = 4;
inline constexpr unsigned field_children = 5;
inline constexpr unsigned encoding_id = 0;
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

inline constexpr std::int16_t version_4 = 3; ///< the oldest that libarrow reads
inline constexpr std::int16_t version_5 = 4;

} // namespace saeta::ipc::detail
