// Decodes one compressed buffer of a body after the other, front to back.
//
// What      Compressed bytes are read from the source by pieces, and decoded straight into the target that is asked for. Memory
//           of its own: one piece of compressed bytes, and what the decoder keeps of its window.
// Thread    One.
// Failure   error format where the frames are broken, or hold more or fewer bytes than the buffer claims; io of the source.
// Standard  Arrow IPC format, "Compression": LZ4 frames and ZSTD.
#pragma once

#include "saeta/staging/scatter.hpp"

#include <arrow/util/type_fwd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace saeta::ipc::detail {

enum class body_codec : std::uint8_t { none, lz4, zstd };

/// "lz4", "zstd".
const char* name_of(body_codec codec) noexcept;

/// Two numbers of a buffer, seen while it is decoded: the offsets of its first and its last value.
struct seen_borders {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

/// A buffer of a compressed body.
struct packed_buffer {
  std::uint64_t at = 0;     ///< where its first byte lies among all decoded bytes
  std::uint64_t bytes = 0;  ///< decoded
  std::uint64_t source = 0; ///< byte of the source where the frames begin
  std::uint64_t packed_bytes = 0;
  body_codec codec = body_codec::none; ///< none: as they are
  // Of offsets whose first and last are to be seen:
  std::uint8_t width = 0;     ///< 0: none
  std::uint64_t first_at = 0; ///< decoded byte
  std::uint64_t last_at = 0;
  std::int64_t assumed = -1; ///< what the last one is assumed to be, and the first to be 0; -1: anything
};

class buffer_decoder {
public:
  /// @param from  outlives this
  explicit buffer_decoder(const scatter_source& from);
  ~buffer_decoder();

  /// From its first byte on. @param seen  gets the offsets that the buffer names, when they are passed.
  void begin(const packed_buffer& of, seen_borders* seen = nullptr);
  /// Bytes of it that were read or passed over.
  [[nodiscard]] std::uint64_t position() const noexcept { return position_; }
  /// The next bytes; no more than are left.
  void read(std::span<std::byte> target);
  void skip(std::uint64_t bytes);
  /// Decodes what is left.
  void finish();

private:
  [[nodiscard]] std::size_t decode(std::span<std::byte> target);
  void refill();
  /// Of the decoded bytes from the position on.
  void note(std::span<const std::byte> bytes) const;

  const scatter_source& from_;
  packed_buffer of_;
  seen_borders* seen_ = nullptr;
  std::uint64_t position_ = 0;
  std::uint64_t fetched_ = 0; ///< of the compressed bytes
  std::unique_ptr<std::byte[]> input_;
  std::size_t room_ = 0;
  std::uint64_t held_at_ = 0;       ///< byte of the source where the input begins
  std::size_t held_ = 0;            ///< bytes of the input
  std::span<const std::byte> left_; ///< of the input, to be decoded
  std::unique_ptr<std::byte[]> passed_;
  std::array<std::shared_ptr<arrow::util::Decompressor>, 2> decoders_; ///< of LZ4, of ZSTD
  arrow::util::Decompressor* decoder_ = nullptr;
};

} // namespace saeta::ipc::detail
