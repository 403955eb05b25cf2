// A small number for each thread, for things that are split up by thread.
#pragma once

#include <atomic>
#include <cstddef>

namespace saeta {

namespace detail {

/// The thread's number + 1; 0 until it asks. Not of the initial-exec model, though every allocation reads it: that would
/// make all of the library's thread-local storage static, the static CUDA runtime's with its 4096 bytes of alignment among
/// it, and a library like that can't be loaded late, as Python does.
inline thread_local constinit std::size_t own_number = 0;

inline std::size_t take_number() noexcept {
  static std::atomic<std::size_t> taken{0};
  return own_number = taken.fetch_add(1, std::memory_order_relaxed) + 1;
}

} // namespace detail

/// 0, 1, 2, ... in the order in which threads first ask; not reused when a thread ends.
inline std::size_t thread_number() noexcept {
  const std::size_t own = detail::own_number;
  return (own != 0 ? own : detail::take_number()) - 1;
}

} // namespace saeta
