// A stream that a context lends (context::borrow_stream).
//
// Owner     The holder of the lease; at its end the stream goes back to the context's pool, which the lease keeps alive.
// Thread    One at a time.
#pragma once

#include "saeta/base/process.hpp"
#include "saeta/order/timeline.hpp"

#include <cstdint>
#include <memory>
#include <utility>

namespace saeta {

struct context_core;

/// A borrowed stream; goes back to the context's pool at its end.
class stream_lease {
public:
  stream_lease(std::shared_ptr<context_core> from, own_stream lent)
      : from_(std::move(from)), stream_(std::move(lent)) {}
  stream_lease(stream_lease&&) noexcept = default;
  stream_lease& operator=(stream_lease&&) = delete;
  ~stream_lease();

  [[nodiscard]] stream_ref ref() const { return stream_.ref(); }

private:
  std::shared_ptr<context_core> from_;
  own_stream stream_;
  std::uint64_t made_in_ = fork_generation();
};

} // namespace saeta
