// LZ4 and ZSTD, the codecs of message bodies, by the libraries that are compiled in, and what compressed
// bytes claim to hold.
//
// What      Values become a frame at once. A decoder takes consecutive frames whose bytes come in parts.
// Thread    Functions: any. A decoder: one at a time.
// Failure   Compressing: invalid_argument if the target is smaller than the `max_` function says,
//           out_of_memory. A decoder: format (the frames are broken, or one of ZSTD needs a larger window)
//           and out_of_memory; after one, `reset` begins anew.
// Standard  LZ4 Block Format; LZ4 Frame Format 1.6.2; RFC 8878 (Zstandard).

#pragma once

#include "saeta/budget/budget.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

namespace saeta::ipc::detail {

enum class body_codec : std::uint8_t { none, lz4, zstd };

/// Returns "none", "lz4" or "zstd".
inline const char* name_of(body_codec codec) noexcept {
  return codec == body_codec::none ? "none" : codec == body_codec::lz4 ? "lz4" : "zstd";
}

/// Values go to the caller's target. What a block has more than the target has room for stays in the decoder
/// until the next call. It owns the codec's context with its window: up to 8 MiB for LZ4, 128 MiB for ZSTD.
class frame_decoder {
public:
  struct part {
    std::size_t read = 0; ///< bytes of the input
    std::size_t made = 0; ///< bytes of the target
  };

  frame_decoder() = default;
  frame_decoder(const frame_decoder&) = delete;
  frame_decoder& operator=(const frame_decoder&) = delete;
  virtual ~frame_decoder() = default;

  /// Begins at the first byte of a frame.
  void reset();
  /// Decodes until the input or the room is used up, or a frame ends. Both numbers of the result are 0 if
  /// nothing more can be decoded without further input or room.
  part decode(std::span<const std::byte> input, std::span<std::byte> target);
  /// Whether the bytes decoded so far end with a frame.
  [[nodiscard]] bool finished() const noexcept { return finished_; }
  /// Bytes of memory that the frames so far have made the codec allocate.
  [[nodiscard]] virtual std::uint64_t memory() = 0;

protected:
  /// @param ended  set to whether the part completes a frame.
  virtual part step(std::span<const std::byte> input, std::span<std::byte> target, bool& ended) = 0;
  virtual void restart() = 0;
  /// Throws the error of a codec: out_of_memory or format.
  [[noreturn]] void refuse(bool no_memory, std::string_view reason) const;

private:
  std::uint64_t read_ = 0; ///< since `reset`
  std::uint64_t made_ = 0;
  bool finished_ = false;
};

/// Levels of compression are those of the libraries, from 1 on. 0 is the fastest.
inline constexpr int most_lz4_level = 12;
inline constexpr int most_zstd_level = 22;

/// @param bytes  at most 2 GB.
std::size_t max_lz4_block_bytes(std::size_t bytes);
/// Compresses values to a block without a header. Returns its size.
std::size_t compress_lz4_block(std::span<const std::byte> values, std::span<std::byte> target, int level = 0);

std::size_t max_lz4_frame_bytes(std::size_t bytes);
/// Compresses values to a frame of linked blocks of 64 KiB without checksums. Returns its size.
std::size_t compress_lz4_frame(std::span<const std::byte> values, std::span<std::byte> target, int level = 0);

/// @throws error out_of_memory.
std::unique_ptr<frame_decoder> make_lz4_decoder();

std::size_t max_zstd_frame_bytes(std::size_t bytes);
/// Compresses values to a frame that states their number. Returns its size.
std::size_t compress_zstd_frame(std::span<const std::byte> values, std::span<std::byte> target,
                                int level = 0);

std::unique_ptr<frame_decoder> make_zstd_decoder();

// A compressed body states its decoded size, which a hostile file can make arbitrary. LZ4 and ZSTD frames
// bound it: each block states its size or has a maximum. The block headers are read; nothing is decoded.

/// Returns bytes of a compressed buffer, valid until the next call.
using range_reader = std::function<std::span<const std::byte>(std::uint64_t at, std::size_t bytes)>;

/// Returns the most bytes that a decoder can produce; from a broken frame on, nothing is counted.
/// @param codec  "lz4" or "zstd".
std::uint64_t max_decoded_bytes(std::string_view codec, std::span<const std::byte> compressed);
/// The same for bytes that are read on demand.
/// @param read  is asked for at most 8 bytes
std::uint64_t max_decoded_bytes(std::string_view codec, std::uint64_t bytes, const range_reader& read);

/// The codec and the sizes that a compressed buffer claims.
struct packed_claim {
  body_codec codec = body_codec::none; ///< none: stored uncompressed
  std::uint64_t bytes = 0;             ///< when decoded
  std::uint64_t packed_bytes = 0;      ///< behind the 8 bytes of the size
};

/// Reads and checks what a buffer of a compressed body claims, before memory is allocated for it. Block
/// headers are read only if it claims much more than it has: a small false claim costs little memory, and
/// decoding finds it.
/// @param number  of the buffer, for messages
/// @param length  bytes of the buffer, more than 0
/// @throws error format.
packed_claim read_claim(std::size_t number, body_codec codec, std::uint64_t length, const range_reader& read);

/// Returns the most memory that a decoder allocates for the first of these frames, from its header. Few bytes
/// for a frame without a sound header, which decoding finds.
std::uint64_t decoder_memory(body_codec codec, std::uint64_t bytes, const range_reader& read);

// Compression of one buffer, whose blocks several threads may compress.
//
// What      A buffer of more than one block becomes one LZ4 frame of independent blocks, which readers may also
//           decode in parallel, or one ZSTD frame per block, since readers accept consecutive frames. A smaller
//           one becomes one frame.
// Thread    Any.
// Failure   error out_of_memory, budget_exceeded.

/// Ordinary host memory for compressed bytes, whose number is known only afterwards. It is charged while it
/// lives.
class packed_memory {
public:
  packed_memory(std::shared_ptr<budget> charged, std::size_t bytes);
  packed_memory(const packed_memory&) = delete;
  packed_memory& operator=(const packed_memory&) = delete;
  ~packed_memory();

