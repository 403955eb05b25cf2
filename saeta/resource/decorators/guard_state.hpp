// What the guard knows (decorators/guard_resource.hpp): blocks that are alive or in quarantine, what they look like, and
// what was found.
//
// Thread    Any; three locks, taken in the order in which they stand here.
#pragma once

#include "saeta/resource/decorators/guard_resource.hpp"
#include "saeta/resource/decorators/guard_scan.hpp"

#include <list>
#include <map>
#include <mutex>

namespace saeta {

/// A block that a caller has or had, around it the block of upstream.
struct guarded {
  block inner;
  block outer; ///< as the caller got it
  bool poisoned = false;
  point freed;              ///< after the last use and the poison
  unsigned found = 0;       ///< kinds reported already, one bit each
  std::uintptr_t begin = 0; ///< of the upstream block
};

/// A region to scan, and what is wrong when its bytes are.
struct guard_suspect {
  guarded* of;
  guard_finding::kind found;
  std::int64_t offset; ///< of the region, from the start of the block
};

struct guard_state {
  guard_state(const std::shared_ptr<backend>& device, guard_options chosen)
      : options(chosen),
        own_alignment(device->device().kind == device_kind::cpu ? host_alignment : device_alignment),
        clock(timelines::of(*device)), scanner(clock) {}

  using blocks = std::map<std::uint64_t, guarded>; ///< by generation

  const guard_options options;
  const std::size_t own_alignment;
  const std::shared_ptr<timelines> clock;

  std::mutex mutex;
  blocks live;
  std::list<blocks::node_type> quarantine; ///< oldest first
  std::size_t quarantined = 0;             ///< bytes of upstream
  std::map<std::pair<std::uintptr_t, std::uint64_t>, std::uintptr_t>
      extents; ///< (begin, generation) to end of what upstream gave and did not get back

  std::mutex scan_mutex;
  guard_scanner scanner;

  mutable std::mutex findings_mutex;
  std::vector<guard_finding> findings;

  /// Queues what a new block is filled with.
  void paint(const guarded& made, stream_ref stream) const;
  void remember(const guarded& made);
  /// Gives a block back that nobody got to see.
  static void abandon(const guarded& made, stream_ref stream, resource& upstream) noexcept;
  /// The free of a caller; false when the block stays the caller's.
  bool take_back(const block& returned, std::span<const point> after, resource& upstream);
  std::size_t bytes_in_quarantine() {
    const std::lock_guard lock(mutex);
    return quarantined;
  }
  /// Retires the oldest until at most `limit` bytes are left.
  void shrink(std::size_t limit, resource& upstream) noexcept;
  /// Looks at all that is live or in quarantine, after all work of the device. @throws error busy while a graph is captured.
  void check_all();

private:
  /// Queues the poison of a freed block; false, and reported, when the device refuses.
  bool poison(guarded& freed, std::span<const point> after) noexcept;
  void add_regions(guarded& of, std::vector<guard_region>& regions,
                   std::vector<guard_suspect>& suspects) const;
  /// Reads the regions back. With `scan_mutex`.
  std::vector<guard_finding> examine(const std::vector<guard_region>& regions,
                                     const std::vector<guard_suspect>& suspects);
  void publish(std::vector<guard_finding> found) noexcept;
  /// Checks a block once the work on it has finished and gives it to upstream; false when it must be kept.
  bool retire(guarded& freed, resource& upstream) noexcept;
};

} // namespace saeta
