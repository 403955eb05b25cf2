// Timelines: one clock for every stream.
//
//   const point written = mark(stream);   // after everything that is queued on the stream by now
//   wait(other, written);                 // later work of `other` starts after it
//
// What      Each stream has a timeline, made on its first use and found by its identity. Its epochs count the events that
//           were recorded on it. Work that is queued belongs to the open epoch; recording an event closes that epoch.
// Owner     `timelines` is the registry of one backend: contexts and resources of the backend share it, and events belong
//           to it. A timeline is retired once everything on it has finished, after its stream was forgotten or when many
//           streams came and went; its points have passed then, so that no point keeps anything alive.
// Events    Of a stream that is announced as ours (`adopt`) an event is recorded only when somebody needs its open epoch:
//           another stream, or the host. A program on one stream records none. Any other stream may be destroyed at any
//           time, so marking it records at once.
// Order     Waiting for a point of the same timeline is skipped. A stream of the host runs inline: the host waits instead.
// Thread    Any. The per-thread default stream can be marked and waited for by its own thread alone
//           (`stream_ref::usable_here`). A capturing stream has no timeline: ask `captures` first.
// Failure   error device from the driver; `mark` and `wait` change nothing then.
#pragma once

#include "saeta/device/event.hpp"
#include "saeta/order/point.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <vector>

namespace saeta {

class captures;
struct timeline;

/// A point after everything queued on the stream so far. Empty on the host, where nothing is ever pending.
[[nodiscard]] point mark(stream_ref stream);
/// As `mark`, with an event at once, so that waiting for it waits for nothing that is queued later.
[[nodiscard]] point record(stream_ref stream);
/// The timeline of the stream, on the host too.
[[nodiscard]] timeline_id timeline_of(const stream_ref& stream);
/// The id of a timeline's stream (stream_ref::id), for reports; 0 when the timeline has been retired, or is no stream's.
[[nodiscard]] std::uint64_t stream_id_of(timeline_id id) noexcept;
/// True for a stream that was announced as ours (timelines::adopt): it never captures a graph.
[[nodiscard]] bool is_ours(stream_ref stream);
/// Makes later work on the stream start after the points.
void wait(stream_ref stream, point awaited);
void wait(stream_ref stream, const point_set& awaited);
/// Whether what is queued on the point's stream from now on belongs to a later epoch, so that no point of it equals this one.
[[nodiscard]] bool epoch_has_ended(point asked) noexcept;
/// Asks the device, unless the answer is known.
[[nodiscard]] bool passed(point asked);
/// As `passed`; false also where the device can't answer.
[[nodiscard]] bool known_to_have_passed(point asked) noexcept;
/// Takes out the points that have passed; true when none is left.
bool drop_passed(point_set& points);
/// Blocks the calling thread. Not counted: contexts count through `context::synchronize`.
void synchronize(point awaited);

class timelines : public std::enable_shared_from_this<timelines> {
public:
  /// The registry of a backend, which lives as long as somebody shares it.
  static std::shared_ptr<timelines> of(backend& device);
  /// Lets go of registries that nobody shares any more and whose work had not finished when the last owner went. Making a
  /// registry does so, too; how many are left.
  static std::size_t collect_orphans();
  /// A timeline and the id that it had when it was found.
  struct found {
    timeline* slot;
    timeline_id id;
  };

  timelines(const timelines&) = delete;
  timelines& operator=(const timelines&) = delete;
  ~timelines();

  [[nodiscard]] backend& device() const noexcept { return *device_; }
  /// Says that the stream is ours: it exists until `forget`, and it never captures a graph.
  void adopt(stream_ref own);
  /// Destroys a stream of ours once an event covers what is pending on it. Where the driver fails to record one, the stream
  /// stays until it does, because memory that the stream has used still waits for it.
  void forget(stream own, stream_ref adopted) noexcept;

  /// A point after all work of the device's context, other libraries' too: on a timeline of the device itself, so that a
  /// later one covers an earlier one. Nothing while a known capture is active: reported by the driver, announced, or
  /// noted (order/captures.hpp). The driver would end any other capture.
  [[nodiscard]] std::optional<point> mark_device();
  [[nodiscard]] captures& graph_captures() noexcept { return *captures_; }

  /// Events recorded so far, those over all work of the context among them.
  [[nodiscard]] std::uint64_t events_recorded() const noexcept {
    return recorded_.load(std::memory_order_relaxed);
  }
  /// Timelines of streams that are kept now.
  [[nodiscard]] std::size_t size() const;

private:
  friend struct timeline;
  friend timeline_id timeline_of(const stream_ref& stream);
  friend point mark(stream_ref stream);
  friend point record(stream_ref stream);
  friend bool is_ours(stream_ref stream);
  struct streams; // by identity

  explicit timelines(std::shared_ptr<backend> device);
  static void abandon(timelines* last) noexcept;
  static found find_or_add(stream_ref stream);
  static void retire(timeline& gone) noexcept;
  static bool has_pending(timeline& asked) noexcept;
  /// The timeline of the stream, made on its first use.
  timeline& at(const stream_identity& who, stream_ref stream);
  /// Retires those of streams that are not ours and have nothing pending; how many are left.
  std::size_t retire_idle() noexcept;
  std::size_t retire_idle_locked() noexcept;
  std::shared_ptr<event> take_event();
  void put_back(std::shared_ptr<event> unused) noexcept;

  const std::shared_ptr<backend> device_;
  const std::shared_ptr<captures> captures_;
  const std::unique_ptr<streams> streams_;
  timeline* const everything_; ///< its epochs end with events over the whole context
  std::atomic<std::uint64_t> recorded_{0};
  std::mutex events_mutex_;
  std::vector<std::shared_ptr<event>> free_events_; ///< bounded
};

/// A stream that its owner announces as ours for as long as it lives.
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
  /// In a child of the process that made it: the stream is the parent's, and the clock may be locked for ever.
  void abandon() noexcept {
    static_cast<void>(stream_.release());
    static_cast<void>(new (std::nothrow) std::shared_ptr<timelines>(clock_)); // never destroyed
  }

private:
  std::shared_ptr<timelines> clock_;
  stream stream_;
  stream_ref ref_; ///< asked for once: a device that is lost tells no id any more
};

} // namespace saeta
