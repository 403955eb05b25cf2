// A source whose compressed buffers can be read as if they were uncompressed.
//
// What      Positions behind the end of the source are decoded bytes. Each compressed buffer has its own
//           range there, in the order of the messages. Reading a range from front to back decodes it once
//           (buffer_decoder.hpp).
// Owner     Borrows the source.
// Thread    Any. Call `place` before the first read.
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
  /// Returns the label for errors of the buffer that begins at a position.
  using labels = std::function<std::string(std::uint64_t at)>;

  packed_bodies(const scatter_source& from, labels label);
  packed_bodies(const packed_bodies&) = delete;
  packed_bodies& operator=(const packed_bodies&) = delete;

  /// Assigns ranges to the compressed buffers of these pieces, and positions in them to the spans.
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

  const scatter_source& from_;
  labels label_;
  std::vector<packed_buffer> buffers_;     ///< by ascending position
  mutable std::vector<seen_borders> seen_; ///< of each buffer; written by the thread that reads it
  scatter_source all_;
};

} // namespace saeta::ipc::detail
