// A stream for each thread of a measurement, as Saeta's `stream` and as the driver's handle.
//
// Owner     This object. The streams live until the program ends, because some peers remember streams by
//           their handles. Saeta tracks them like the streams that a context leases.
#pragma once

#include "saeta/order/timeline.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace saeta::bench {

struct thread_stream {
  stream_ref ours;
  stream_handle handle; ///< the same stream as the driver's handle, for other libraries
};

class thread_streams {
public:
  thread_streams(std::shared_ptr<backend> device, std::size_t threads)
      : device_(std::move(device)), clocks_(timelines::of(*device_)) {
    for (std::size_t t = 0; t < threads; ++t) {
      const stream_handle made = device_->create_stream();
      streams_.push_back({stream_ref(*device_, made), made});
      clocks_->adopt(streams_.back().ours);
    }
  }
  thread_streams(const thread_streams&) = delete;
  thread_streams& operator=(const thread_streams&) = delete;
  ~thread_streams() {
    for (const thread_stream& each : streams_) {
      clocks_->forget(stream::from_native_handle(device_, each.handle), each.ours);
    }
  }

  [[nodiscard]] const std::shared_ptr<backend>& device() const noexcept { return device_; }
  [[nodiscard]] const thread_stream& operator[](std::size_t thread) const { return streams_.at(thread); }
  void synchronize() const {
    for (const thread_stream& each : streams_) {
      device_->synchronize_stream(each.handle);
    }
  }

private:
  std::shared_ptr<backend> device_;
  std::shared_ptr<timelines> clocks_;
  std::vector<thread_stream> streams_;
};

} // namespace saeta::bench
