#include "saeta/memory/stream_pool.hpp"

#include "saeta/base/error.hpp"
#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"

namespace saeta {

stream_lease stream_pool::borrow(std::shared_ptr<void> keeps) {
  const std::lock_guard lock(mutex_);
  if (lent_ >= most_) {
    throw error(errc::busy, concat("all ", most_, " streams of ", to_string(clocks_->device().device()),
                                   " are borrowed"));
  }
  own_stream lent = [&] {
    if (idle_.empty()) {
      return own_stream(clocks_);
    }
    own_stream reused = std::move(idle_.back());
    idle_.pop_back();
    return reused;
  }();
  ++lent_;
  return {*this, std::move(keeps), std::move(lent)};
}

void stream_pool::take_back(own_stream lent) noexcept {
  const std::lock_guard lock(mutex_);
  --lent_;
  try {
    idle_.push_back(std::move(lent));
  } catch (...) {
    report_current_exception("stream_pool"); // the stream is destroyed; its work still finishes
  }
}

stream_lease::~stream_lease() {
  if (stream_.empty()) {
    return;
  }
  if (made_in_ != fork_generation()) {
    stream_.abandon(); // it belongs to the parent process
    return;
  }
  from_->take_back(std::move(stream_));
}

} // namespace saeta
