#include "saeta/order/timeline.hpp"

#include "saeta/base/process.hpp"
#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"
#include "saeta/order/captures.hpp"
#include "saeta/order/timeline_table.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>

namespace saeta {
namespace {

/// Events kept per timeline. Beyond that the oldest is dropped, and the next event covers its epoch.
constexpr std::size_t most_closed = 16;
/// Unused events that are kept for reuse.
constexpr std::size_t most_free_events = 256;
/// From this number of streams on, the timelines of idle streams are retired.
constexpr std::size_t many_streams = 64;

struct identity_hash {
  std::size_t operator()(const stream_identity& of) const noexcept {
    return static_cast<std::size_t>((of.stream + of.backend) * std::uint64_t{0x9E3779B97F4A7C15} >> 16);
  }
};

/// The timelines that this thread has used last.
struct recently_used {
  stream_identity who;
  timeline* slot = nullptr; ///< null: the entry is empty
  timeline_id id = timeline_id::none;
};
constexpr std::size_t recent_count = 8;
thread_local constinit std::array<recently_used, recent_count> recent{};

recently_used& recent_place(const stream_identity& who) noexcept {
  return recent[(who.backend * 5 + who.stream) % recent_count];
}

/// Returns null if this thread does not know the stream or the timeline was retired.
const recently_used* find_recent(const stream_identity& who) noexcept {
  const recently_used& known = recent_place(who);
  return known.who == who && known.slot != nullptr && known.slot->is(known.id) ? &known : nullptr;
}

/// The registries of the process.
struct all_registries {
  std::mutex mutex;
  std::unordered_map<std::uint64_t, std::weak_ptr<timelines>> by_backend;
  std::vector<timelines*> orphans; ///< registries that are no longer shared and had unfinished work

  static all_registries& instance() {
    static constinit per_process<all_registries> all;
    return all.get();
  }
};

} // namespace

struct SAETA_LOCAL timelines::streams {
  mutable std::mutex mutex; ///< taken before the mutex of a timeline
  std::unordered_map<stream_identity, timeline*, identity_hash> known;
  /// the number of streams from which on idle ones are retired
  std::atomic<std::size_t> threshold{many_streams};
};

template <class Record>
std::optional<std::uint64_t> timeline::close(const Record& record) {
  // Everything that may fail comes before the event, so that an event is never lost.
  closed.reserve(most_closed);
  // One query for half of the events. If that half has not passed, the oldest event is dropped.
  if (closed.size() == most_closed && !ask(closed[most_closed / 2].epoch)) {
    home->put_back(std::move(closed.front().end));
    closed.erase(closed.begin());
  }
  std::shared_ptr<event> end = home->take_event();
  // The epoch ends before the event is recorded. A thread that has read the old epoch has already queued its
  // work, so the event covers it.
  const std::uint64_t epoch = open.fetch_add(1);
  if (!record(*end)) {
    home->put_back(std::move(end));
    return std::nullopt;
  }
  home->recorded_.fetch_add(1, std::memory_order_relaxed);
  closed.push_back({epoch, std::move(end)});
  return epoch;
}

std::uint64_t timeline::close_on(stream_ref on) {
  return *close([&](const event& end) {
    end.ref().record(on);
    return true;
  });
}

void timeline::end_stream() {
  const std::uint64_t last = open.fetch_add(1);
  if (stream->idle()) {
    set_passed(last);
  } else {
    close_on(*stream);
  }
  ours = false;
}

std::shared_ptr<event> timeline::end_of(std::uint64_t epoch) {
  if (passed.load(std::memory_order_relaxed) >= epoch) {
    return nullptr;
  }
  if (closed.empty() || closed.back().epoch < epoch) {
    close_on(stream.value());
  }
  return find_closed(epoch)->end;
}

std::vector<timeline::closed_epoch>::iterator timeline::find_closed(std::uint64_t epoch) {
  return std::ranges::lower_bound(closed, epoch, {}, &closed_epoch::epoch);
}

bool timeline::ask(std::uint64_t epoch) {
  if (passed.load(std::memory_order_relaxed) >= epoch) {
    return true;
  }
  const auto covering = find_closed(epoch); // if it has passed, so have the earlier events
  if (covering == closed.end() || !covering->end->ref().complete()) {
    return false;
  }
  set_passed(covering->epoch);
  return true;
}

void timeline::set_passed(std::uint64_t epoch) noexcept {
  const auto later = std::find_if(closed.begin(), closed.end(), [&](const closed_epoch& closed_epoch) {
    return closed_epoch.epoch > epoch;
  });
  for (auto passed_epoch = closed.begin(); passed_epoch != later; ++passed_epoch) {
    home->put_back(std::move(passed_epoch->end));
  }
  closed.erase(closed.begin(), later);
  if (passed.load(std::memory_order_relaxed) < epoch) {
    passed.store(epoch, std::memory_order_release);
  }
}

std::shared_ptr<timelines> timelines::of(backend& device) {
  all_registries& all = all_registries::instance();
  {
    const std::lock_guard lock(all.mutex);
    const auto known = all.by_backend.find(device.serial());
    if (known != all.by_backend.end()) {
      if (auto shared = known->second.lock()) {
        return shared;
      }
    }
  }
  collect_orphans();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.by_backend, [](const auto& each) { return each.second.expired(); });
  std::weak_ptr<timelines>& place = all.by_backend[device.serial()];
  if (auto shared = place.lock()) {
    return shared; // another thread was faster
  }
  all.orphans.reserve(all.orphans.size() + all.by_backend.size()); // so that `abandon` never fails
  std::shared_ptr<timelines> result(new timelines(device.shared_from_this()), abandon);
  place = result;
  return result;
}

