// Work that keeps a stream of the device busy while the host is timed.
#pragma once

#include "saeta/memory/context.hpp"
#include "saeta/memory/use_token.hpp"

#include <array>
#include <memory>
#include <string_view>
#include <vector>

namespace saeta::bench {

enum class load { idle, busy };

inline std::string_view to_string(load kind) { return kind == load::idle ? "idle" : "busy"; }

/// Returns the loads that can be measured. Streams of the host run inline, so they are always idle.
inline std::vector<load> loads_of(const context& ctx) {
  return ctx.on_host() ? std::vector{load::idle} : std::vector{load::idle, load::busy};
}

class stream_load {
public:
  /// @param on  the stream to keep busy; it must outlive this object
  stream_load(std::shared_ptr<context> ctx, stream_ref on, load kind)
      : ctx_(std::move(ctx)), on_(on), load_(kind) {
    if (load_ == load::busy) {
      target_ = buffer::allocate(ctx_, std::size_t{256} << 20, on_, "bench");
    }
  }
  stream_load(const stream_load&) = delete;
  stream_load& operator=(const stream_load&) = delete;
  ~stream_load() { on_.owner().synchronize_stream(on_.native_handle()); }

  /// Waits for the queued work. If the load is `busy`, queues some milliseconds of new work.
  void renew() {
    on_.owner().synchronize_stream(on_.native_handle());
    if (load_ == load::busy) {
      const use_token token(on_, {writes(target_)});
      for (std::uint8_t value = 0; value < 64; ++value) {
        ctx_->copies().fill(token.span<std::byte>(target_).data(), value, target_.size(), on_);
      }
    }
  }

private:
  std::shared_ptr<context> ctx_;
  stream_ref on_;
  load load_;
  buffer target_;
};

} // namespace saeta::bench
