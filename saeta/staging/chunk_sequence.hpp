// The first chunks of a scatter, which can be read in any order. They are cut on demand.
//
// What      The beginning of a chunk is known once the chunk before it is cut. Cutting all chunks before the
//           first read would delay the read by two microseconds for each chunk of many pieces.
// Thread    Any. Chunks may be asked for in any order. One thread at a time cuts those that are not known
//           yet.
#pragma once

#include "saeta/staging/chunk_cutter.hpp"

#include <cstddef>
#include <mutex>
#include <vector>

namespace saeta {

class chunk_sequence {
public:
  /// @param cutter  must outlive this object
  explicit chunk_sequence(const chunk_cutter& cutter);

  /// Returns how many of the first `wanted` chunks exist.
  std::size_t find(std::size_t wanted);
  /// Fills `chunk` with chunk `number`. Returns false if that chunk, and thus every later one, does not
  /// exist.
  bool cut(std::size_t number, cut_chunk& chunk);
  /// Where the sequence ends: at the first chunk with decoded parts, or at the end of the steps. Valid after
  /// `cut` or `find` has reported that there are no more chunks.
  [[nodiscard]] chunk_cursor end() const noexcept { return begins_.back(); }

private:
  /// Cuts the chunk after the known ones. Returns false if there is none. The caller holds the lock.
  bool advance(cut_chunk& chunk);

  const chunk_cutter& cutter_;
  std::mutex mutex_;
  std::vector<chunk_cursor> begins_; ///< beginnings of the known chunks, then the end of the last one
  bool ended_;
  cut_chunk passed_; ///< scratch for chunks that are cut only to find a later one
};

} // namespace saeta
