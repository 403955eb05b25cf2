// A stream of the staging ring.
//
// What      A stream of its own, made on first use and kept, or the work stream of the context. The latter
//           needs no events, and takes movements of one chunk.
// Owner     The staging ring. Each lane refers to the stream that its chunks travel on (staging_lane.hpp).
// Thread    The first `begin`: not concurrently with any other call. The rest: any.
#pragma once

#include "saeta/memory/context.hpp"

#include <optional>

namespace saeta {

class SAETA_LOCAL lane_stream {
public:
  enum class kind { own, work };

  lane_stream(context& ctx, kind of) : ctx_(ctx), kind_(of) {}

  /// Makes later work on this stream wait for `before`. Must be called before the other functions.
  void begin(point before) {
    if (kind_ == kind::own && !made_) {
      made_.emplace(ctx_.clocks());
    }
    wait(ref(), before);
  }
  /// The point after all work queued so far. On a stream of its own it covers nothing else.
  [[nodiscard]] point done() const { return kind_ == kind::own ? record(ref()) : mark(ref()); }
  [[nodiscard]] stream_ref ref() const { return kind_ == kind::own ? made_->ref() : ctx_.work_stream(); }

private:
  context& ctx_;
  kind kind_;
  std::optional<own_stream> made_;
};

} // namespace saeta
