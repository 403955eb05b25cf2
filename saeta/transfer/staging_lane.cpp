#include "saeta/transfer/detail/staging_lane.hpp"

#include "saeta/base/report.hpp"

#include <cstring>

namespace saeta {

staging_lane::staging_lane(context& home, std::size_t chunk_bytes, std::size_t chunks)
    : home_(home), chunk_bytes_(chunk_bytes), chunks_(chunks) {}

staging_lane::~staging_lane() {
  for (chunk& c : chunks_) {
    try {
      synchronize(c.last_copy);
    } catch (...) {
      report_current_exception("staging_lane");
    }
    if (c.memory.base != nullptr && !home_.pinned().deallocate(c.memory, stream())) {
      report("staging_lane", "a pinned chunk could not be freed");
    }
  }
}

void staging_lane::begin(point before) {
  if (!stream_) {
    stream_.emplace(home_.clocks());
  }
  wait(stream(), before);
}

point staging_lane::done() { return record(stream()); }

stream_ref staging_lane::stream() { return stream_->ref(); }

staging_lane::chunk& staging_lane::next() {
  if (chunks_[turn_].memory.base == nullptr && !make_chunk()) {
    turn_ = 0;
  }
  chunk& taken = chunks_[turn_];
  turn_ = (turn_ + 1) % chunks_.size();
  land(taken);
  return taken;
}

bool staging_lane::make_chunk() {
  try {
    chunks_[turn_].memory =
        home_.pinned().allocate({chunk_bytes_, 0, tag("staging"), nullptr, nullptr}, stream());
    return true;
  } catch (const error& refused) {
    const bool no_room = refused.code() == errc::budget_exceeded || refused.code() == errc::out_of_memory;
    if (!no_room || turn_ == 0) {
      throw;
    }
    chunks_.resize(turn_);
    return false;
  }
}

void staging_lane::land_all() {
  for (chunk& c : chunks_) {
    land(c);
  }
}

void staging_lane::abandon() noexcept {
  for (chunk& c : chunks_) {
    c.landing = {};
  }
}

void staging_lane::land(chunk& which) {
  synchronize(which.last_copy);
  which.last_copy = {};
  if (which.landing.bytes != 0) {
    std::memcpy(which.landing.target, which.memory.pointer, which.landing.bytes);
    which.landing = {};
  }
}

} // namespace saeta
