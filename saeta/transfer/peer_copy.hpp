// Copies the columns of a table from one device to another, whose memory it can access.
//
// What      The bytes that the rows refer to become one slab of the target, and the columns are views into
//           it. Neighbours in one storage stay neighbours, so a table that lies in one slab, as a whole read
//           makes it, is one copy without a kernel. A link is fast with large copies alone: many small ranges
//           are first joined on the source by a kernel, into two windows that are filled and sent in turn.
//           That kernel also shifts bitmaps and rebases offsets of slices. Columns that share a dictionary
//           share its copy. What views refer to is copied as a whole.
// Owner     The slab is charged to the budget of `target`, before anything is copied. The windows are charged
//           to the budget of the source's context: at most twice `peer_copy_sizes::window`.
// Order     Runs after the last writes of the columns, and later writes to them wait for it. Ready on the
//           target's work stream. The host waits only for offsets of slices.
// Thread    Any.
// Failure   budget_exceeded, out_of_memory, closed, busy, device. Nothing stays allocated.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/column/table.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace SAETA_EXPORT saeta {

/// Bytes that choose how ranges are sent.
struct peer_copy_sizes {
  /// The ranges of a storage are copied directly if they have at least this many bytes on average. A copy of
  /// 16 MiB takes 40 us on NVLink, ten times the driver's overhead between two copies.
  std::size_t direct = std::size_t{16} << 20;
  std::size_t window = std::size_t{32} << 20; ///< of the joined ranges; a multiple of 64
  std::size_t few = 8;                        ///< up to this many ranges are never joined
};

[[nodiscard]] std::vector<batch> copy_from_peer(const table& source, const std::shared_ptr<context>& target,
                                                const std::string& tag, const peer_copy_sizes& sizes = {});

} // namespace saeta
