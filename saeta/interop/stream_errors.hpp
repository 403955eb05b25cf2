// Errors of ours as the callbacks of Arrow C streams return them.
//
// Standard  Arrow C stream interface: "get_schema" and "get_next" return 0, or an errno value.
#pragma once

#include "saeta/base/error.hpp"

#include <cerrno>

namespace saeta {

/// EINVAL for every code that has no errno value of its own.
inline int errno_of(errc code) noexcept {
  switch (code) {
  case errc::out_of_memory:
  case errc::budget_exceeded:
    return ENOMEM;
  case errc::io:
  case errc::device:
  case errc::device_lost:
    return EIO;
  case errc::unsupported:
    return ENOTSUP;
  default:
    return EINVAL;
  }
}

} // namespace saeta
