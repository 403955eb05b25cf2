// Counts the allocations of a thread by `new`, and makes them fail.
#pragma once

#include <cstddef>
#include <limits>

namespace saeta::unit {

/// Returns the number of allocations that the calling thread has made by `new` without alignment.
std::size_t allocations() noexcept;

/// Until the end of the scope, `new` throws std::bad_alloc on this thread after `successes` more calls.
class failing_new {
public:
  explicit failing_new(std::size_t successes) noexcept;
  failing_new(const failing_new&) = delete;
  failing_new& operator=(const failing_new&) = delete;
  ~failing_new();
};

} // namespace saeta::unit
