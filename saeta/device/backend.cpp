#include "saeta/device/backend.hpp"

#include "saeta/device/handles.hpp"

#include <atomic>
#include <cstdint>

namespace saeta {

// Counted here and not in the headers: a library that inlined a counter would count by itself.

std::uint64_t new_capture_id() noexcept {
  static std::atomic<std::uint64_t> next{first_capture_id};
  return next.fetch_add(1, std::memory_order_relaxed);
}

std::uint64_t backend::next_serial() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

} // namespace saeta
