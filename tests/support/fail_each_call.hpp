// Tests failure paths: repeats work so that each of its backend calls fails once.
#pragma once

#include "saeta/base/error.hpp"
#include "support/faulty_backend.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace saeta::testing {

/// Runs `work` with its first backend call failing, then with its second one, and so on until it succeeds.
/// `work` may throw only the injected failure. `check` runs after each run, without failures.
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
