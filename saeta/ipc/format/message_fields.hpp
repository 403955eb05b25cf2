// FlatBuffers field numbers of record batch messages.
//
// Standard  Arrow's Message.fbs. A field's number is its position in the declaration of its table.
#pragma once

namespace saeta::ipc::detail {

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

} // namespace saeta::ipc::detail
