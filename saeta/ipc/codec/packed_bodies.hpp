// A source whose compressed buffers can be read as if they were not.
//
// What      Decoded bytes lie behind those of the source itself, each buffer in a range of its own, in the order of the
//           messages. Whoever reads a range front to back decodes it once (buffer_decoder.hpp).
// Owner     Borrows the source and the pieces.
// Thread    `place` before anything is read; then any.
#pragma once

#include "saeta/ipc/codec/buffer_decoder.hpp"
#include "saeta/ipc/read/piece_table.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace saeta::ipc::detail {

class packed_bodies {
public:
  /// What an error says of the buffer that begins at a byte.
  using labels = std::function<std::string(std::uint64_t at)>;

  packed_bodies(const scatter_source& from, labels label);
  packed_bodies(const packed_bodies&) = delete;
  packed_bodies& operator=(const packed_bodies&) = delete;

  /// Gives the compressed buffers of these pieces their ranges, and their spans the places in them.
  void place(piece_table& pieces);
  /// Of the offsets that begin at a byte, and that have been read to their end.
  [[nodiscard]] const seen_borders& seen(std::uint64_t at) const { return seen_[find(at)]; }
  /// Whether all offsets that were assumed have been found. To be asked after everything was read.
  [[nodiscard]] bool as_assumed() const noexcept;
  /// The source and what is decoded. As long as this lives.
  [[nodiscard]] const scatter_source& all() const noexcept { return all_; }

private:
  class reader;
  /// Number of the buffer.
  [[nodiscard]] std::size_t find(std::uint64_t position) const;

  const scatter_source& from_;
  labels label_;
  std::vector<packed_buffer> buffers_;     ///< with rising places
  mutable std::vector<seen_borders> seen_; ///< of each; written by who reads the buffer
  scatter_source all_;
};

} // namespace saeta::ipc::detail
