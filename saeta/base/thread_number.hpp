// A small number for each thread, for things that are split up by thread.
#pragma once

#include "saeta/base/thread_objects.hpp"

#include <cstddef>

namespace saeta {

namespace detail {
/// What thread_number() says, for a thread that it did not find in the table.
std::size_t look_up_thread_number() noexcept;
} // namespace detail

/// Consecutive in the order in which threads first ask; not reused when a thread ends.
inline std::size_t thread_number() noexcept {
  const auto* const own = static_cast<const std::size_t*>(find_own(thread_object::number));
  return own != nullptr ? *own : detail::look_up_thread_number();
}

} // namespace saeta
