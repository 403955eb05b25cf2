// The state of the guard (decorators/guard_resource.hpp): blocks that are alive or in quarantine, how they
// are marked, and the findings.
//
// Thread    Any; three locks, taken in the order in which they are declared.
#pragma once

#include "saeta/resource/decorators/guard_resource.hpp"
#include "saeta/resource/decorators/guard_scan.hpp"

#include <list>
#include <map>
#include <mutex>

namespace saeta {

/// Bytes before and after a block that must stay as they were painted.
inline constexpr std::size_t guard_canary = 256;
static_assert(guard_canary % device_alignment == 0);

/// A block that a caller holds or has freed, and the upstream block around it.
struct guarded {
  block inner;
  block outer; ///< as returned to the caller
  bool poisoned = false;
  point freed;              ///< after the last use and the poison
  unsigned found = 0;       ///< kinds already reported, one bit each
  std::uintptr_t begin = 0; ///< start of the upstream block
};

/// A region to scan, and the finding if its bytes are wrong.
struct guard_suspect {
  guarded* of;
  guard_finding::kind found;
  std::int64_t offset; ///< of the region, from the start of the block
};

struct SAETA_LOCAL guard_state {
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
  std::size_t quarantined = 0;             ///< bytes of the upstream blocks
  /// (begin, generation) to end, for all blocks that upstream has not taken back
  std::map<std::pair<std::uintptr_t, std::uint64_t>, std::uintptr_t> extents;

  std::mutex scan_mutex;
  guard_scanner scanner;

  mutable std::mutex findings_mutex;
  std::vector<guard_finding> findings;

  /// Queues the fills of a new block: canaries and poison.
  void paint(const guarded& made, stream_ref stream) const;
  void remember(const guarded& made);
  /// Returns a block upstream that was not given to the caller.
  static void abandon(const guarded& made, stream_ref stream, resource& upstream) noexcept;
  /// Frees a caller's block; false when the block still belongs to the caller.
  bool take_back(const block& returned, std::span<const point> after, resource& upstream);
  std::size_t bytes_in_quarantine() {
    const std::lock_guard lock(mutex);
    return quarantined;
  }
  /// Retires the oldest blocks until at most `limit` bytes are in quarantine.
  void shrink(std::size_t limit, resource& upstream) noexcept;
  /// Checks all blocks that are live or in quarantine, after all work of the device.
  /// @throws error busy while a graph is captured.
  void check_all();

private:
  /// Queues the poison of a freed block; reports and returns false when the device refuses.
  bool poison(guarded& freed, std::span<const point> after) noexcept;
  void add_regions(guarded& of, std::vector<guard_region>& regions,
                   std::vector<guard_suspect>& suspects) const;
  /// Reads the regions back. Call with `scan_mutex` held.
  std::vector<guard_finding> examine(const std::vector<guard_region>& regions,
                                     const std::vector<guard_suspect>& suspects);
  void publish(std::vector<guard_finding> findings) noexcept;
  /// Checks a block once the work on it has finished, and returns it upstream; false when it must be kept.
  bool retire(guarded& freed, resource& upstream) noexcept;
};

} // namespace saeta
