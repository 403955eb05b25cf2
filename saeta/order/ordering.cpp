#include "saeta/order/ordering.hpp"

#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"

#include <algorithm>

namespace saeta {

std::uint32_t ordering_state::acquire(access mode, requirement& into, std::string_view name) {
  locked lock = lock_out(mode, name);
  try {
    into.points.add(writes_.points.all());
    if (mode != access::read) {
      into.points.add(reads_.all());
      // The user's stream will wait for all of these, so the point of this use replaces them. Points that are
      // added meanwhile stay.
      writes_.points.clear();
      reads_.clear();
    } else {
      while (reads_.size() >= max_reads) { // this use will cover the oldest reader, too
        into.points.add(reads_.all().front());
        reads_.pop_front();
      }
    }
    into.unknown = into.unknown || has_unknown_for(mode);
    return changes_;
  } catch (...) {
    unlock_use(std::move(lock), mode, std::this_thread::get_id());
    throw;
  }
}

void ordering_state::end(access mode, std::thread::id holder, point done) noexcept {
  locked lock(lock_);
  if (!done.empty()) {
    note(mode, {&done, 1});
  }
  unlock_use(std::move(lock), mode, holder);
}

void ordering_state::end_unknown(access mode, std::thread::id holder) noexcept {
  locked lock(lock_);
  set_unknown(mode);
  unlock_use(std::move(lock), mode, holder);
}

void ordering_state::give_up(access mode, const requirement& waited) noexcept {
  locked lock(lock_);
  note(mode, waited.points.all());
  unlock_use(std::move(lock), mode, std::this_thread::get_id());
}

void ordering_state::add_write(point done) {
  const std::lock_guard lock(lock_);
  writes_.points.add(done);
}

void ordering_state::begin_export(access mode) noexcept {
  const std::lock_guard lock(lock_);
  ++(mode == access::read ? reading_views_ : writing_views_);
}

void ordering_state::end_export(access mode) noexcept {
  const std::lock_guard lock(lock_);
  set_unknown(mode);
  --(mode == access::read ? reading_views_ : writing_views_);
}

void ordering_state::end_export(access mode, const point_set& last) noexcept {
  const std::lock_guard lock(lock_);
  note(mode, last.all());
  --(mode == access::read ? reading_views_ : writing_views_);
}

handover ordering_state::find_dependencies(access mode, std::string_view name) {
  locked lock = lock_out(access::read, name);
  handover handover;
  try {
    handover.seen = changes_;
    handover.unknown = has_unknown_for(mode);
    handover.points.add(writes_.points.all());
    if (mode != access::read) {
      handover.points.add(reads_.all());
    }
  } catch (...) {
    unlock_use(std::move(lock), access::read, std::this_thread::get_id());
    throw;
  }
  unlock_use(std::move(lock), access::read, std::this_thread::get_id());
  return handover;
}

void ordering_state::gather() noexcept {
  writes_.unknown = has_unknown_for(access::write);
  try {
    writes_.points.add(reads_.all());
  } catch (...) {
    report_current_exception("ordering_state");
    writes_.unknown = true; // covers the points that could not be added
  }
}

void ordering_state::settle(access mode, const point_set& everything, std::uint32_t seen) {
  const std::lock_guard lock(lock_);
  writes_.points.add(everything.all());
  if (changes_ == seen) { // otherwise more work became unknown, maybe after those points were taken
    writes_.unknown = false;
    unknown_reads_ = unknown_reads_ && mode == access::read;
  }
}

ordering_state::locked ordering_state::lock_out(access mode, std::string_view name) {
  const auto self = std::this_thread::get_id();
  for (;;) {
    locked lock(lock_);
    if (mode == access::read && readers_.empty() && writer_ == std::thread::id{}) {
      readers_.push_back(self);
      return lock;
    }
    const bool reading = std::find(readers_.begin(), readers_.end(), self) != readers_.end();
    if (writer_ == self || (reading && mode != access::read)) {
      throw error(errc::busy,
                  concat("buffer '", name, "' is already in use by an open token of this thread; ",
                         "name all buffers of a step in one token"));
    }
    const bool free = writer_ == std::thread::id{} && (mode == access::read || readers_.empty());
    if (free && mode == access::read) {
      readers_.push_back(self);
    } else if (free) {
      writer_ = self;
    }
    if (free) {
      return lock;
    }
    const int seen = uses_ended_.load();
    awaited_ = true;
    lock.unlock();
    uses_ended_.wait(seen);
  }
}

void ordering_state::unlock_use(locked lock, access mode, std::thread::id holder) noexcept {
  if (mode == access::read) {
    readers_.erase(std::find(readers_.begin(), readers_.end(), holder));
  } else {
    writer_ = {};
  }
  if (!awaited_) { // as almost always: a token over thousands of storages ends each of these uses
    return;
  }
  awaited_ = false;
  ++uses_ended_;
  lock.unlock();
  uses_ended_.notify_all();
}

bool ordering_state::has_unknown_for(access mode) const noexcept {
  const bool written = writes_.unknown || writing_views_ > 0;
  return written || (mode != access::read && (unknown_reads_ || reading_views_ > 0));
}

void ordering_state::note(access mode, std::span<const point> last) noexcept {
  try {
    (mode == access::read ? reads_ : writes_.points).add(last);
  } catch (...) {
    report_current_exception("ordering_state");
    set_unknown(mode); // covers the points that could not be noted
  }
}

void ordering_state::set_unknown(access mode) noexcept {
  (mode == access::read ? unknown_reads_ : writes_.unknown) = true;
  ++changes_;
}

} // namespace saeta
