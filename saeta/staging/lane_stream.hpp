// A stream of the staging ring.
//
// Owner     The staging ring. Each lane refers to the stream that its chunks travel on (staging_lane.hpp).
//           The stream is made on first use and kept.
// Thread    The first `begin`: not concurrently with any other call. The rest: any.
#pragma once

#include "saeta/memory/context.hpp"

#include <optional>

namespace saeta {

class lane_stream {
public:
  explicit lane_stream(context& ctx) : ctx_(ctx) {}

  /// Makes later work on this stream wait for `before`. Must be called before the other functions.
  void begin(point before) {
    if (!made_) {
      made_.emplace(ctx_.clocks());
    }
    wait(ref(), before);
  }
  /// The point after all work queued so far, and nothing else.
  [[nodiscard]] point done() const { return record(ref()); }
  [[nodiscard]] stream_ref ref() const { return made_->ref(); }

private:
  context& ctx_;
  std::optional<own_stream> made_;
};

} // namespace saeta
