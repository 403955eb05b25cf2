// The code that a statement raises, for EXPECT_EQ; the message goes into `message` where it is wanted.
#pragma once

#include "saeta/base/error.hpp"

#include <optional>
#include <string>

namespace saeta::unit {

/// Nothing when `action` returns.
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
