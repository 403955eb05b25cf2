// The timelines of the process: slots that are found by number without a lock.
//
// What      A timeline_id is the index of a slot and how often the slot was taken. So an id is resolved in two loads, and
//           that of a retired timeline finds a slot with another id, which says that its points have passed.
// Lifetime  Slots are reused and never freed.
// Thread    `id`, `open` and `passed` are read by anybody; the rest is guarded by `mutex`, and valid while `id` is what the
//           holder of the mutex expects.
#pragma once

#include "saeta/order/timeline.hpp"

#include <atomic>
#include <mutex>

namespace saeta {

struct alignas(64) timeline {
  std::atomic<timeline_id> id{timeline_id::none};
  std::atomic<std::uint64_t> open{1};   ///< epoch of the work that is queued now
  std::atomic<std::uint64_t> passed{0}; ///< every epoch up to it is known to have finished
  std::atomic<bool> ours{false};        ///< events are recorded when they are needed
  std::uint32_t index = 0;              ///< of the slot

  std::mutex mutex;
  timelines* home = nullptr;
  std::optional<stream_ref> stream; ///< none: it is of the whole device. Of a foreign stream that may be gone
  struct closed_epoch {
    std::uint64_t epoch;
    std::shared_ptr<event> end;
  };
  std::vector<closed_epoch> closed;       ///< those not known to have finished, oldest first; bounded
  std::optional<saeta::stream> forgotten; ///< ours, without an event yet that covers its last work

  [[nodiscard]] bool is(timeline_id expected) const noexcept {
    return id.load(std::memory_order_acquire) == expected;
  }

  // With the lock, on a timeline that is not retired.

  /// Records the end of the open epoch with `record`, which gets an event and may refuse. Returns the epoch, or nothing.
  template <class Record>
  std::optional<std::uint64_t> close(const Record& record);
  /// As `close`, on the stream itself.
  std::uint64_t close_on(stream_ref stream);
  /// Covers all work of a stream of ours, which may be destroyed then. @throws error device, and it may not.
  void end_stream();
  /// The event that covers the epoch, closing it if need be; null when it has finished.
  std::shared_ptr<event> end_of(std::uint64_t epoch);
  /// The first that ends with `epoch` or later.
  std::vector<closed_epoch>::iterator find_closed(std::uint64_t epoch);
  /// Asks the device once; true when everything up to `epoch` has finished.
  bool ask(std::uint64_t epoch);
  /// Takes the events up to `epoch` out, which has finished.
  void set_passed(std::uint64_t epoch) noexcept;
};

class timeline_table {
public:
  timeline_table() = default;
  static timeline_table& instance();

  /// A slot for a new timeline: its id is set, everything else is as in a fresh one.
  timeline& take();
  /// With the lock of the slot.
  void retire(timeline& gone) noexcept;
  /// Null when the timeline has been retired, or for `none`.
  [[nodiscard]] timeline* find(timeline_id id) const noexcept;

private:
  static constexpr std::uint64_t index_bits = 24;
  static constexpr std::size_t chunk = 64;
  static constexpr std::size_t most_chunks = (std::size_t{1} << index_bits) / chunk;

  std::unique_ptr<std::atomic<timeline*>[]> chunks_ = std::make_unique<std::atomic<timeline*>[]>(most_chunks);
  std::mutex mutex_;
  std::vector<timeline*> free_;
  std::size_t made_ = 0;    ///< slots
  std::uint64_t taken_ = 0; ///< how often a slot was taken
};

} // namespace saeta
