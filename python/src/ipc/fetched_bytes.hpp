// The bytes of a source that were fetched ahead, where reads find them without the GIL.
//
// What      Threads of Python bring the bytes of ranges (saeta/_files/stores). Reads of the library are many
//           and small, and would wait for each other and for these threads if each of them ran Python.
//           Bytes that have a place (byte_range::memory) are copied to it by the thread that brings them, while
//           they are in its cache. Of others the object that Python returned is kept.
// Owner     Holds places and objects until they are removed.
// Thread    Any.
#pragma once

#include "python/src/core/module.hpp"
#include "saeta/ipc/common.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace saeta::py {

class fetched_bytes {
public:
  /// Takes the memory of ranges that have some. Bytes that are added later are copied to it.
  void place(std::span<const ipc::byte_range> ranges);
  /// Forgets the memory of ranges, and the bytes in it.
  void forget(std::span<const ipc::byte_range> ranges);
  /// Adds bytes. Copies them to the memory of their range, or keeps their owner where it has none. Returns
  /// whether the owner is kept.
  bool add(std::uint64_t offset, std::span<const std::byte> content,
           const std::shared_ptr<const void>& owner);
  /// Removes what was added from `offset` on, up to `end`.
  void remove(std::uint64_t offset, std::uint64_t end);
  /// Copies bytes that were added. Returns false, and copies nothing, if some are missing. Bytes whose place is
  /// the target are not copied again.
  [[nodiscard]] bool copy(std::uint64_t offset, std::span<std::byte> target) const;

private:
  struct part {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;
  };
  /// By the offset of their first byte.
  using parts = std::map<std::uint64_t, part>;

  /// Copies content to the places that it belongs to. Returns what has to be kept for it.
  [[nodiscard]] parts bring(std::uint64_t offset, std::span<const std::byte> content,
                            const std::shared_ptr<const void>& owner) const;
  /// Returns the parts that have the bytes [offset, end), or none.
  [[nodiscard]] std::vector<std::pair<std::uint64_t, part>> find(std::uint64_t offset,
                                                                 std::uint64_t end) const;
  /// Takes wanted parts that begin in [offset, end) away. Their owners may need the GIL, which must not be
  /// waited for with the lock.
  [[nodiscard]] parts take(std::uint64_t offset, std::uint64_t end,
                           const std::function<bool(const part&)>& wanted);

  mutable std::mutex mutex_;
  parts parts_;
  std::map<std::uint64_t, ipc::byte_range> places_; ///< by their offset
};

/// Calls `fetch([(offset, bytes), ...])`, which brings the ranges to `fetched`. Returns what owns its result and
/// the places of the ranges.
std::shared_ptr<void> fetch_ranges(const nb::object& fetch, const std::shared_ptr<fetched_bytes>& fetched,
                                   std::span<const ipc::byte_range> ranges);

/// Adds the class.
void bind_fetched_bytes(nb::module_& m);

} // namespace saeta::py
