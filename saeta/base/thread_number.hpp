// A small number for each thread, for things that are split up by thread.
#pragma once

#include <atomic>
#include <cstddef>

namespace saeta {

/// 0, 1, 2, ... in the order in which threads first ask; not reused when a thread ends.
inline std::size_t thread_number() noexcept {
  static std::atomic<std::size_t> next{0};
  thread_local const std::size_t mine = next.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

} // namespace saeta
