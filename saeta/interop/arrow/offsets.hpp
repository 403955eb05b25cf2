// Moves the offsets of exported structs, sparse unions and fixed-size lists into their children.
//
// What      The offset of such an array applies to its children as well, and some consumers ignore it there.
//           DuckDB refuses a struct inside an array with an offset. pyarrow shows wrong rows of a map whose
//           entries have one, and nanoarrow wrong rows of a sparse union. polars refuses a fixed-size list.
//           So the export moves the offset into the children, which have an offset field of their own.
// Owner     A validity that then begins inside a byte must be shifted into new memory, which the caller keeps
//           with the export.
#pragma once

#include "saeta/transfer/host_array.hpp"

#include <cstdint>
#include <deque>
#include <vector>

namespace saeta {

using shifted_bitmaps = std::deque<std::vector<std::uint64_t>>;

/// Moves the offsets of an array that is about to be exported, and of all arrays in it. A top-level struct
/// keeps its offset if no child of it has one of these types: that is a plain slice, which all these
/// consumers read correctly.
/// @param shifted  receives the shifted bitmaps. Null if nothing may be copied or the CPU can't read the
///                 bitmaps: arrays that need a shift then keep their offset, which is valid Arrow.
void push_offsets_down(host_array& of, shifted_bitmaps* shifted);

} // namespace saeta
