// Offsets of structs, sparse unions and fixed-size lists that leave for consumers.
//
// What      The offset of such an array counts for its children as well, and some consumers drop it there: DuckDB refuses a struct
//           below an offset, pyarrow shows other rows of a map whose entries have one, nanoarrow other rows of a sparse union,
//           polars refuses a fixed-size list. So it goes to the children, each of which has a place for one of its own.
// Owner     A validity that begins inside a byte then has to be shifted, into memory that the caller keeps with the export.
#pragma once

#include "saeta/transfer/host_array.hpp"

#include <cstdint>
#include <deque>
#include <vector>

namespace saeta {

using shifted_bitmaps = std::deque<std::vector<std::uint64_t>>;

/// For an array about to be exported, and all in it. A struct keeps its offset where no such array is above or below it: that is a
/// plain slice, which all of them read.
/// @param shifted  gets the bitmaps that had to be shifted; null where nothing may be copied, or the CPU can't read them: those
///                 arrays keep their offset, which is valid Arrow.
void hand_offsets_down(host_array& of, shifted_bitmaps* shifted);

} // namespace saeta
