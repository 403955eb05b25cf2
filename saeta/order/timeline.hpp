// Timelines: one clock for every stream.
//
// @code
// const std::shared_ptr<timelines> clocks = timelines::of(*ctx->device_backend());
// const own_stream uploads(clocks); // announced as ours, for as long as it lives
// launch(uploads.ref(), bytes.address());
// const point arrived = mark(uploads.ref()); // after everything that is queued on the stream now
// wait(stream, arrived);                     // later work of `stream` starts after it
// @endcode
//
// What      Each stream has a timeline, made on first use and found by the stream's identity. Its epochs
//           count the events recorded on the stream. Queued work belongs to the open epoch. Recording an
//           event closes the epoch.
// Owner     `timelines` is the registry of one backend. The backend's contexts and resources share it, and it
//           owns the events. After its stream was forgotten, or when there are many streams, a timeline is
//           retired once all its work has finished. By then its points have passed, so points keep nothing
//           alive.
// Events    On a stream announced as ours (`adopt`), an event is recorded only when another stream or the
//           host needs the open epoch. A program on one stream records none. Any other stream may be
//           destroyed at any time, so marking it records an event at once.
// Order     Waiting for a point of the same timeline is skipped. A stream of the host runs inline, so the
//           host waits.
// Thread    Any. Only the own thread of a per-thread default stream can mark it or wait for it
//           (`stream_ref::usable_here`). A capturing stream has no timeline: ask `captures` first.
// Failure   error device from the driver; `mark` and `wait` change nothing then.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/device/stream.hpp"
#include "saeta/order/point.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <vector>

namespace SAETA_EXPORT saeta {

class captures;
struct timeline;

/// A point after everything queued on the stream so far. Empty on the host, where nothing is ever pending.
[[nodiscard]] point mark(stream_ref stream);
/// Like `mark`, but records an event at once, so that waiting for the point does not wait for later work.
[[nodiscard]] point record(stream_ref stream);
/// The timeline of the stream, on the host too.
[[nodiscard]] timeline_id timeline_of(const stream_ref& stream);
/// For reports: the id of the timeline's stream (stream_ref::id). 0 if it was retired or has no stream.
[[nodiscard]] std::uint64_t stream_id_of(timeline_id id) noexcept;
/// True for a stream that was announced as ours (timelines::adopt): it never captures a graph.
[[nodiscard]] bool is_ours(stream_ref stream);
/// Makes later work on the stream start after the points.
void wait(stream_ref stream, point awaited);
void wait(stream_ref stream, const point_set& awaited);
/// True if work that is queued on the point's stream from now on belongs to a later epoch. No new point of
/// the stream equals this one then.
[[nodiscard]] bool has_epoch_ended(point queried) noexcept;
/// True if the point has passed. Queries the device unless the answer is known.
[[nodiscard]] bool has_passed(point queried);
/// Like `has_passed`, but returns false if the query fails.
[[nodiscard]] bool is_known_passed(point queried) noexcept;
/// Removes the points that have passed. Returns true if none is left.
bool drop_passed(point_set& points);
/// Blocks the calling thread until the point has passed. Not counted; `context::synchronize` counts waits.
void synchronize(point awaited);

class timelines : public std::enable_shared_from_this<timelines> {
public:
  /// The registry of the backend. It lives as long as it is shared.
  [[nodiscard]] static std::shared_ptr<timelines> of(backend& device);
  /// Destroys unshared registries whose work has finished by now. Making a registry does this, too. Returns
  /// how many unshared ones are left.
  static std::size_t collect_orphans();
  /// A timeline and its id when it was found.
  struct found {
    timeline* slot;
    timeline_id id;
  };

  timelines(const timelines&) = delete;
  timelines& operator=(const timelines&) = delete;
  ~timelines();

  [[nodiscard]] backend& device() const noexcept { return *device_; }
  /// Announces a stream as ours: it exists until `forget`, and it never captures a graph.
  void adopt(stream_ref own);
  /// Destroys a stream of ours once an event covers its pending work. If the driver fails to record the
  /// event, the stream stays until a retry succeeds, because memory used on the stream still waits for it.
  void forget(stream own, stream_ref adopted) noexcept;

  /// A point after all work of the device's context, including that of other libraries. It is on a timeline
  /// of the device itself, so a later point covers an earlier one. Returns nullopt while a known capture is
  /// active: reported by the driver, announced, or noted (order/captures.hpp). Recording ends an unknown one.
  [[nodiscard]] std::optional<point> mark_device();
  [[nodiscard]] captures& graph_captures() noexcept { return *captures_; }

  /// Events recorded so far, including those over all work of the context.
  [[nodiscard]] std::uint64_t events_recorded() const noexcept {
    return recorded_.load(std::memory_order_relaxed);
  }
  /// The number of streams that have a timeline now.
  [[nodiscard]] std::size_t size() const;

private:
  friend struct timeline;
  friend timeline_id timeline_of(const stream_ref& stream);
  friend point mark(stream_ref stream);
  friend point record(stream_ref stream);
  friend bool is_ours(stream_ref stream);
  struct streams; // timelines by stream identity

  explicit timelines(std::shared_ptr<backend> device);
  static void abandon(timelines* last) noexcept;
  static found find_or_add(stream_ref stream);
  static void retire(timeline& gone) noexcept;
  static bool has_pending(timeline& queried) noexcept;
  /// The timeline of the stream, made on its first use.
  timeline& at(const stream_identity& who, stream_ref stream);
  /// Retires idle timelines of streams that are not ours (any more). Returns how many are left.
  std::size_t retire_idle() noexcept;
  std::size_t retire_idle_locked() noexcept;
  [[nodiscard]] std::shared_ptr<event> take_event();
  void put_back(std::shared_ptr<event> unused) noexcept;

  const std::shared_ptr<backend> device_;
  const std::shared_ptr<captures> captures_;
  const std::unique_ptr<streams> streams_;
  timeline* const everything_; ///< the timeline whose epochs end with events over the whole context
  std::atomic<std::uint64_t> recorded_{0};
  std::mutex events_mutex_;
  std::vector<std::shared_ptr<event>> free_events_; ///< bounded
};

/// A stream that is announced as ours for its lifetime.
class own_stream {
public:
  explicit own_stream(std::shared_ptr<timelines> clock)
      : clock_(std::move(clock)), stream_(clock_->device().shared_from_this()), ref_(stream_.ref()) {
    clock_->adopt(ref_);
  }
  own_stream(own_stream&&) noexcept = default;
  own_stream& operator=(own_stream&&) = delete;
  ~own_stream() {
    if (!stream_.empty()) {
      clock_->forget(std::move(stream_), ref_);
    }
  }

  [[nodiscard]] stream_ref ref() const noexcept { return ref_; }
  [[nodiscard]] bool empty() const noexcept { return stream_.empty(); }
  /// For a forked child: the stream belongs to the parent, and the registry may be locked for ever.
  void abandon() noexcept {
    static_cast<void>(stream_.release());
    static_cast<void>(new (std::nothrow) std::shared_ptr<timelines>(clock_)); // never destroyed
  }

private:
  std::shared_ptr<timelines> clock_;
  stream stream_;
  stream_ref ref_; ///< read once, because a lost device returns no ids any more
};

} // namespace saeta
