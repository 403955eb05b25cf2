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

inline std::string_view to_string(load what) { return what == load::idle ? "idle" : "busy"; }

/// On the host streams run inline: none is ever busy.
inline std::vector<load> loads_of(const context& where) {
  return where.on_host() ? std::vector{load::idle} : std::vector{load::idle, load::busy};
}

class stream_load {
public:
  /// @param on  outlives this
  stream_load(std::shared_ptr<context> where, stream_ref on, load what)
      : where_(std::move(where)), on_(on), what_(what) {
    if (what_ == load::busy) {
      target_ = buffer::allocate(where_, std::size_t{256} << 20, on_, "bench");
    }
  }
  stream_load(const stream_load&) = delete;
  stream_load& operator=(const stream_load&) = delete;
  ~stream_load() { on_.owner().synchronize_stream(on_.native_handle()); }

  /// Ends what is queued, then queues milliseconds of work where that is wanted.
  void renew() {
    on_.owner().synchronize_stream(on_.native_handle());
    if (what_ == load::busy) {
      const use_token token(on_, {writes(target_)});
      for (std::uint8_t value = 0; value < 64; ++value) {
        where_->fill(token.mutable_data<std::byte>(target_), value, target_.size(), on_);
      }
    }
  }

private:
  std::shared_ptr<context> where_;
  stream_ref on_;
  load what_;
  buffer target_;
};

} // namespace saeta::bench
