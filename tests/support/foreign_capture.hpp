// A graph capture by another library on a stream of a simulated device, which is not announced to Saeta.
//
// State     Tells whether the capture was invalidated by a call of another owner.
// Order     If `calls` is not 0, the capture begins after that many backend calls, inside of an operation.
// Thread    One.
#pragma once

#include "saeta/backend/sim/sim.hpp"
#include "saeta/device/stream.hpp"

#include <memory>

namespace saeta::testing {

class foreign_capture {
public:
  explicit foreign_capture(const std::shared_ptr<sim::device>& on, unsigned calls = 0)
      : device_(on), stream_(on->create_stream()) {
    if (calls == 0) {
      device_->begin_capture(stream_);
    } else {
      device_->begin_capture_after(stream_, calls);
    }
  }
  foreign_capture(const foreign_capture&) = delete;
  foreign_capture& operator=(const foreign_capture&) = delete;
  ~foreign_capture() {
    end();
    device_->destroy_stream(stream_);
  }

  [[nodiscard]] const std::shared_ptr<sim::device>& ctx() const noexcept { return device_; }
  [[nodiscard]] bool begun() const { return device_->progress(stream_) != sim::capture_progress::none; }
  /// Returns whether another call has invalidated the capture.
  [[nodiscard]] bool was_ended() const { return device_->progress(stream_) == sim::capture_progress::ended; }
  /// Ends the capture. Returns false if another call had invalidated it.
  bool end() {
    device_->begin_capture_after(stream_, 0);
    return !begun() || device_->end_capture(stream_);
  }

private:
  std::shared_ptr<sim::device> device_;
  stream_handle stream_;
};

} // namespace saeta::testing
