// A stream of the staging ring.
//
// Owner     The staging ring; lanes name the one that their chunks travel on (staging_lane.hpp). Made on first use and kept.
// Thread    `begin` not beside anything else; the rest any.
#pragma once

#include "saeta/memory/context.hpp"

#include <optional>

namespace saeta {

class lane_stream {
public:
  explicit lane_stream(context& ctx) : ctx_(ctx) {}

  /// Work queued later starts after `before`. To be called before the others.
  void begin(point before) {
    if (!made_) {
      made_.emplace(ctx_.clocks());
    }
    wait(ref(), before);
  }
  /// After everything queued so far, and nothing else.
  [[nodiscard]] point done() const { return record(ref()); }
  [[nodiscard]] stream_ref ref() const { return made_->ref(); }

private:
  context& ctx_;
  std::optional<own_stream> made_;
};

} // namespace saeta