std::size_t timelines::collect_orphans() {
  all_registries& all = all_registries::instance();
  std::vector<std::unique_ptr<timelines>> finished; // destroyed after the lock
  const std::lock_guard lock(all.mutex);
  const auto gone = std::partition(all.orphans.begin(), all.orphans.end(),
                                   [](timelines* timelines) { return timelines->retire_idle() != 0; });
  finished.reserve(static_cast<std::size_t>(all.orphans.end() - gone));
  std::for_each(gone, all.orphans.end(), [&](timelines* timelines) { finished.emplace_back(timelines); });
  all.orphans.erase(gone, all.orphans.end());
  return all.orphans.size();
}

/// Other objects may still hold points of it, so it stays until all its work has finished.
void timelines::abandon(timelines* last) noexcept {
  std::unique_ptr<timelines> finished(last);
  if (last->retire_idle() != 0) {
    all_registries& all = all_registries::instance();
    const std::lock_guard lock(all.mutex);
    try {
      all.orphans.push_back(last);
    } catch (...) {
      report_current_exception("timelines: those of a device are kept to the end of the process");
    }
    static_cast<void>(finished.release());
  }
}

timelines::timelines(std::shared_ptr<backend> device)
    : device_(std::move(device)), captures_(std::make_shared<captures>(device_)),
      streams_(std::make_unique<streams>()), everything_(&timeline_table::instance().take()) {
  everything_->home = this;
  everything_->stream.reset();
}

/// All streams were retired before (`abandon`, `collect_orphans`).
timelines::~timelines() {
  const std::lock_guard hold(everything_->mutex);
  retire(*everything_);
}

/// The caller holds its lock.
void timelines::retire(timeline& gone) noexcept {
  gone.forgotten.reset();
  timeline_table::instance().retire(gone);
}

/// The caller holds its lock. A stream of ours counts as pending until it is forgotten.
bool timelines::has_pending(timeline& queried) noexcept {
  try {
    if (queried.forgotten && queried.ours) {
      queried.end_stream();
    }
    return queried.ours || (!queried.closed.empty() && !queried.ask(queried.closed.back().epoch));
  } catch (...) {
    report_current_exception("timelines");
    return true;
  }
}

std::size_t timelines::size() const {
  const std::lock_guard lock(streams_->mutex);
  return streams_->known.size();
}

std::size_t timelines::retire_idle() noexcept {
  const std::lock_guard lock(streams_->mutex);
  return retire_idle_locked();
}

