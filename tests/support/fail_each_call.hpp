// Runs work whose calls of the driver fail one after the other.
#pragma once

#include "saeta/base/error.hpp"
#include "support/faulty_backend.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace saeta::testing {

/// Runs `work` with the first call of the driver failing, then with the second one, until none of its calls
/// is left to fail. Only the failure may throw. `check` runs after each of them, when no call fails.
template <class Work, class Check>
void fail_each_call(faulty_backend& driver, const Work& work, const Check& check) {
  bool failed = true;
  for (std::uint64_t position = 1; failed; ++position) {
    SCOPED_TRACE(position);
    driver.fail_at(position);
    try {
      work();
    } catch (const error&) {
      EXPECT_TRUE(driver.failed());
    }
    failed = driver.failed();
    driver.fail_at(0);
    check();
  }
}

} // namespace saeta::testing