  /// Frees all but the first `bytes` bytes.
  void shrink(std::size_t bytes) noexcept;
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {at_, bytes_}; }

private:
  std::shared_ptr<budget> charged_;
  std::byte* at_ = nullptr;
  std::size_t bytes_;
};

class block_codec {
public:
  static constexpr std::size_t block_bytes = std::size_t{4} << 20; ///< of values; the largest LZ4 block size

  /// @param kind   lz4 or zstd
  /// @param level  as for `compress_lz4_frame`
  block_codec(body_codec kind, int level) : lz4_(kind == body_codec::lz4), level_(level) {}

  [[nodiscard]] body_codec kind() const noexcept { return lz4_ ? body_codec::lz4 : body_codec::zstd; }
  /// Compresses a whole buffer: the number of its bytes, as bodies have it, and one frame.
  /// @param values  1 to `block_bytes` bytes.
  [[nodiscard]] std::shared_ptr<const packed_memory> whole(std::span<const std::byte> values,
                                                           const std::shared_ptr<budget>& charged) const;
  /// Compresses one block of a buffer. The caller concatenates `front()`, the blocks in order and
  /// `end_bytes()`.
  /// @param values  1 to `block_bytes` bytes.
  [[nodiscard]] std::shared_ptr<const packed_memory> block(std::span<const std::byte> values,
                                                           const std::shared_ptr<budget>& charged) const;
  [[nodiscard]] std::string_view front() const noexcept;
  [[nodiscard]] std::string_view end_bytes() const noexcept;

private:
  bool lz4_;
  int level_;
};

} // namespace saeta::ipc::detail
