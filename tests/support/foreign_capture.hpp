// A graph that another library captures on a stream of a simulated device, and that nobody has announced.
//
// What      Says whether somebody has ended the capture, which nobody but its owner may do.
// Order     With `calls`, the capture begins inside of an operation, after that many calls of the contract.
// Thread    That of the program.
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
  /// True when somebody else has ended it.
  [[nodiscard]] bool was_ended() const { return device_->progress(stream_) == sim::capture_progress::ended; }
  /// False when somebody else has ended it before.
  bool end() {
    device_->begin_capture_after(stream_, 0);
    return !begun() || device_->end_capture(stream_);
  }

private:
  std::shared_ptr<sim::device> device_;
  stream_handle stream_;
};

} // namespace saeta::testing
