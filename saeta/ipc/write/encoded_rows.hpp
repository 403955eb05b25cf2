// A record batch in the form of a message: its nodes, and the bytes of each buffer.
//
// What      Arrays may be slices. Offsets begin at 0 in the message and bits at a whole byte, so these are
//           copied where a slice begins elsewhere. All other bytes are those of the arrays. Validities are
//           left out where there are no nulls. The children of list views and dense unions are written as a
//           whole (compute/compact.hpp has left out before what few rows don't need).
// Owner     Each buffer shares the owner of its bytes.
// Failure   error format: offsets or children that contradict each other.
// Standard  Arrow IPC format, "RecordBatch message".
#pragma once

#include "saeta/compute/pack_columns.hpp"
#include "saeta/ipc/codec/codecs.hpp"
#include "saeta/ipc/write/sinks.hpp"
#include "saeta/transfer/host_array.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace saeta::ipc::detail {

inline constexpr std::size_t body_unit = 8; ///< alignment of buffers in a body

/// Bytes that are brought while they are written.
class late_bytes {
public:
  late_bytes() = default;
  late_bytes(const late_bytes&) = delete;
  late_bytes& operator=(const late_bytes&) = delete;
  virtual ~late_bytes() = default;

  /// Writes all bytes, once.
  virtual void write(byte_target& target) = 0;
};

struct body_buffer {
  std::span<const std::byte> bytes; ///< of late bytes only the size is used
  std::shared_ptr<const void> owner{};
  std::shared_ptr<late_bytes> late{}; ///< null: the bytes are in memory
};

struct encoded_rows {
  packed_rows layout{};
  std::vector<body_buffer> body{}; ///< of each buffer of the layout
  std::int64_t body_bytes = 0;     ///< with the padding behind each buffer
  body_codec codec = body_codec::none;

  /// Sets the places of all buffers and `body_bytes` by the sizes in `body`.
  void place_body();
};

/// @param arrays  of one length. `keepalive` owns their bytes.
encoded_rows encode_rows(std::int64_t rows, std::span<const host_array> arrays,
                         const std::shared_ptr<const void>& keepalive);

} // namespace saeta::ipc::detail
