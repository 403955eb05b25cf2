#include "saeta/order/ordering.hpp"

#include "saeta/base/text.hpp"

#include <algorithm>

namespace saeta {
namespace {

/// A later fence of a stream covers the earlier ones of the same stream.
void replace_same_stream(std::vector<fence>& fences, const fence& done) {
  std::erase_if(fences, [&](const fence& f) { return f.stream_id() == done.stream_id(); });
  fences.push_back(done);
}

} // namespace

void ordering_state::begin(access mode, stream_ref stream, std::string_view name) {
  std::unique_lock lock(mutex_);
  acquire(lock, mode, name);
  try {
    for (const fence& f : writes_) {
      f.wait(stream);
    }
    if (mode == access::read) {
      while (reads_.size() >= max_reads) { // this use will cover the oldest reader too
        reads_.front().wait(stream);
        reads_.erase(reads_.begin());
      }
      return;
    }
    for (const fence& f : reads_) {
      f.wait(stream);
    }
    // The stream now stands behind them all, so the fence of this use replaces them. What foreign consumers add
    // meanwhile stays.
    writes_.clear();
    reads_.clear();
  } catch (...) {
    give_up(mode, std::this_thread::get_id());
    throw;
  }
}

void ordering_state::end(access mode, std::thread::id holder, const fence& done) noexcept {
  const std::lock_guard lock(mutex_);
  if (!done.empty()) {
    replace_same_stream(mode == access::read ? reads_ : writes_, done);
  }
  give_up(mode, holder);
}

void ordering_state::add_read(const fence& done) {
  const std::lock_guard lock(mutex_);
  if (!done.empty()) {
    replace_same_stream(reads_, done);
  }
}

void ordering_state::add_write(const fence& done) {
  const std::lock_guard lock(mutex_);
  if (!done.empty()) {
    replace_same_stream(writes_, done);
  }
}

std::vector<fence> ordering_state::pending(access mode) const {
  const std::lock_guard lock(mutex_);
  std::vector<fence> all = writes_;
  if (mode != access::read) {
    all.insert(all.end(), reads_.begin(), reads_.end());
  }
  return all;
}

std::vector<fence> ordering_state::last_writes(std::string_view name) {
  std::unique_lock lock(mutex_);
  acquire(lock, access::read, name);
  give_up(access::read, std::this_thread::get_id());
  return writes_;
}

void ordering_state::acquire(std::unique_lock<std::mutex>& lock, access mode, std::string_view name) {
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

void ordering_state::give_up(access mode, std::thread::id holder) noexcept {
  if (mode == access::read) {
    readers_.erase(std::find(readers_.begin(), readers_.end(), holder));
  } else {
    writer_ = {};
  }
  changed_.notify_all();
}

} // namespace saeta