std::size_t timelines::retire_idle_locked() noexcept {
  std::erase_if(streams_->known, [](const auto& each) {
    const std::lock_guard hold(each.second->mutex);
    const bool idle = !has_pending(*each.second);
    if (idle) {
      retire(*each.second);
    }
    return idle;
  });
  const std::lock_guard hold(everything_->mutex);
  return streams_->known.size() + (has_pending(*everything_) ? 1 : 0);
}

timelines::found timelines::find_or_add(stream_ref stream) {
  const stream_identity who = stream.identity();
  if (const auto* const known = find_recent(who)) {
    return {known->slot, known->id};
  }
  if (stream.made_in_capture()) {
    throw error(errc::invalid_argument,
                "a stream that captures a graph has no timeline: its work does not run");
  }
  const std::shared_ptr<timelines> home = of(stream.owner());
  const std::lock_guard lock(home->streams_->mutex);
  timeline& slot = home->at(who, stream);
  const timeline_id id = slot.id;
  recent_place(who) = {who, &slot, id};
  return {&slot, id};
}

/// The caller holds the lock of the streams.
timeline& timelines::at(const stream_identity& who, stream_ref stream) {
  auto& known = streams_->known;
  if (const auto before = known.find(who); before != known.end()) {
    return *before->second;
  }
  if (known.size() >= streams_->threshold) {
    streams_->threshold = std::max(many_streams, 2 * retire_idle_locked());
  }
  const auto place = known.try_emplace(who, nullptr).first;
  try {
    place->second = &timeline_table::instance().take();
  } catch (...) {
    known.erase(place);
    throw;
  }
  const std::lock_guard lock(place->second->mutex);
  place->second->home = this;
  place->second->stream = stream;
  return *place->second;
}

void timelines::adopt(stream_ref own) {
  // otherwise another thread could see the stream idle and retire it before it is ours
  const std::lock_guard lock(streams_->mutex);
  at(own.identity(), own).ours = true;
}

void timelines::forget(stream own, stream_ref adopted) noexcept {
  const std::lock_guard lock(streams_->mutex);
  const auto known = streams_->known.find(adopted.identity());
  if (known == streams_->known.end()) {
    return;
  }
  timeline& gone = *known->second;
  const std::lock_guard hold(gone.mutex);
  const auto keep = [&] {
    report_current_exception("timelines: a stream stays until the end of its work can be recorded");
    gone.forgotten.emplace(std::move(own));
  };
  try {
    gone.end_stream();
  } catch (const error& failure) {
    if (failure.code() != errc::device_lost) {
      return keep();
    }
    gone.set_passed(gone.open); // a lost device runs nothing any more
    gone.ours = false;
  } catch (...) {
    keep();
  }
}

std::optional<point> timelines::mark_device() {
  if (device_->device().kind == device_kind::cpu) {
    return point{};
  }
  const auto none_begins = captures_->hold_off();
  if (captures_->active()) {
    return std::nullopt;
  }
  const std::lock_guard lock(everything_->mutex);
  const auto epoch = everything_->close([this](const event& end) {
    return device_->record_context(end.ref().native_handle()) == fence_outcome::recorded;
  });
  return epoch ? std::optional(point{everything_->id, *epoch}) : std::nullopt;
}

std::shared_ptr<event> timelines::take_event() {
  {
    const std::lock_guard lock(events_mutex_);
    if (!free_events_.empty()) {
      auto reused = std::move(free_events_.back());
      free_events_.pop_back();
      return reused;
    }
  }
  return std::make_shared<event>(device_);
}

void timelines::put_back(std::shared_ptr<event> unused) noexcept {
  if (unused.use_count() != 1) {
    return; // a thread that is about to wait for the event holds it, and destroys it later
  }
  try {
    const std::lock_guard lock(events_mutex_);
    if (free_events_.size() < most_free_events) {
      free_events_.push_back(std::move(unused));
    }
  } catch (...) {
    report_current_exception("timelines: an event is destroyed instead of kept");
  }
}

timeline_id timeline_of(const stream_ref& stream) {
  const auto* const known = find_recent(stream.identity());
  return known != nullptr ? known->id : timelines::find_or_add(stream).id;
}

