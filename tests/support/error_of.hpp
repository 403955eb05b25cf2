// Returns the error that a call throws.
#pragma once

#include "saeta/base/error.hpp"

#include <gtest/gtest.h>

namespace saeta::support {

/// The test fails if the call does not throw saeta::error.
template <class Call>
error error_of(const Call& call) {
  try {
    call();
  } catch (const error& thrown) {
    return thrown;
  }
  ADD_FAILURE() << "no error was thrown";
  return {errc::invalid_argument, "no error"};
}

} // namespace saeta::support
