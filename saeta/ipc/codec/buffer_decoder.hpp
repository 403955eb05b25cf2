// Decodes compressed buffers of a body one after the other, each from front to back.
//
// What      Reads compressed bytes from the source in parts and decodes them directly into the caller's
//           target.
// Owner     Owns one part of compressed bytes and the window of the decoder. Borrows the source.
// Thread    One.
// Failure   error format if the frames are broken or hold more or fewer bytes than the buffer claims; io of
//           the source.
// Standard  Arrow IPC format, "Compression": LZ4 frames and ZSTD.
#pragma once

#include "saeta/ipc/codec/codecs.hpp"
#include "saeta/staging/scatter.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace saeta::ipc::detail {

/// The first and the last offset of a buffer of offsets, recorded while it is decoded.
struct seen_borders {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

/// A buffer of a compressed body.
struct packed_buffer {
  std::uint64_t at = 0;     ///< position of its first byte among all decoded bytes
  std::uint64_t bytes = 0;  ///< decoded bytes
  std::uint64_t source = 0; ///< position in the source where the frames begin
  std::uint64_t packed_bytes = 0;
  body_codec codec = body_codec::none; ///< none: stored uncompressed
  // For a buffer of offsets whose first and last offset are recorded:
  std::uint8_t width = 0;     ///< bytes of an offset; 0: nothing is recorded
  std::uint64_t first_at = 0; ///< decoded byte where the first one begins
  std::uint64_t last_at = 0;
  std::int64_t assumed = -1; ///< assumed last offset, with 0 as the first; -1: no assumption
};

class buffer_decoder {
public:
  /// @param from  must outlive the decoder
  explicit buffer_decoder(const scatter_source& from);
  ~buffer_decoder();

  /// Begins a buffer at its first byte. @param seen  receives the recorded offsets when they are decoded.
  void begin(const packed_buffer& of, seen_borders* seen = nullptr);
  /// Decoded bytes that were read or skipped so far.
  [[nodiscard]] std::uint64_t position() const noexcept { return position_; }
  /// Reads the next bytes, at most as many as are left.
  void read(std::span<std::byte> target);
  void skip(std::uint64_t bytes);
  /// Decodes the rest and checks that the frames end there.
  void finish();

private:
  [[nodiscard]] std::size_t decode(std::span<std::byte> target);
  void refill();
  /// Records the offsets that are in `bytes`, the decoded bytes from the position on.
  void note(std::span<const std::byte> bytes) const;

  const scatter_source& from_;
  packed_buffer of_;
  seen_borders* seen_ = nullptr;
  std::uint64_t position_ = 0;
  std::uint64_t fetched_ = 0; ///< compressed bytes that were read
  std::unique_ptr<std::byte[]> input_;
  std::size_t room_ = 0;
  std::uint64_t held_at_ = 0;       ///< position in the source where the input begins
  std::size_t held_ = 0;            ///< bytes of the input
  std::span<const std::byte> left_; ///< the input that is not decoded yet
  std::unique_ptr<std::byte[]> passed_;
  std::array<std::unique_ptr<frame_decoder>, 2> decoders_; ///< LZ4, ZSTD
  frame_decoder* decoder_ = nullptr;
};

} // namespace saeta::ipc::detail
