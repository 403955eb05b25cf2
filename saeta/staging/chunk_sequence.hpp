// The first chunks of a scatter, whose bytes may be read by anybody in any order, cut as they are asked for.
//
// What      Where a chunk begins is known once the one before it is cut. To cut all of them before the first is read would hold up the
//           read, by two microseconds for each chunk of many pieces.
// Thread    Any: chunks may be asked for in any order, and those that are not known yet are cut by one thread at a time.
#pragma once

#include "saeta/staging/chunk_cutter.hpp"

#include <cstddef>
#include <mutex>
#include <vector>

namespace saeta {

class chunk_sequence {
public:
  /// @param cutter  outlives this
  explicit chunk_sequence(const chunk_cutter& cutter);

  /// How many of the first `wanted` chunks there are.
  std::size_t find(std::size_t wanted);
  /// Fills `chunk`. False where there is no chunk of that number, and none behind it.
  bool cut(std::size_t number, cut_chunk& chunk);
  /// Where the chunks end that were found: nowhere else can a chunk with an order begin. After `cut` or `find` has said that there are
  /// no more.
  [[nodiscard]] chunk_cursor end() const noexcept { return begins_.back(); }

private:
  /// Cuts the one behind those that are known. False where there is none. The caller has the lock.
  bool advance(cut_chunk& chunk);

  const chunk_cutter& cutter_;
  std::mutex mutex_;
  std::vector<chunk_cursor> begins_; ///< of each chunk that is known, and where the last of them ends
  bool ended_;
  cut_chunk passed_; ///< over on the way to another
};

} // namespace saeta
