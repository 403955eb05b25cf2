#include "saeta/staging/staging_lane.hpp"

#include "saeta/base/report.hpp"
#include "saeta/observe/read_clock.hpp"
#include "saeta/staging/lane_words.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

namespace saeta {

staging_lane::staging_lane(context& ctx, std::size_t chunk_bytes, std::size_t chunks, std::uint32_t* words,
                           lane_stream& by)
    : ctx_(ctx), chunk_bytes_(chunk_bytes), most_(chunks), chunks_(chunks), words_(words), stream_(&by) {}

staging_lane::~staging_lane() {
  for (chunk& c : made_chunks()) {
    try {
      if (!arrived(c)) {
        synchronize(stream_->done());
      }
    } catch (...) {
      report_current_exception("staging_lane");
    }
    if (!ctx_.pinned().deallocate(c.memory, stream())) {
      report("staging_lane", "a pinned chunk could not be freed");
    }
  }
}

staging_lane::chunk& staging_lane::next() {
  chunk* free = find_free();
  if (free == nullptr) {
    free = make_chunk();
  }
  chunk& next = free != nullptr ? *free : oldest();
  land(next);
  next.taken = ++taken_;
  return next;
}

void staging_lane::mark(chunk& which) {
  stream().owner().write_word(which.word, which.marks + 1, stream().native_handle());
  ++which.marks;
}

bool staging_lane::arrived(const chunk& which) noexcept {
  return std::atomic_ref(*which.word).load(std::memory_order_acquire) == which.marks;
}

bool staging_lane::all_arrived() const noexcept { return std::ranges::all_of(made_chunks(), arrived); }

bool staging_lane::prepare() {
  try {
    return has_chunks() || make_chunk() != nullptr;
  } catch (const error& refused) {
    if (is_lack_of_room(refused.code())) {
      return false;
    }
    throw;
  }
}

staging_lane::chunk* staging_lane::find_free() {
  chunk* latest = nullptr;
  for (chunk& c : made_chunks()) {
    if ((latest == nullptr || c.taken > latest->taken) && arrived(c)) {
      latest = &c;
    }
  }
  return latest;
}

staging_lane::chunk* staging_lane::make_chunk() {
  if (made_ == most_) {
    return nullptr;
  }
  try {
    chunk& next = chunks_[made_];
    next.memory = ctx_.pinned().allocate({chunk_bytes_, 0, tag("staging"), nullptr, nullptr}, stream());
    next.word = words_ + made_ * lane_words::stride;
    ++made_;
    return &next;
  } catch (const error& refused) {
    if (!is_lack_of_room(refused.code()) || !has_chunks()) {
      throw;
    }
    most_ = made_;
    return nullptr;
  }
}

staging_lane::chunk& staging_lane::oldest() {
  return *std::ranges::min_element(made_chunks(), {}, &chunk::taken);
}

void staging_lane::land_all() {
  for (chunk& c : made_chunks()) {
    // Other chunks may still be in flight, and a drained link idles until the next movement.
    if (c.landing.bytes != 0) {
      land(c);
    }
  }
}

void staging_lane::abandon() noexcept {
  for (chunk& c : made_chunks()) {
    c.landing = {};
  }
}

void staging_lane::await(const chunk& which) {
  using clock = std::chrono::steady_clock;
  constexpr std::chrono::microseconds most_spinning{300};
  if (arrived(which)) {
    return;
  }
  const timed_part timed(read_part::link);
  const auto spin_until = clock::now() + most_spinning;
  while (!arrived(which)) {
    if (clock::now() >= spin_until) {
      return synchronize(stream_->done());
    }
    std::this_thread::yield();
  }
}

void staging_lane::land(chunk& which) {
  await(which);
  if (which.landing.bytes != 0) {
    std::memcpy(which.landing.target, which.memory.pointer, which.landing.bytes);
    which.landing = {};
  }
}

} // namespace saeta
