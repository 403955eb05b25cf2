// The timelines of the process, in slots that are found by number without a lock.
//
// What      A timeline_id is the index of a slot and a serial number of its use. Resolving an id takes two
//           loads. The id of a retired timeline finds a slot with another id, which means that its points
//           have passed.
// Lifetime  Slots are reused and never freed.
// Thread    Any thread reads the atomic members. `mutex` guards the rest, which is valid only while `id` is
//           the one that the holder of the mutex expects.
#pragma once

#include "saeta/order/timeline.hpp"

#include <atomic>
#include <mutex>

namespace saeta {

struct SAETA_LOCAL alignas(64) timeline {
  std::atomic<timeline_id> id{timeline_id::none};
  std::atomic<std::uint64_t> open{1};   ///< epoch of the work that is queued now
  std::atomic<std::uint64_t> passed{0}; ///< every epoch up to this one is known to have finished
  std::atomic<bool> ours{false};        ///< a stream of ours: events are recorded only when needed
  std::uint32_t index = 0;              ///< of the slot

  std::mutex mutex;
  timelines* home = nullptr;
  /// none for the timeline of the whole device; a foreign stream may be gone
  std::optional<stream_ref> stream;
  struct closed_epoch {
    std::uint64_t epoch;
    std::shared_ptr<event> end;
  };
  std::vector<closed_epoch> closed;       ///< epochs not known to have finished, oldest first; bounded
  std::optional<saeta::stream> forgotten; ///< a stream of ours whose last work no event covers yet

  [[nodiscard]] bool is(timeline_id expected) const noexcept {
    return id.load(std::memory_order_acquire) == expected;
  }

  // The following need the lock and a timeline that is not retired.

  /// Closes the open epoch with an event. `record` gets the event and may refuse it. Returns the epoch, or
  /// nullopt if it refused.
  template <class Record>
  std::optional<std::uint64_t> close(const Record& record);
  /// Like `close`, with an event on the stream itself.
  std::uint64_t close_on(stream_ref stream);
  /// Covers all work of a stream of ours, which may be destroyed unless this throws. @throws error device.
  void end_stream();
  /// The event that covers the epoch. Closes the epoch if needed. Returns null if the epoch has finished.
  std::shared_ptr<event> end_of(std::uint64_t epoch);
  /// The first closed epoch that is `epoch` or later.
  std::vector<closed_epoch>::iterator find_closed(std::uint64_t epoch);
  /// Queries the device once. Returns true if everything up to `epoch` has finished.
  bool ask(std::uint64_t epoch);
  /// Stores that `epoch` has finished and removes the events up to it.
  void set_passed(std::uint64_t epoch) noexcept;
};

class timeline_table {
public:
  timeline_table() = default;
  static timeline_table& instance();

  /// Returns a slot for a new timeline. Its id is set; everything else is in its initial state.
  timeline& take();
  /// The caller holds the lock of the slot.
  void retire(timeline& gone) noexcept;
  /// Returns null if the timeline was retired, or for `none`.
  [[nodiscard]] timeline* find(timeline_id id) const noexcept;

private:
  static constexpr std::uint64_t index_bits = 24;
  static constexpr std::size_t chunk = 64;
  static constexpr std::size_t most_chunks = (std::size_t{1} << index_bits) / chunk;

  std::unique_ptr<std::atomic<timeline*>[]> chunks_ = std::make_unique<std::atomic<timeline*>[]>(most_chunks);
  std::mutex mutex_;
  std::vector<timeline*> free_;
  std::size_t made_ = 0;    ///< number of slots
  std::uint64_t taken_ = 0; ///< number of calls to `take`
};

} // namespace saeta
