// Counts the allocations of a thread, and makes one of them fail.
#pragma once

#include <cstddef>
#include <limits>

namespace saeta::unit {

/// Allocations of the calling thread by plain `new`, since the thread began.
std::size_t allocations() noexcept;

/// While it lives, plain `new` throws std::bad_alloc on this thread after `successes` more.
class failing_new {
public:
  explicit failing_new(std::size_t successes) noexcept;
  failing_new(const failing_new&) = delete;
  failing_new& operator=(const failing_new&) = delete;
  ~failing_new();
};

} // namespace saeta::unit
