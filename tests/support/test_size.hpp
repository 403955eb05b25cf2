// How much data a test looks at where a sanitizer multiplies the time for each byte of it.
#pragma once

#include "support/sanitizers.hpp"

#include <cstdint>

namespace saeta::support {

/// `all`, or `fewer` rows where a sanitizer looks at each, which finds no more in more of them.
constexpr std::int64_t rows_to_test([[maybe_unused]] std::int64_t all, [[maybe_unused]] std::int64_t fewer) {
#if defined(SAETA_ADDRESS_SANITIZER) || defined(SAETA_THREAD_SANITIZER)
  return fewer;
#else
  return all;
#endif
}

} // namespace saeta::support