bool is_ours(stream_ref stream) {
  if (stream.made_in_capture()) {
    return false;
  }
  const timelines::found known = timelines::find_or_add(stream);
  return known.slot->ours.load(std::memory_order_acquire) && known.slot->is(known.id);
}

std::uint64_t stream_id_of(timeline_id id) noexcept {
  timeline* const queried = timeline_table::instance().find(id);
  if (queried == nullptr) {
    return 0;
  }
  const std::lock_guard lock(queried->mutex);
  return queried->is(id) && queried->stream ? queried->stream->id() : 0;
}

point mark(stream_ref stream) {
  if (is_immediate(stream)) {
    return {};
  }
  const timelines::found on = timelines::find_or_add(stream);
  if (on.slot->ours.load(std::memory_order_acquire)) {
    const point here{on.id, on.slot->open.load()};
    if (on.slot->is(on.id)) { // otherwise it was retired meanwhile, and the slot belongs to another stream
      return here;
    }
  }
  return record(stream);
}

point record(stream_ref stream) {
  if (is_immediate(stream)) {
    return {};
  }
  if (!stream.usable_here()) {
    throw error(errc::invalid_argument, concat("the per-thread default stream of another thread of ",
                                               to_string(stream.owner().device()), " can't be marked"));
  }
  std::shared_ptr<timelines> kept;
  for (;;) {
    const timelines::found on = timelines::find_or_add(stream);
    {
      const std::lock_guard lock(on.slot->mutex);
      if (on.slot->is(on.id)) {
        return {on.id, on.slot->close_on(stream)};
      }
    }
    // The timeline was retired meanwhile, and the stream gets another one. This keeps the registry alive if
    // nothing else does.
    kept = timelines::of(stream.owner());
  }
}

namespace {

/// The event that covers the point; null if the point has passed.
std::shared_ptr<event> end_of(point awaited) {
  timeline* const on = timeline_table::instance().find(awaited.timeline);
  if (on == nullptr || on->passed.load(std::memory_order_acquire) >= awaited.epoch) {
    return nullptr;
  }
  const std::lock_guard lock(on->mutex);
  return on->is(awaited.timeline) ? on->end_of(awaited.epoch) : nullptr;
}

} // namespace

void wait(stream_ref stream, point awaited) {
  if (awaited.empty()) {
    return;
  }
  if (is_immediate(stream)) {
    synchronize(awaited); // later work of the stream runs on the calling thread
    return;
  }
  if (timeline_of(stream) == awaited.timeline) {
    return;
  }
  if (const std::shared_ptr<event> end = end_of(awaited)) {
    stream.wait(end->ref());
  }
}

void wait(stream_ref stream, const point_set& awaited) {
  for (const point& point : awaited.all()) {
    wait(stream, point);
  }
}

bool has_epoch_ended(point queried) noexcept {
  const timeline* const on = timeline_table::instance().find(queried.timeline);
  return on == nullptr || queried.epoch < on->open.load();
}

bool has_passed(point queried) {
  timeline* const on = timeline_table::instance().find(queried.timeline);
  if (on == nullptr || on->passed.load(std::memory_order_acquire) >= queried.epoch) {
    return true;
  }
  const std::lock_guard lock(on->mutex);
  if (!on->is(queried.timeline)) {
    return true;
  }
  static_cast<void>(
      on->end_of(queried.epoch)); // dropped at once, because an event that is still held is not reused
  return on->ask(queried.epoch);
}

bool is_known_passed(point queried) noexcept {
  try {
    return has_passed(queried);
  } catch (...) {
    return false; // the caller asks again if it needs the answer
  }
}

bool drop_passed(point_set& points) {
  points.remove_if([](const point& point) { return has_passed(point); });
  return points.empty();
}

void synchronize(point awaited) {
  std::shared_ptr<event> end = end_of(awaited);
  if (end == nullptr) {
    return;
  }
  end->ref().synchronize();
  end.reset(); // otherwise `set_passed` could not keep it for reuse
  timeline* const on = timeline_table::instance().find(awaited.timeline);
  if (on != nullptr) {
    const std::lock_guard lock(on->mutex);
    if (on->is(awaited.timeline)) {
      on->set_passed(awaited.epoch);
    }
  }
}

} // namespace saeta
