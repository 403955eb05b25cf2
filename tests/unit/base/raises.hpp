// Returns the error code that a call throws, for EXPECT_EQ, and optionally the message.
#pragma once

#include "saeta/base/error.hpp"

#include <optional>
#include <string>

namespace saeta::unit {

/// Returns nullopt if `action` does not throw.
template <class Action>
std::optional<errc> code_raised_by(Action action, std::string* message = nullptr) {
  try {
    action();
  } catch (const error& raised) {
    if (message != nullptr) {
      *message = raised.message();
    }
    return raised.code();
  }
  return std::nullopt;
}

} // namespace saeta::unit
