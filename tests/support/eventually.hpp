// Waits for what another thread or process does.
#pragma once

#include <chrono>
#include <thread>

namespace saeta::support {

/// Waits until it is true, at most ten seconds. Returns whether it is.
template <class Condition>
bool eventually(const Condition& condition) {
  for (int attempt = 0; attempt < 10'000; ++attempt) {
    if (condition()) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

} // namespace saeta::support
