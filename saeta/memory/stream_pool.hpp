// The pool of streams that the contexts of a device lend.
//
// Owner     The contexts of the device share one pool (`context::borrow_stream`). When its lease ends, a
//           stream goes back to the pool and is lent again. A lease keeps the pool and the contexts' core
//           alive.
// Thread    The pool: any. A lease: one at a time.
// Failure   busy when as many streams are lent as the options allow (`context_options::max_streams`).
#pragma once

#include "saeta/base/process.hpp"
#include "saeta/base/required.hpp"
#include "saeta/order/timeline.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace saeta {

class stream_lease;

class stream_pool {
public:
  stream_pool(std::shared_ptr<timelines> clocks, std::size_t most)
      : clocks_(required(std::move(clocks), "clocks")), most_(most) {}

  /// @param keeps  kept alive by the lease; it owns this pool.
  /// @throws error busy, device.
  [[nodiscard]] stream_lease borrow(std::shared_ptr<void> keeps);

private:
  friend class stream_lease;
  friend struct stream_pool_probe; // tests/unit/memory
  void take_back(own_stream lent) noexcept;

  std::shared_ptr<timelines> clocks_;
  std::size_t most_;
  std::mutex mutex_;
  std::vector<own_stream> idle_;
  std::size_t lent_ = 0;
};

/// A borrowed stream.
class stream_lease {
public:
  stream_lease(stream_pool& from, std::shared_ptr<void> keeps, own_stream lent)
      : from_(&from), keeps_(std::move(keeps)), stream_(std::move(lent)) {}
  stream_lease(stream_lease&&) noexcept = default;
  stream_lease& operator=(stream_lease&&) = delete;
  ~stream_lease();

  [[nodiscard]] stream_ref ref() const { return stream_.ref(); }

private:
  stream_pool* from_;
  std::shared_ptr<void> keeps_;
  own_stream stream_;
  std::uint64_t made_in_ = fork_generation();
};

} // namespace saeta
