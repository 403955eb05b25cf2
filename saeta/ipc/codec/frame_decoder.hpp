// Decodes consecutive frames of one codec whose bytes come in parts.
//
// What      Values go to the caller's target. What a block has more than the target has room for stays in the
//           decoder until the next call.
// Owner     Owns the codec's context with its window: up to 8 MiB for LZ4 and 128 MiB for ZSTD.
// Thread    One at a time.
// Failure   error format: the frames are broken, or one of ZSTD needs a larger window; out_of_memory. After
//           one, `reset` begins anew.
// Standard  LZ4 Frame Format 1.6.2; RFC 8878 (Zstandard).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace saeta::ipc::detail {

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

} // namespace saeta::ipc::detail
