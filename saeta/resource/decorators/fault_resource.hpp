// Decorator for tests: fails the allocation or free at a given position, as a driver would.
//
// @code
// const auto faulty = std::make_shared<fault_resource>(upstream);
// faulty->fail_allocation(2); // the second from now throws out_of_memory
// const block memory = faulty->allocate(4096, 0, stream);
// const bool freed = faulty->deallocate(memory, stream);
// @endcode
//
// Position  Counted over all threads. Blocks of 0 bytes are not counted, because they never reach a driver.
// Thread    Any.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/resource/resource.hpp"

#include <atomic>
#include <cstdint>

namespace SAETA_EXPORT saeta {

class fault_resource final : public decorator {
public:
  explicit fault_resource(std::shared_ptr<resource> upstream) : decorator(std::move(upstream)) {}

  /// The allocation at `position` from now (1: the next) throws out_of_memory without calling upstream, and
  /// so do those after it up to `count` of them; 0: none.
  void fail_allocation(std::uint64_t position, std::uint64_t count = 1) noexcept {
    failing_ = count;
    fail_allocation_ = position == 0 ? 0 : position + count - 1;
  }
  /// The free at `position` from now returns false, and upstream keeps the block; 0: none.
  void fail_free(std::uint64_t position) noexcept { fail_free_ = position; }
  [[nodiscard]] std::uint64_t failures() const noexcept { return failures_; }

private:
  block do_allocate(const allocation_request& request, const stream_ref& stream) override;
  bool do_deallocate(const block& freed, std::span<const point> after) noexcept override;

  std::atomic<std::uint64_t> fail_allocation_{0}; ///< allocations up to the last that fails
  std::atomic<std::uint64_t> failing_{1};         ///< allocations from now until the last that fails
  std::atomic<std::uint64_t> fail_free_{0};
  std::atomic<std::uint64_t> failures_{0};
};

} // namespace saeta
