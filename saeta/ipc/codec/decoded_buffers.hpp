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

#include "saeta/budget/budget.hpp"
#include "saeta/ipc/codec/codecs.hpp"
#include "saeta/staging/scatter.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace saeta::ipc::detail {

struct piece_table; // read/piece_table.hpp
class part_decoder;

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
  std::size_t node = 0;                ///< of the tree of its message, for errors
  // For a buffer of offsets whose first and last offset are recorded:
  std::uint8_t width = 0;     ///< bytes of an offset; 0: nothing is recorded
  std::uint64_t first_at = 0; ///< decoded byte where the first one begins
  std::uint64_t last_at = 0;
  std::int64_t assumed = -1;    ///< assumed last offset, with 0 as the first; -1: no assumption
  part_decoder* part = nullptr; ///< decodes it if its batch is read in parts
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
  /// Bytes of memory that it has.
  [[nodiscard]] std::uint64_t memory() const;

  /// Bytes of memory besides that of a codec, at most.
  static const std::uint64_t most_input_memory;

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

/// A source whose compressed buffers can be read as if they were uncompressed.
///
/// What      Positions behind the end of the source are decoded bytes. Each compressed buffer has its own
///           range there, in the order of the messages. Reading a range from front to back decodes it once.
/// Owner     Borrows the source.
/// Thread    Any. Call `place` before the first read.
class packed_bodies {
public:
  explicit packed_bodies(const scatter_source& from);
  packed_bodies(const packed_bodies&) = delete;
  packed_bodies& operator=(const packed_bodies&) = delete;

  /// Assigns ranges to the compressed buffers of these pieces, and positions in them to the spans. The pieces
  /// must outlive this object, which names their buffers in errors.
  void place(piece_table& pieces);
  /// First and last offset of the buffer that begins at `at`. The buffer must have been read to its end.
  [[nodiscard]] const seen_borders& borders_at(std::uint64_t at) const { return seen_[find(at)]; }
  /// Whether the decoded offsets are as assumed. Call it after everything was read.
  [[nodiscard]] bool matches_assumption() const noexcept;
  /// The source with the decoded ranges. Valid as long as this object lives.
  [[nodiscard]] const scatter_source& all() const noexcept { return all_; }

private:
  class reader;
  /// Returns the index of the buffer that contains a position.
  [[nodiscard]] std::size_t find(std::uint64_t position) const;
  /// Returns, for example, "a.arrow: batch 3: column 'x'".
  [[nodiscard]] std::string label(std::size_t index) const;

  const scatter_source& from_;
  std::vector<packed_buffer> buffers_;                             ///< by ascending position
  std::vector<std::pair<const piece_table*, std::size_t>> pieces_; ///< of each buffer: its table and piece
  mutable std::vector<seen_borders> seen_; ///< of each buffer; written by the thread that reads it
  scatter_source all_;
};

// Decodes the buffers of a compressed batch that is read in parts of its rows.
//
// What      Each buffer has a decoder that stays at its position, so that the next part goes on where the one
//           before it ended. The last decoded bytes are kept: neighbouring parts share an offset, or a byte of
//           a bitmap. The plan of a part needs its first and last offset, so the offsets of a part are decoded
//           when it is planned, and kept until it is read. Reading bytes that are no longer kept decodes the
//           buffer from its beginning again.
// Owner     Borrows the source.
// Budget    Charged with the memory of all decoders, which the headers of their frames say, and with the bytes
//           that are kept.
// Thread    Any. Parts are read in the order of their rows: another order is correct and takes longer.
// Failure   As buffer_decoder; budget_exceeded. A buffer that has failed begins anew.

/// The decoder of one buffer.
class part_decoder {
public:
  part_decoder(const scatter_source& from, const packed_buffer& of, std::shared_ptr<budget> charged);
  part_decoder(const part_decoder&) = delete;
  part_decoder& operator=(const part_decoder&) = delete;
  ~part_decoder();

  /// Returns the two offsets that `of` names, and keeps the bytes from the first one on.
  [[nodiscard]] seen_borders borders(const packed_buffer& of);
  /// Reads decoded bytes. @param position  counted from the first decoded byte of the buffer
  void read(std::uint64_t position, std::span<std::byte> target);
  void finish();
  /// Its node in the tree of its message.
  [[nodiscard]] std::size_t node() const noexcept { return of_.node; }

private:
  template <class Action>
  void run(const Action& action);
  [[nodiscard]] std::uint64_t kept_from() const { return decoder_.position() - kept_.size(); }
  void begin();
  void go_to(std::uint64_t position);
  void keep_to(std::uint64_t end);
  void drop_before(std::uint64_t end);
  void charge(std::uint64_t bytes);
  [[nodiscard]] std::uint64_t memory_of_decoder();

  packed_buffer of_;
  buffer_decoder decoder_;
  std::shared_ptr<budget> charged_to_;
  std::uint64_t charged_ = 0;
  std::uint64_t expected_ = 0; ///< bytes of the decoder, as the header of its frame says
  std::mutex mutex_;
  bool begun_ = false;
  std::vector<std::byte> kept_; ///< the decoded bytes before the decoder's position
};

class batch_decoders {
public:
  /// @param from  must outlive the decoders
  batch_decoders(const scatter_source& from, std::shared_ptr<budget> charged)
      : from_(from), charged_(std::move(charged)) {}

  /// Returns what a buffer claims. @param read  reads it, at the first call
  [[nodiscard]] packed_claim claim(std::size_t number, const std::function<packed_claim()>& read);
  /// Returns the decoder of a buffer.
  [[nodiscard]] part_decoder& at(std::size_t number, const packed_buffer& of);
  /// Decodes what is left of each buffer and checks that the frames end there. Call it after the last part.
  /// @param label  names the column of a node for errors
  void finish(const std::function<std::string(std::size_t node)>& label);

private:
  const scatter_source& from_;
  std::shared_ptr<budget> charged_;
  std::mutex mutex_;
  std::map<std::size_t, packed_claim> claims_;                   ///< by the number of their buffer
  std::map<std::size_t, std::unique_ptr<part_decoder>> buffers_; ///< the same
};

} // namespace saeta::ipc::detail
