// A small number for each thread, for things that are split up by thread.
#pragma once

#include <cstddef>

namespace saeta {

/// Consecutive in the order in which threads first ask; not reused when a thread ends.
std::size_t thread_number() noexcept;

} // namespace saeta
