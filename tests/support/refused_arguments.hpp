// Checks calls with a null pointer as an argument.
#pragma once

#include "saeta/base/text.hpp"
#include "support/error_of.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace saeta::support {

/// Expects that the call throws invalid_argument with a message that names the argument.
template <class Call>
void expect_null_refused(std::string_view argument, const Call& call) {
  const error thrown = error_of([&] { static_cast<void>(call()); });
  EXPECT_EQ(thrown.code(), errc::invalid_argument) << argument << ": " << thrown.message();
  EXPECT_EQ(thrown.message(), concat("the argument '", argument, "' is null"));
}

} // namespace saeta::support
