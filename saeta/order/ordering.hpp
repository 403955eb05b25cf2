// The ordering state of one storage: what has to pass before it is read, written, handed over or freed.
//
// @code
// ordering_state& state = bytes.owner()->ordering(); // a use_token does all of this
// requirement before;
// const std::uint32_t seen = state.acquire(access::write, before, "bytes"); // no other use comes in between
// wait(stream, before.points);
// launch(stream, bytes.address());
// state.end(access::write, std::this_thread::get_id(), mark(stream)); // the next use waits for this point
// @endcode
//
// What      The points of its last writes, the points of the latest read of each stream, and use that was not
//           announced: views that consumers hold, and work of consumers whose streams are unknown. Every path
//           to the memory calls `find_dependencies` or begins a use, so none can skip a part of the state.
// Rules     1. A read waits for every last write. A write waits for every last write and every read.
//           2. Reads are bounded: beyond `max_reads` a new read waits for the oldest one and covers it.
//           3. From `acquire` to `end` or `give_up`, a write excludes every other use and a read excludes
//              writes. So the wait and the record are one step, and no dependency is lost. A thread that
//              requests what it already holds gets error busy instead of a deadlock.
// Unknown   Consumers may work on streams that they did not announce. While they hold a view, and after they
//           return it, a conflicting use needs a point after all work of the device (timelines::mark_device).
//           The point is taken when the memory is needed. `settle` then stores it for that work, and later
//           uses wait for the point alone.
// Thread    Any; `acquire` and `find_dependencies` block while another thread's use is in the way.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/base/spin_lock.hpp"
#include "saeta/order/timeline.hpp"

#include <atomic>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

namespace SAETA_EXPORT saeta {

enum class access { read, write, read_write };

/// Work that a use has to wait for.
struct requirement {
  point_set points;
  bool unknown = false; ///< true: for unknown work as well
};

/// Work that a consumer has to wait for if it gets the memory without a use token.
struct handover : requirement {
  std::uint32_t seen = 0; ///< for `settle`
};

class ordering_state {
public:
  static constexpr std::size_t max_reads = 8;

  /// Takes the storage for the calling thread and adds to `into` what `mode` has to wait for. On failure
  /// nothing is held. The points that a write waits for leave the state: `end` replaces them by the point of
  /// the use, `give_up` puts them back. Returns the value that `settle` takes as `seen`.
  std::uint32_t acquire(access mode, requirement& into, std::string_view name);
  /// Ends the use of `holder`. `done` covers everything queued on its stream, including the waits. It is
  /// empty if the stream has been synchronised or runs inline.
  void end(access mode, std::thread::id holder, point done) noexcept;
  /// Like `end`, for work that no point covers.
  void end_unknown(access mode, std::thread::id holder) noexcept;
  /// Ends a use that did not take place: no work was queued that waits for `waited`.
  void give_up(access mode, const requirement& waited) noexcept;

  /// Sets a point that the first users wait for. Call it before other threads can reach the storage.
  void start_after(point ready) noexcept { writes_.points.start_with(ready); }
  /// Adds work that no token covered, such as that of a foreign producer or borrower. @throws std::bad_alloc.
  void add_write(point done);
  /// A view was handed to a consumer whose streams are unknown. `mode` says whether it may write.
  void begin_export(access mode) noexcept;
  /// The consumer returned the view. @param mode  the mode that the export began with.
  void end_export(access mode) noexcept;
  /// Like `end_export`, for a consumer that named its last use.
  void end_export(access mode, const point_set& last) noexcept;

  /// Finds the work that an access outside of a use token has to wait for: a hand-over or a host read. Blocks
  /// until a write use of another thread ends, because its point exists only then.
  /// @throws error busy inside a write use of this thread.
  [[nodiscard]] handover find_dependencies(access mode, std::string_view name);
  /// Everything that the release has to wait for. Nothing else can reach the state any more. The result lives
  /// as long as the state.
  [[nodiscard]] requirement& take_all() noexcept {
    if (!reads_.empty() || unknown_reads_ || reading_views_ + writing_views_ != 0) {
      gather();
    }
    return writes_;
  }
  /// Says that the unknown work that conflicts with `mode` is covered: by `everything` or, if that is empty,
  /// by a use that has waited for it.
  /// @param seen  what `acquire` or `find_dependencies` returned before those points were taken.
  /// @throws std::bad_alloc.
  void settle(access mode, const point_set& everything, std::uint32_t seen);

private:
  using locked = std::unique_lock<spin_lock>;

  [[nodiscard]] locked lock_out(access mode, std::string_view name);
  /// Also unlocks `lock`.
  void unlock_use(locked lock, access mode, std::thread::id holder) noexcept;
  [[nodiscard]] bool has_unknown_for(access mode) const noexcept;
  void note(access mode, std::span<const point> last) noexcept;
  void set_unknown(access mode) noexcept;
  void gather() noexcept;

  spin_lock lock_;
  bool awaited_ = false; ///< a thread is locked out; changed under the lock
  std::atomic<int> uses_ended_{
      0};              ///< changes when an awaited use ends; threads that are locked out wait for that
  requirement writes_; ///< one point, or several if writers were unordered (a foreign writer beside ours)
  point_set reads_;
  std::vector<std::thread::id> readers_; ///< threads inside a read use
  std::thread::id writer_;
  std::int32_t reading_views_ = 0; ///< views that consumers hold
  std::int32_t writing_views_ = 0;
  bool unknown_reads_ = false; ///< of consumers that returned their views; see `writes_.unknown` for writes
  std::uint32_t changes_ = 0;  ///< how often some work became unknown
};

} // namespace saeta
