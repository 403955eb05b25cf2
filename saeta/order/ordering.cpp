#include "saeta/order/ordering.hpp"

#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"

#include <algorithm>

namespace saeta {

std::uint32_t ordering_state::acquire(access mode, requirement& into, std::string_view name) {
  std::unique_lock lock(mutex_);
  lock_out(lock, mode, name);
  try {
    into.points.add(writes_.all());
    if (mode != access::read) {
      into.points.add(reads_.all());
      // The user's stream will stand behind them all, so the point of this use replaces them. What is added meanwhile stays.
      writes_.clear();
      reads_.clear();
    } else {
      while (reads_.size() >= max_reads) { // this use will cover the oldest reader, too
        into.points.add(reads_.all().front());
        reads_.pop_front();
      }
    }
    into.unknown = into.unknown || unknown_to(mode);
    return changes_;
  } catch (...) {
    unlock_use(mode, std::this_thread::get_id());
    throw;
  }
}

void ordering_state::end(access mode, std::thread::id holder, point done) noexcept {
  const std::lock_guard lock(mutex_);
  if (!done.empty()) {
    note(mode, {&done, 1});
  }
  unlock_use(mode, holder);
}

void ordering_state::end_unknown(access mode, std::thread::id holder) noexcept {
  const std::lock_guard lock(mutex_);
  set_unknown(mode);
  unlock_use(mode, holder);
}

void ordering_state::give_up(access mode, const requirement& waited) noexcept {
  const std::lock_guard lock(mutex_);
  note(mode, waited.points.all());
  unlock_use(mode, std::this_thread::get_id());
}

void ordering_state::add_write(point done) {
  const std::lock_guard lock(mutex_);
  writes_.add(done);
}

void ordering_state::begin_export(access mode) noexcept {
  const std::lock_guard lock(mutex_);
  ++(mode == access::read ? reading_views_ : writing_views_);
}

void ordering_state::end_export(access mode) noexcept {
  const std::lock_guard lock(mutex_);
  set_unknown(mode);
  --(mode == access::read ? reading_views_ : writing_views_);
}

void ordering_state::end_export(access mode, const point_set& last) noexcept {
  const std::lock_guard lock(mutex_);
  note(mode, last.all());
  --(mode == access::read ? reading_views_ : writing_views_);
}

handover ordering_state::needs(access mode, std::string_view name) {
  std::unique_lock lock(mutex_);
  lock_out(lock, access::read, name);
  unlock_use(access::read, std::this_thread::get_id());
  handover found;
  found.seen = changes_;
  found.unknown = unknown_to(mode);
  found.points.add(writes_.all());
  if (mode != access::read) {
    found.points.add(reads_.all());
  }
  return found;
}

requirement ordering_state::take_all() noexcept {
  const std::lock_guard lock(mutex_);
  requirement all;
  all.unknown = unknown_to(access::write);
  all.points = std::move(writes_);
  try {
    all.points.add(reads_.all());
  } catch (...) {
    report_current_exception("ordering_state");
    all.unknown = true; // which covers what could not be added
  }
  return all;
}

void ordering_state::settle(access mode, const point_set& everything, std::uint32_t seen) {
  const std::lock_guard lock(mutex_);
  writes_.add(everything.all());
  if (changes_ == seen) { // else somebody has gone since, maybe after that point
    unknown_writes_ = false;
    unknown_reads_ = unknown_reads_ && mode == access::read;
  }
}

void ordering_state::lock_out(std::unique_lock<std::mutex>& lock, access mode, std::string_view name) {
  const auto self = std::this_thread::get_id();
  const bool reading = std::find(readers_.begin(), readers_.end(), self) != readers_.end();
  if (writer_ == self || (reading && mode != access::read)) {
    throw error(errc::busy, concat("buffer '", name, "' is already in use by an open token of this thread; ",
                                   "name all buffers of a step in one token"));
  }
  if (mode == access::read) {
    changed_.wait(lock, [&] { return writer_ == std::thread::id{}; });
    readers_.push_back(self);
  } else {
    changed_.wait(lock, [&] { return writer_ == std::thread::id{} && readers_.empty(); });
    writer_ = self;
  }
}

void ordering_state::unlock_use(access mode, std::thread::id holder) noexcept {
  if (mode == access::read) {
    readers_.erase(std::find(readers_.begin(), readers_.end(), holder));
  } else {
    writer_ = {};
  }
  changed_.notify_all();
}

bool ordering_state::unknown_to(access mode) const noexcept {
  const bool written = unknown_writes_ || writing_views_ > 0;
  return written || (mode != access::read && (unknown_reads_ || reading_views_ > 0));
}

void ordering_state::note(access mode, std::span<const point> last) noexcept {
  try {
    (mode == access::read ? reads_ : writes_).add(last);
  } catch (...) {
    report_current_exception("ordering_state");
    set_unknown(mode); // which covers what could not be noted
  }
}

void ordering_state::set_unknown(access mode) noexcept {
  (mode == access::read ? unknown_reads_ : unknown_writes_) = true;
  ++changes_;
}

} // namespace saeta
