// Sizes of tests that would take too long under a sanitizer.
#pragma once

#include "support/sanitizers.hpp"

#include <cstdint>

namespace saeta::support {

/// Returns `all`, or `fewer` if the program is built with a sanitizer.
constexpr std::int64_t rows_to_test([[maybe_unused]] std::int64_t all, [[maybe_unused]] std::int64_t fewer) {
#if defined(SAETA_ADDRESS_SANITIZER) || defined(SAETA_THREAD_SANITIZER)
  return fewer;
#else
  return all;
#endif
}

} // namespace saeta::support
