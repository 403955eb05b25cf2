// The ordering state of one storage: what must have passed before it may be read, written, handed over or freed.
//
// What      The points of its last writes and of the latest read of each stream, and what nobody announced: views that
//           consumers have, and work of consumers whose streams are unknown. Everything that wants the memory asks `needs`
//           or begins a use, so no path can leave a part of it out.
// Rules     1. A read waits for every last write; a write waits for every last write and every read.
//           2. Reads are bounded: past `max_reads` a new reader waits for the oldest read first, and covers it.
//           3. Between `acquire` and `end` or `give_up` a write excludes every other use and a read excludes writes, so
//              preparing and finishing are one step and no edge is lost. A thread that asks again for what it holds gets
//              error busy instead of a deadlock.
// Unknown   Consumers may work on streams that nobody announced. While they have a view, and once they have given it back,
//           a conflicting use needs a point after all work of the device (timelines::mark_device). It is taken when the
//           memory is needed, by `settle`, and then stands for that work: later uses wait for the point alone.
// Thread    Any; `acquire` and `needs` block while another thread's use is in the way.
#pragma once

#include "saeta/base/spin_lock.hpp"
#include "saeta/order/timeline.hpp"

#include <atomic>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

namespace saeta {

enum class access { read, write, read_write };

/// What a use has to wait for.
struct requirement {
  point_set points;
  bool unknown = false; ///< for unknown work, too
};

/// What somebody has to wait for who gets the memory without a use of ours.
struct handover : requirement {
  std::uint32_t seen = 0; ///< for `settle`
};

class ordering_state {
public:
  static constexpr std::size_t max_reads = 8;

  /// Takes the storage for the calling thread and adds to `into` what `mode` has to wait for. On failure nothing is held.
  /// What a write adds is taken out of the state: `end` says that the use covers it, `give_up` puts it back.
  /// Returns what `settle` wants to see.
  std::uint32_t acquire(access mode, requirement& into, std::string_view name);
  /// The use of `holder` is over. `done` covers everything queued on its stream, the waits too; empty when the stream has
  /// been synchronised or runs inline.
  void end(access mode, std::thread::id holder, point done) noexcept;
  /// As `end`, of work that no point covers.
  void end_unknown(access mode, std::thread::id holder) noexcept;
  /// The use did not take place: nothing was queued that waits for `waited`.
  void give_up(access mode, const requirement& waited) noexcept;

  /// The first users wait for this. Before anybody else has the storage.
  void start_after(point ready) noexcept { writes_.points.start_with(ready); }
  /// Adds work that no token covered: a foreign producer's or borrower's. @throws std::bad_alloc.
  void add_write(point done);
  /// A view was handed to a consumer whose streams are unknown; it may write where `mode` says so.
  void begin_export(access mode) noexcept;
  /// The consumer gave it back. @param mode  as it was begun.
  void end_export(access mode) noexcept;
  /// As `end_export`, where the consumer's last use was named.
  void end_export(access mode, const point_set& last) noexcept;

  /// What an access by somebody else has to wait for: a hand-over, a host read. Waits for a write use of another thread to
  /// end, because its point is not there before; @throws error busy inside a write use of this thread.
  [[nodiscard]] handover needs(access mode, std::string_view name);
  /// For the release: everything, of a state that nobody can reach any more. It lives as long as the state.
  [[nodiscard]] requirement& take_all() noexcept {
    if (!reads_.empty() || unknown_reads_ || reading_views_ + writing_views_ != 0) {
      gather();
    }
    return writes_;
  }
  /// The unknown work that conflicts with `mode` is covered: by `everything`, or where that is empty by a use that has
  /// waited for it. @param seen  what `acquire` or `needs` returned before that point was taken. @throws std::bad_alloc.
  void settle(access mode, const point_set& everything, std::uint32_t seen);

private:
  using locked = std::unique_lock<spin_lock>;

  [[nodiscard]] locked lock_out(access mode, std::string_view name);
  /// Gives the lock back, too.
  void unlock_use(locked lock, access mode, std::thread::id holder) noexcept;
  [[nodiscard]] bool unknown_to(access mode) const noexcept;
  void note(access mode, std::span<const point> last) noexcept;
  void set_unknown(access mode) noexcept;
  void gather() noexcept;

  spin_lock lock_;
  std::atomic<int> uses_ended_{0}; ///< who is locked out waits for it to change
  requirement writes_; ///< one point, or several where writers were unordered (a foreign one beside ours)
  point_set reads_;
  std::vector<std::thread::id> readers_; ///< threads inside a read use
  std::thread::id writer_;
  std::int32_t reading_views_ = 0; ///< that consumers have
  std::int32_t writing_views_ = 0;
  bool unknown_reads_ = false; ///< by consumers that have given their views back; `writes_` says it of writes
  std::uint32_t changes_ = 0;  ///< how often something became unknown
};

} // namespace saeta
